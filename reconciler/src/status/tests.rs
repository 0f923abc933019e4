#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::crd::HelmReleaseStatus;
use crate::reconcile::plan::{Action, Decision, Reason, TestResult};
use crate::reconcile::release::Annotations;
use crate::storage::{History, RecordMeta, RecordState};

fn now() -> Timestamp {
    "2026-01-02T03:04:05.678Z".parse().unwrap()
}

fn target() -> Target {
    Target {
        namespace: "demo".into(),
        name: "web".into(),
    }
}

fn subject(target: &Target) -> Subject<'_> {
    Subject {
        generation: 2,
        target,
        chart: Some("c1"),
        origin: Some("https://h/r/web"),
        dependencies: None,
        ignore_test_failures: false,
    }
}

fn operation(action: OperationAction) -> Operation {
    Operation {
        action,
        revision: 2,
        process: "p".into(),
        epoch: 0,
        started_at: Time(now()),
        interrupted: false,
    }
}

fn outcome(end: End, message: &str, state: RecordState) -> Outcome {
    let record = RecordMeta {
        revision: 2,
        state,
        stamp: crate::identity::Stamp::Missing,
        touched: now(),
        created: now(),
        resource_version: "1".into(),
    };
    Outcome {
        end,
        message: message.into(),
        history: History::new(vec![record]),
        test: None,
        annotations: Annotations::default(),
        took: Duration::ZERO,
    }
}

fn decision(action: Action, reason: Reason) -> Decision {
    Decision {
        action,
        reason,
        message: "why".into(),
        until: None,
    }
}

#[test]
fn what_was_said_of_another_release_is_forgotten() {
    let before = HelmReleaseStatus {
        revision: Some("c1".into()),
        operation: Some(operation(OperationAction::Install)),
        ..pass(&HelmReleaseStatus::default(), |draft, subject| {
            settled(
                draft,
                subject,
                &decision(Action::Nothing, Reason::InSync),
                None,
            )
        })
    };
    let after = |target: &Target| {
        let mut draft = Draft::new(&before, now());
        draft.forget_others(target);
        draft.status
    };
    assert_eq!(after(&target()), before);
    for other in [
        Target {
            name: "other".into(),
            ..target()
        },
        Target {
            namespace: "other".into(),
            ..target()
        },
    ] {
        let status = after(&other);
        assert_eq!((status.operation, status.revision), (None, None));
        assert!(status.conditions.is_some_and(|left| !left.is_empty()));
    }
}

#[test]
fn an_operation_is_over_once_the_release_is_what_is_wanted() {
    let before = HelmReleaseStatus {
        operation: Some(operation(OperationAction::Upgrade)),
        ..HelmReleaseStatus::default()
    };
    let after = pass(&before, |draft, subject| {
        settled(
            draft,
            subject,
            &decision(Action::Nothing, Reason::InSync),
            None,
        )
    });
    assert_eq!(after.operation, None);
}

/// One pass: `steps` on a draft of what was before.
fn pass(
    before: &HelmReleaseStatus,
    steps: impl FnOnce(&mut Draft, &Subject<'_>),
) -> HelmReleaseStatus {
    let mut draft = Draft::new(before, now());
    steps(&mut draft, &subject(&target()));
    draft.status
}

fn installed() -> HelmReleaseStatus {
    pass(&HelmReleaseStatus::default(), |draft, subject| {
        started(draft, subject, &operation(OperationAction::Install));
        ended(
            draft,
            subject,
            OperationAction::Install,
            &outcome(End::Succeeded, "install succeeded", RecordState::Deployed),
        );
        settled(
            draft,
            subject,
            &decision(Action::Nothing, Reason::InSync),
            None,
        );
    })
}

fn failed_upgrade(before: &HelmReleaseStatus, message: &str) -> HelmReleaseStatus {
    pass(before, |draft, subject| {
        started(draft, subject, &operation(OperationAction::Upgrade));
        ended(
            draft,
            subject,
            OperationAction::Upgrade,
            &outcome(End::Failed, message, RecordState::Failed),
        );
        settled(
            draft,
            subject,
            &decision(Action::Wait, Reason::Backoff),
            None,
        );
    })
}

fn is(status: &HelmReleaseStatus, type_: ConditionType) -> Option<(&str, &str)> {
    let condition = status.condition(type_)?;
    Some((
        condition.status.as_str(),
        condition.reason.as_deref().unwrap_or_default(),
    ))
}

#[test]
fn an_install_that_goes_well() {
    let status = installed();
    assert_eq!(status.phase, Some(Phase::Succeeded));
    assert_eq!(status.observed_generation, Some(2));
    assert_eq!(status.revision.as_deref(), Some("c1"));
    assert_eq!(status.last_attempted_revision.as_deref(), Some("c1"));
    assert_eq!(
        status.last_attempted_chart.as_deref(),
        Some("https://h/r/web")
    );
    assert_eq!(status.release_name.as_deref(), Some("web"));
    assert_eq!(status.release_status.as_deref(), Some("deployed"));
    assert_eq!(status.operation, None);
    for type_ in [
        ConditionType::ChartFetched,
        ConditionType::Deployed,
        ConditionType::Released,
        ConditionType::Ready,
    ] {
        assert_eq!(is(&status, type_).unwrap().0, "True", "{type_:?}");
    }
    for type_ in [
        ConditionType::Reconciling,
        ConditionType::Stalled,
        ConditionType::RolledBack,
    ] {
        assert_eq!(is(&status, type_), None, "{type_:?}");
    }
    let message = status
        .condition(ConditionType::Released)
        .unwrap()
        .message
        .clone()
        .unwrap();
    assert_eq!(
        message,
        "Release was successful for Helm release 'web' in 'demo'."
    );
    let told = event(
        &HelmReleaseStatus::default(),
        &status,
        &target(),
        Some("install succeeded"),
    )
    .unwrap();
    assert!(
        !told.warning && told.reason == "ReleaseSynced" && told.note.contains("install succeeded"),
        "{told:?}"
    );
}

#[test]
fn a_steady_state_writes_nothing() {
    let before = installed();
    let after = pass(&before, |draft, subject| {
        draft.tick("2026-02-02T00:00:00Z".parse().unwrap());
        settled(
            draft,
            subject,
            &decision(Action::Nothing, Reason::InSync),
            None,
        );
    });
    assert_eq!(merge_patch(&before, &after), None);
    assert_eq!(event(&before, &after, &target(), None), None);
}

#[test]
fn while_helm_runs_nothing_is_claimed() {
    let status = pass(&installed(), |draft, subject| {
        started(draft, subject, &operation(OperationAction::Upgrade))
    });
    assert_eq!(status.phase, Some(Phase::Upgrading));
    assert_eq!(
        is(&status, ConditionType::Deployed),
        Some(("Unknown", "Upgrading"))
    );
    assert_eq!(
        is(&status, ConditionType::Ready),
        Some(("Unknown", "Upgrading"))
    );
    assert_eq!(
        is(&status, ConditionType::Reconciling),
        Some(("True", "Upgrading"))
    );
    assert_eq!(is(&status, ConditionType::Released).unwrap().0, "True");
    assert!(status.operation.is_some());
}

#[test]
fn a_failure_is_told_once_and_another_one_again() {
    let good = installed();
    let failed = failed_upgrade(&good, "upgrade failed: no");
    assert_eq!(failed.phase, Some(Phase::DeployFailed));
    assert_eq!(is(&failed, ConditionType::Deployed).unwrap().0, "False");
    assert_eq!(is(&failed, ConditionType::Released).unwrap().0, "False");
    assert_eq!(
        is(&failed, ConditionType::Ready),
        Some(("False", "UpgradeFailed"))
    );
    assert_eq!(
        is(&failed, ConditionType::Reconciling),
        Some(("True", "ProgressingWithRetry"))
    );
    assert_eq!(failed.revision.as_deref(), Some("c1"));
    let told = event(&good, &failed, &target(), None).unwrap();
    assert!(
        told.warning
            && told.reason == "FailedReleaseSync"
            && told.note.ends_with("upgrade failed: no"),
        "{told:?}"
    );
    let again = failed_upgrade(&failed, "upgrade failed: no");
    assert_eq!(event(&failed, &again, &target(), None), None);
    assert_eq!(merge_patch(&failed, &again), None);
    let otherwise = failed_upgrade(&failed, "upgrade failed: still no");
    assert!(event(&failed, &otherwise, &target(), None).is_some());
}

#[test]
fn a_rollback_whose_end_nobody_told_is_told_and_counted_once() {
    let begun = pass(
        &failed_upgrade(&installed(), "upgrade failed: no"),
        |draft, subject| started(draft, subject, &operation(OperationAction::Rollback)),
    );
    let history = |state| outcome(End::Failed, "", state).history;
    assert!(!missed_rollback(
        &begun,
        &history(RecordState::PendingRollback)
    ));
    assert!(!missed_rollback(&begun, &History::default()));
    let deployed = history(RecordState::Deployed);
    assert!(missed_rollback(&begun, &deployed));
    let told = pass(&begun, tell_missed_rollback);
    assert!(!missed_rollback(&told, &deployed));
    assert_eq!(told.rollback_count, Some(1));
    assert_eq!(is(&told, ConditionType::RolledBack).unwrap().0, "True");
    assert_eq!(is(&told, ConditionType::Released).unwrap().0, "False");

    // What is released next is counted by itself.
    let anew = pass(&told, |draft, subject| {
        begun_anew(draft);
        started(draft, subject, &operation(OperationAction::Upgrade));
    });
    assert_eq!(anew.rollback_count, None);
    assert!(!missed_rollback(&anew, &deployed));
}

#[test]
fn a_rollback_keeps_what_went_wrong_and_is_counted() {
    let status = pass(
        &failed_upgrade(&installed(), "upgrade failed: no"),
        |draft, subject| {
            started(draft, subject, &operation(OperationAction::Rollback));
            ended(
                draft,
                subject,
                OperationAction::Rollback,
                &outcome(End::Succeeded, "rollback succeeded", RecordState::Deployed),
            );
            settled(
                draft,
                subject,
                &decision(Action::Nothing, Reason::RolledBack),
                None,
            );
        },
    );
    assert_eq!(status.phase, Some(Phase::RolledBack));
    assert_eq!(status.rollback_count, Some(1));
    assert_eq!(is(&status, ConditionType::RolledBack).unwrap().0, "True");
    assert_eq!(is(&status, ConditionType::Released).unwrap().0, "False");
    assert_eq!(
        is(&status, ConditionType::Stalled),
        Some(("True", "RolledBack"))
    );
    let ready = status.condition(ConditionType::Ready).unwrap();
    assert!(
        ready.status == "False"
            && ready
                .message
                .as_ref()
                .unwrap()
                .contains("upgrade failed: no"),
        "{ready:?}"
    );
    assert!(
        status.operation.is_some(),
        "the plan has to know whose rollback it was"
    );
    let mended = pass(&status, |draft, subject| {
        settled(
            draft,
            subject,
            &decision(Action::Nothing, Reason::InSync),
            None,
        )
    });
    assert_eq!(
        (
            mended.rollback_count,
            is(&mended, ConditionType::RolledBack)
        ),
        (None, None)
    );
}

#[test]
fn an_interruption_is_no_failure() {
    let status = pass(&installed(), |draft, subject| {
        started(draft, subject, &operation(OperationAction::Upgrade));
        ended(
            draft,
            subject,
            OperationAction::Upgrade,
            &outcome(
                End::Interrupted,
                "upgrade was interrupted",
                RecordState::Failed,
            ),
        );
    });
    assert!(status.operation.as_ref().unwrap().interrupted);
    assert_eq!(is(&status, ConditionType::Released).unwrap().0, "True");
    assert_eq!(is(&status, ConditionType::Ready).unwrap().0, "Unknown");
}

#[test]
fn an_operation_stays_until_its_record_is_settled() {
    let status = pass(&installed(), |draft, subject| {
        started(draft, subject, &operation(OperationAction::Upgrade));
        ended(
            draft,
            subject,
            OperationAction::Upgrade,
            &outcome(End::Failed, "killed", RecordState::PendingUpgrade),
        );
    });
    assert!(status.operation.is_some());
}

#[test]
fn the_removal_of_a_failed_install_keeps_its_reason() {
    let status = pass(&HelmReleaseStatus::default(), |draft, subject| {
        started(draft, subject, &operation(OperationAction::Install));
        ended(
            draft,
            subject,
            OperationAction::Install,
            &outcome(End::Failed, "install failed: no", RecordState::Failed),
        );
        started(
            draft,
            subject,
            &operation(OperationAction::RemoveFailedInstall),
        );
        let gone = Outcome {
            history: History::default(),
            ..outcome(End::Succeeded, "uninstall succeeded", RecordState::Failed)
        };
        ended(draft, subject, OperationAction::RemoveFailedInstall, &gone);
        settled(
            draft,
            subject,
            &decision(Action::Wait, Reason::Backoff),
            None,
        );
    });
    let ready = status.condition(ConditionType::Ready).unwrap();
    assert!(
        ready.status == "False" && ready.message.as_deref() == Some("install failed: no"),
        "{ready:?}"
    );
    assert_eq!(status.phase, Some(Phase::DeployFailed));
}

#[test]
fn a_revision_made_anew_is_untested() {
    let tested = |revision| {
        let mut status = installed();
        status.last_test = Some(LastTest {
            revision,
            succeeded: false,
            finished_at: Time(now()),
        });
        status
    };
    let left = |tested_revision, action| {
        pass(&tested(tested_revision), |draft, subject| {
            started(draft, subject, &operation(action));
        })
        .last_test
        .map(|test| test.revision)
    };
    // The operation makes revision 2.
    assert_eq!(left(1, OperationAction::Upgrade), Some(1));
    assert_eq!(left(1, OperationAction::Rollback), Some(1));
    assert_eq!(left(2, OperationAction::Install), None);
    assert_eq!(left(3, OperationAction::Upgrade), None);
    assert_eq!(left(2, OperationAction::RemoveFailedInstall), Some(2));
    assert_eq!(left(2, OperationAction::Test), Some(2));
}

#[test]
fn tests_that_fail() {
    let run = |ignore: bool| {
        pass(&installed(), |draft, subject| {
            let subject = Subject {
                ignore_test_failures: ignore,
                ..*subject
            };
            started(draft, &subject, &operation(OperationAction::Test));
            let test = Some(TestResult {
                revision: 2,
                succeeded: false,
            });
            ended(
                draft,
                &subject,
                OperationAction::Test,
                &Outcome {
                    test,
                    ..outcome(End::Failed, "test failed: no", RecordState::Deployed)
                },
            );
            let reason = if ignore {
                Reason::InSync
            } else {
                Reason::TestFailed
            };
            settled(draft, &subject, &decision(Action::Nothing, reason), None);
        })
    };
    let counted = run(false);
    assert_eq!(counted.phase, Some(Phase::TestFailed));
    assert_eq!(is(&counted, ConditionType::Released).unwrap().0, "False");
    assert_eq!(
        is(&counted, ConditionType::Stalled),
        Some(("True", "TestFailed"))
    );
    assert!(!counted.last_test.unwrap().succeeded);
    let ignored = run(true);
    assert_eq!(is(&ignored, ConditionType::Released).unwrap().0, "True");
    assert_eq!(is(&ignored, ConditionType::Tested).unwrap().0, "False");
    let message = ignored
        .condition(ConditionType::Tested)
        .unwrap()
        .message
        .clone()
        .unwrap();
    assert_eq!(message, "test failed - ignoring failures: no");
}

fn obstacle(kind: ObstacleKind) -> Obstacle {
    Obstacle {
        kind,
        reason: "PathNotFound",
        message: "no such path".into(),
    }
}

#[test]
fn a_chart_that_cannot_be_had_leaves_the_release_as_it_is() {
    let blocked = decision(Action::Wait, Reason::Blocked("PathNotFound"));
    let never = pass(&HelmReleaseStatus::default(), |draft, subject| {
        settled(
            draft,
            subject,
            &blocked,
            Some(&obstacle(ObstacleKind::ChartFailed)),
        );
    });
    assert_eq!(never.phase, Some(Phase::ChartFetchFailed));
    assert_eq!(is(&never, ConditionType::ChartFetched).unwrap().0, "False");
    assert_eq!(is(&never, ConditionType::Released).unwrap().0, "False");
    assert_eq!(
        is(&never, ConditionType::Ready),
        Some(("False", "PathNotFound"))
    );
    let in_sync = decision(Action::Nothing, Reason::InSync);
    let newer = pass(&installed(), |draft, subject| {
        settled(
            draft,
            subject,
            &in_sync,
            Some(&obstacle(ObstacleKind::ChartFailed)),
        );
    });
    assert_eq!(newer.revision.as_deref(), Some("c1"));
    assert_eq!(is(&newer, ConditionType::Deployed).unwrap().0, "True");
    assert_eq!(
        is(&newer, ConditionType::Ready),
        Some(("False", "PathNotFound"))
    );
    let silent = pass(&installed(), |draft, subject| {
        settled(
            draft,
            subject,
            &in_sync,
            Some(&obstacle(ObstacleKind::SourceSilent)),
        );
    });
    assert_eq!(
        is(&silent, ConditionType::ChartFetched),
        Some(("False", "PathNotFound"))
    );
    assert_eq!(is(&silent, ConditionType::Ready).unwrap().0, "True");
}

#[test]
fn values_that_cannot_be_had_are_told_apart_from_the_chart() {
    let blocked = decision(Action::Wait, Reason::Blocked("PathNotFound"));
    let never = pass(&HelmReleaseStatus::default(), |draft, subject| {
        settled(
            draft,
            subject,
            &blocked,
            Some(&obstacle(ObstacleKind::NoValues)),
        );
    });
    assert_eq!(never.phase, Some(Phase::Failed));
    assert_eq!(is(&never, ConditionType::ChartFetched).unwrap().0, "True");
    assert_eq!(is(&never, ConditionType::Released).unwrap().0, "False");
    // Tried again by itself, so nobody is waited for.
    assert_eq!(is(&never, ConditionType::Stalled), None);
    assert_eq!(
        is(&never, ConditionType::Ready),
        Some(("False", "PathNotFound"))
    );
    let in_sync = decision(Action::Nothing, Reason::InSync);
    let old = pass(&installed(), |draft, subject| {
        settled(
            draft,
            subject,
            &in_sync,
            Some(&obstacle(ObstacleKind::OldValues)),
        );
    });
    assert_eq!(is(&old, ConditionType::ChartFetched).unwrap().0, "True");
    assert_eq!(is(&old, ConditionType::Ready).unwrap().0, "True");
    let ready = old.condition(ConditionType::Ready).unwrap();
    let message = ready.message.as_deref().unwrap();
    assert!(message.ends_with("no such path"), "{message}");
    let well = pass(&old, |draft, subject| {
        settled(draft, subject, &in_sync, None)
    });
    let ready = well.condition(ConditionType::Ready).unwrap();
    assert!(!ready.message.as_deref().unwrap().contains("old"));
}

#[test]
fn a_chart_that_is_awaited_is_no_news_to_what_is_released() {
    let blocked = decision(Action::Wait, Reason::Blocked(Obstacle::FETCHING));
    let fetching = obstacle(ObstacleKind::Fetching);
    let before = installed();
    let same = pass(&before, |draft, subject| {
        settled(draft, subject, &blocked, Some(&fetching))
    });
    assert_eq!(merge_patch(&before, &same), None);
    let edited = pass(&before, |draft, subject| {
        settled(
            draft,
            &Subject {
                generation: 3,
                ..*subject
            },
            &blocked,
            Some(&fetching),
        );
    });
    assert_eq!(is(&edited, ConditionType::Ready).unwrap().0, "Unknown");
    assert_eq!(edited.observed_generation, Some(2));
}

#[test]
fn what_somebody_has_to_mend_is_stalled() {
    let invalid = decision(Action::Refuse, Reason::Blocked("InvalidValues"));
    let status = pass(&installed(), |draft, subject| {
        settled(
            draft,
            subject,
            &invalid,
            Some(&obstacle(ObstacleKind::Invalid)),
        );
    });
    assert_eq!(status.phase, Some(Phase::Failed));
    assert_eq!(is(&status, ConditionType::Stalled).unwrap().0, "True");
    assert_eq!(is(&status, ConditionType::Reconciling), None);
    assert_eq!(is(&status, ConditionType::ChartFetched).unwrap().0, "True");
    let no_chart = pass(&HelmReleaseStatus::default(), |draft, subject| {
        settled(
            draft,
            subject,
            &invalid,
            Some(&obstacle(ObstacleKind::NoChart)),
        );
    });
    assert_eq!(no_chart.phase, Some(Phase::ChartFetchFailed));
    assert_eq!(is(&no_chart, ConditionType::Stalled).unwrap().0, "True");
    let owned = pass(&installed(), |draft, subject| {
        settled(
            draft,
            subject,
            &decision(Action::Refuse, Reason::OwnedByOther),
            None,
        );
    });
    assert_eq!(
        is(&owned, ConditionType::Ready),
        Some(("False", "OwnedByOther"))
    );
}

#[test]
fn conditions_change_their_times_only_when_they_change() {
    let before = installed();
    let after = pass(&before, |draft, _| {
        draft.tick("2026-03-01T00:00:00Z".parse().unwrap());
        draft.set(ConditionType::Ready, "True", "Other", "words");
        draft.set(ConditionType::Deployed, "False", "Other", "words");
    });
    let times = |status: &HelmReleaseStatus, type_| {
        let condition = status.condition(type_).unwrap().clone();
        (
            condition.last_update_time.unwrap().0,
            condition.last_transition_time.unwrap().0,
        )
    };
    let (update, transition) = times(&after, ConditionType::Ready);
    assert!(update > transition);
    let (update, transition) = times(&after, ConditionType::Deployed);
    assert_eq!(update, transition);
    assert_eq!(
        times(&after, ConditionType::Released),
        times(&before, ConditionType::Released)
    );
    assert_eq!(transition.subsec_nanosecond(), 0);
}

#[test]
fn a_patch_takes_away_what_is_gone() {
    let mut before = installed();
    before.rollback_count = Some(3);
    before.operation = Some(Operation {
        interrupted: true,
        ..operation(OperationAction::Upgrade)
    });
    let mut after = before.clone();
    after.rollback_count = None;
    after.operation = Some(operation(OperationAction::Upgrade));
    let patch = merge_patch(&before, &after).unwrap();
    assert_eq!(
        patch,
        serde_json::json!({"status": {"rollbackCount": null, "operation": {"interrupted": null}}})
    );
}

#[test]
fn back_to_a_former_name_what_was_known_of_it_counts_again() {
    let target = |name: &str| Target {
        namespace: "demo".to_owned(),
        name: name.to_owned(),
    };
    let before = HelmReleaseStatus {
        release_name: Some("one".to_owned()),
        release_namespace: Some("demo".to_owned()),
        revision: Some("c0ffee".to_owned()),
        last_attempted_revision: Some("c0ffee".to_owned()),
        ..HelmReleaseStatus::default()
    };
    let mut draft = Draft::new(&before, Timestamp::UNIX_EPOCH);
    draft.forget_others(&target("two"));
    assert_eq!(draft.status.revision, None);
    assert_eq!(draft.status.former_releases[0].target(), target("one"));
    draft.about(&target("two"));
    draft.forget_others(&target("one"));
    assert_eq!(draft.status.revision, before.revision);
    // The other one was never tried.
    assert_eq!(draft.status.former_releases, []);
}

#[test]
fn what_was_annotated_under_a_number_says_nothing_of_the_next_one_of_that_number() {
    let annotated = |revision| HelmReleaseStatus {
        annotated_revision: Some(revision),
        ..installed()
    };
    let after = |revision, action| {
        pass(&annotated(revision), |draft, subject| {
            started(draft, subject, &operation(action));
        })
        .annotated_revision
    };
    // The operation is on revision 2.
    for action in [
        OperationAction::Install,
        OperationAction::Upgrade,
        OperationAction::Rollback,
    ] {
        assert_eq!(after(1, action), Some(1), "{action:?}");
        assert_eq!(after(2, action), None, "{action:?}");
    }
    assert_eq!(after(2, OperationAction::Test), Some(2));
}

#[test]
fn what_another_helmrelease_has_is_annotated_anew_once_it_comes_back() {
    let annotated = HelmReleaseStatus {
        annotated_revision: Some(2),
        ..installed()
    };
    let refused = |reason| {
        pass(&annotated, |draft, subject| {
            settled(draft, subject, &decision(Action::Refuse, reason), None);
        })
        .annotated_revision
    };
    assert_eq!(refused(Reason::OwnedByOther), None);
    assert_eq!(refused(Reason::NamespaceMissing), Some(2));
}

#[test]
fn what_dependencies_stood_for_is_kept_of_what_was_tried_last() {
    let target = target();
    let resolution: Resolution = serde_json::from_value(json!({"for": "i1:x", "dependencies": [
        {"name": "lib", "version": "1.0.0", "repository": "https://h", "digest": "d"}]}))
    .unwrap();
    let subject = Subject {
        dependencies: Some(&resolution),
        ..subject(&target)
    };
    let mut draft = Draft::new(&HelmReleaseStatus::default(), now());
    started(&mut draft, &subject, &operation(OperationAction::Upgrade));
    assert_eq!(draft.status.dependencies.as_ref(), Some(&resolution));
    // What isn't about a chart says nothing of it, and the next chart may have none.
    let none = Subject {
        dependencies: None,
        ..subject
    };
    started(&mut draft, &none, &operation(OperationAction::Test));
    assert_eq!(draft.status.dependencies.as_ref(), Some(&resolution));
    started(&mut draft, &none, &operation(OperationAction::Upgrade));
    assert_eq!(draft.status.dependencies, None);
}
