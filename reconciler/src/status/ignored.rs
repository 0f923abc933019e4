//! Fields that the helm at hand can't follow.

use super::Draft;
use crate::crd::{ConditionType, HelmReleaseSpec};
use crate::helm::Major;

/// Tells which fields of the spec have no effect, as long as there are any.
pub fn ignored(draft: &mut Draft, spec: &HelmReleaseSpec, major: Major) {
    let recreate = spec.rollback().recreate == Some(true);
    if recreate && major == Major::Four {
        draft.set(
            ConditionType::FieldsIgnored,
            "True",
            "UnsupportedByHelm",
            "spec.rollback.recreate has no effect: helm 4 can't restart Pods at a rollback; \
             remove the field, or give the reconciler a helm 3",
        );
    } else {
        draft.clear(ConditionType::FieldsIgnored);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::crd::HelmReleaseStatus;

    #[test]
    fn what_helm_can_not_do_is_told_while_it_is_asked_for() {
        let spec =
            |rollback| serde_json::from_value(json!({"chart": {}, "rollback": rollback})).unwrap();
        let asking = spec(json!({"enable": true, "recreate": true}));
        let mut draft = Draft::new(&HelmReleaseStatus::default(), Timestamp::UNIX_EPOCH);
        ignored(&mut draft, &asking, Major::Three);
        assert!(
            draft
                .status
                .condition(ConditionType::FieldsIgnored)
                .is_none()
        );
        ignored(&mut draft, &asking, Major::Four);
        let told = draft
            .status
            .condition(ConditionType::FieldsIgnored)
            .unwrap();
        let message = told.message.as_deref().unwrap();
        assert!(message.contains("spec.rollback.recreate"), "{message}");
        ignored(&mut draft, &spec(json!({"recreate": false})), Major::Four);
        assert!(
            draft
                .status
                .condition(ConditionType::FieldsIgnored)
                .is_none()
        );
    }
}
