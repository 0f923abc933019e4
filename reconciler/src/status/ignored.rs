//! Fields that have no effect.

use super::Draft;
use crate::crd::{ChartSource, ConditionType, HelmRelease};
use crate::helm::Major;

/// Tells which fields of the spec have no effect, as long as there are any.
pub fn ignored(draft: &mut Draft, release: &HelmRelease, major: Major) {
    let chart = &release.spec.chart;
    let source = release.chart_source();
    let (reason, message) = match source {
        _ if release.spec.rollback().recreate == Some(true) && major == Major::Four => (
            "UnsupportedByHelm",
            "spec.rollback.recreate has no effect: helm 4 can't restart Pods at a rollback; \
             remove the field, or give the reconciler a helm 3",
        ),
        Ok(ChartSource::Repository(_)) if chart.secret_ref.is_some() => (
            "OtherSource",
            "spec.chart.secretRef has no effect: it is for charts from git; name the Secret in \
             spec.chart.chartPullSecret, or remove the field",
        ),
        Ok(ChartSource::Git(_)) if chart.chart_pull_secret.is_some() => (
            "OtherSource",
            "spec.chart.chartPullSecret has no effect: it is for charts from Helm repositories \
             and registries; name the Secret in spec.chart.secretRef, or remove the field",
        ),
        _ => return draft.clear(ConditionType::FieldsIgnored),
    };
    draft.set(ConditionType::FieldsIgnored, "True", reason, message);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::crd::HelmReleaseStatus;

    #[test]
    fn what_has_no_effect_is_told_while_it_is_asked_for() {
        let mut draft = Draft::new(&HelmReleaseStatus::default(), Timestamp::UNIX_EPOCH);
        let mut told = |spec: Value, major| {
            let release = json!({
                "apiVersion": "helm.fluxcd.io/v1", "kind": "HelmRelease",
                "metadata": {"name": "a", "namespace": "n"}, "spec": spec,
            });
            ignored(&mut draft, &serde_json::from_value(release).unwrap(), major);
            let told = draft.status.condition(ConditionType::FieldsIgnored);
            told.and_then(|told| told.message.clone())
        };
        let recreate = json!({"chart": {}, "rollback": {"enable": true, "recreate": true}});
        let git = json!({"git": "https://h/r", "path": "x", "secretRef": {"name": "s"}});
        let mut both = git.clone();
        both["chartPullSecret"] = json!({"name": "s"});
        let mut repository = json!({"repository": "https://h", "name": "x", "version": "1"});
        repository["chartPullSecret"] = json!({"name": "s"});
        let mut other = repository.clone();
        other["secretRef"] = json!({"name": "s"});
        for (spec, major, expected) in [
            (recreate.clone(), Major::Three, None),
            (recreate, Major::Four, Some("spec.rollback.recreate")),
            (
                json!({"chart": {}, "rollback": {"recreate": false}}),
                Major::Four,
                None,
            ),
            (
                json!({"chart": both}),
                Major::Four,
                Some("spec.chart.chartPullSecret"),
            ),
            (json!({"chart": git}), Major::Four, None),
            (
                json!({"chart": other}),
                Major::Four,
                Some("spec.chart.secretRef"),
            ),
            (json!({"chart": repository}), Major::Four, None),
        ] {
            let told = told(spec.clone(), major);
            match expected {
                Some(field) => assert!(told.unwrap().starts_with(field), "{spec}"),
                None => assert_eq!(told, None, "{spec}"),
            }
        }
    }
}
