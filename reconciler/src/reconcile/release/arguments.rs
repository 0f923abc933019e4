//! A job as arguments of helm.

use super::{Job, ReleaseError};
use crate::helm::{self, Apply, Major};
use crate::identity::{IDENTITY_LABEL, Identity};
use crate::reconcile::plan::Action;
use crate::storage::Record;

/// The arguments of the job's child. How objects are applied is read from the last record and
/// said explicitly.
///
/// # Errors
/// If the job lacks what its action needs.
pub(super) fn of(
    job: &Job,
    major: Major,
    last: Option<&Record>,
) -> Result<Vec<String>, ReleaseError> {
    let spec = &job.spec;
    let method = last.map(Record::apply_method);
    let target = &job.target;
    Ok(match job.action {
        Action::Install { revision, replace } => helm::Install {
            target,
            chart: job.chart_directory()?,
            label: label(job.identity()?, revision),
            description: &job.description("Install complete"),
            apply: Apply::choose(major, None, spec.force_upgrade()),
            timeout: spec.timeout(),
            wait: spec.wait(),
            skip_crds: spec.skip_crds(),
            skip_validation: spec.disable_openapi_validation(),
            replace,
        }
        .args(major),
        Action::Upgrade { revision } => helm::Upgrade {
            target,
            chart: job.chart_directory()?,
            label: label(job.identity()?, revision),
            description: &job.description("Upgrade complete"),
            apply: Apply::choose(major, method, spec.force_upgrade()),
            timeout: spec.timeout(),
            wait: spec.wait(),
            skip_validation: spec.disable_openapi_validation(),
            reset_values: spec.reset_values(),
            history: spec.max_history(),
        }
        .args(major),
        Action::Rollback { to, .. } => {
            let rollback = spec.rollback();
            helm::Rollback {
                target,
                to,
                apply: Apply::choose(major, method, rollback.force.unwrap_or(false)),
                timeout: rollback.timeout(),
                wait: rollback.wait.unwrap_or(false),
                no_hooks: rollback.disable_hooks.unwrap_or(false),
                recreate_pods: rollback.recreate.unwrap_or(false),
                history: spec.max_history(),
            }
            .args(major)
        }
        Action::Test { .. } => helm::Test {
            target,
            timeout: spec.test().timeout(),
        }
        .args(),
        Action::Uninstall { no_hooks, .. } => helm::Uninstall {
            target,
            timeout: spec.timeout(),
            no_hooks,
        }
        .args(),
        _ => return Err(job.incomplete("helm has no part in it")),
    })
}

fn label(identity: &Identity, revision: i64) -> String {
    format!("{IDENTITY_LABEL}={}", identity.label(revision))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;
    use crate::reconcile::release::job::tests::job;
    use crate::storage::tests::record;

    fn line(action: Action, spec: Value, last: Option<Value>) -> String {
        let last = last.map(record);
        of(&job(action, spec), Major::Four, last.as_ref())
            .unwrap()
            .join(" ")
    }

    fn contains_all(line: &str, parts: &[&str]) {
        for part in parts {
            assert!(
                format!("{line} ").contains(&format!("{part} ")),
                "{part} is not in {line}"
            );
        }
    }

    #[test]
    fn the_settings_of_a_helm_release_arrive() {
        let install = Action::Install {
            revision: 1,
            replace: false,
        };
        let spec = json!({
            "timeout": 7, "wait": true, "skipCRDs": true, "maxHistory": 2, "resetValues": false,
            "values": {"password": "hunter2"},
            "rollback": {"timeout": 8, "wait": true, "disableHooks": true, "force": true},
            "test": {"timeout": 9},
        });
        let identity = job(install.clone(), json!({})).identity.unwrap();
        let label = |revision| format!("--labels {IDENTITY_LABEL}={}", identity.label(revision));
        contains_all(
            &line(install, spec.clone(), None),
            &["--timeout 7s", "--wait", "--skip-crds", &label(1)],
        );
        let server_side = json!({"apply_method": "ssa"});
        contains_all(
            &line(
                Action::Upgrade { revision: 4 },
                spec.clone(),
                Some(server_side.clone()),
            ),
            &[
                "--timeout 7s",
                "--wait",
                "--history-max 3",
                "--reuse-values",
                "--server-side=true --force-conflicts",
                "--description Upgrade complete: 0123abc",
                &label(4),
            ],
        );
        contains_all(
            &line(
                Action::Rollback { to: 2, revision: 5 },
                spec.clone(),
                Some(server_side),
            ),
            &[
                "2",
                "--timeout 8s",
                "--wait",
                "--no-hooks",
                "--server-side=false --force-replace",
            ],
        );
        contains_all(
            &line(Action::Test { revision: 5 }, spec, None),
            &["--timeout 9s"],
        );
    }

    #[test]
    fn a_release_goes_on_as_its_last_record_was_applied() {
        let upgrade = || Action::Upgrade { revision: 2 };
        let client_side = line(upgrade(), json!({}), Some(json!({})));
        contains_all(&client_side, &["--server-side=false"]);
        assert!(!client_side.contains("--force-conflicts"), "{client_side}");
        assert!(
            !client_side.contains("--disable-openapi-validation"),
            "{client_side}"
        );
        let validation = json!({"disableOpenAPIValidation": true});
        contains_all(
            &line(upgrade(), validation, Some(json!({}))),
            &["--disable-openapi-validation"],
        );
        let force = json!({"forceUpgrade": true});
        contains_all(
            &line(upgrade(), force, Some(json!({"apply_method": "ssa"}))),
            &["--server-side=false --force-replace"],
        );
    }

    #[test]
    fn values_are_never_arguments() {
        let spec = json!({"values": {"password": "hunter2"}});
        for action in [
            Action::Install {
                revision: 1,
                replace: true,
            },
            Action::Upgrade { revision: 2 },
            Action::Rollback { to: 1, revision: 3 },
            Action::Test { revision: 3 },
            Action::Uninstall {
                revision: 3,
                no_hooks: true,
                failed_install: false,
            },
        ] {
            let job = job(action.clone(), spec.clone());
            assert!(!line(action.clone(), spec.clone(), None).contains("hunter2"));
            let takes_values = matches!(action, Action::Install { .. } | Action::Upgrade { .. });
            assert_eq!(job.stdin().contains("hunter2"), takes_values, "{action:?}");
        }
    }

    #[test]
    fn a_job_that_lacks_something_is_refused() {
        let mut job = job(Action::Upgrade { revision: 2 }, json!({}));
        job.chart = None;
        let error = of(&job, Major::Four, None).unwrap_err().to_string();
        assert_eq!(
            error,
            "can't Upgrade release demo/app: its chart is missing"
        );
    }
}
