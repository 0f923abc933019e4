//! What became of an action, judged by Helm's record.

use std::time::Duration;

use tandem_shared::child;

use super::{Annotations, message};
use crate::helm::Run;
use crate::mask::Mask;
use crate::reconcile::plan::{Action, TestResult};
use crate::storage::{History, RecordState};

/// How an action ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    /// The record says that it is done.
    Succeeded,
    /// It failed.
    Failed,
    /// We stopped it, which is no failure.
    Interrupted,
}

/// What became of an action.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// For people: helm's error without secrets, or what was done.
    pub message: String,
    /// The release's records afterwards, from a quorum list. While the last of them isn't
    /// [settled](RecordState::is_settled), `status.operation` has to stay: it is how the
    /// next plan knows that the operation was ours.
    pub history: History,
    /// What the tests came to, if they were run.
    pub test: Option<TestResult>,
    /// Whether the objects are annotated with the HelmRelease.
    pub annotations: Annotations,
    /// How long it took.
    pub took: Duration,
}

/// How an action ended, by the records after it. `tested` is what the record says of its
/// tests.
pub(super) fn end_of(
    action: &Action,
    child: child::End,
    history: &History,
    tested: Option<bool>,
) -> End {
    let deployed = |revision: i64| {
        let mut records = history.records().iter();
        records.any(|record| record.revision == revision && record.state == RecordState::Deployed)
    };
    let done = match action {
        Action::Install { revision, .. }
        | Action::Upgrade { revision }
        | Action::Rollback { revision, .. } => deployed(*revision),
        Action::Uninstall { .. } => history
            .last()
            .is_none_or(|last| last.state == RecordState::Uninstalled),
        Action::Test { .. } => test_succeeded(child, tested) == Some(true),
        _ => false,
    };
    match child {
        _ if done => End::Succeeded,
        child::End::Cancelled => End::Interrupted,
        _ => End::Failed,
    }
}

/// What tests came to; `None` if they weren't run, or not to their end.
fn test_succeeded(child: child::End, tested: Option<bool>) -> Option<bool> {
    match (child, tested) {
        // Without tests there is nothing that could fail.
        (child::End::Exited(0), tested) => Some(tested.unwrap_or(true)),
        (child::End::Cancelled, _) | (_, None) => None,
        (_, Some(_)) => Some(false),
    }
}

/// The outcome of a child that ended.
pub(super) fn judge(
    action: &Action,
    end: End,
    run: &Run,
    mask: &Mask,
    history: History,
    tested: Option<bool>,
) -> Outcome {
    let test = match action {
        Action::Test { revision } => test_succeeded(run.end, tested).map(|succeeded| TestResult {
            revision: *revision,
            succeeded,
        }),
        _ => None,
    };
    Outcome {
        end,
        message: describe(action, end, run, mask),
        history,
        test,
        annotations: Annotations::default(),
        took: run.took,
    }
}

fn describe(action: &Action, end: End, run: &Run, mask: &Mask) -> String {
    let verb = verb(action);
    let what = match (end, run.end) {
        (End::Succeeded, _) => return format!("{verb} succeeded"),
        (End::Interrupted, _) => format!("{verb} was interrupted"),
        (End::Failed, child::End::TimedOut) => {
            format!("{verb} failed: it took more than {} s", run.took.as_secs())
        }
        (End::Failed, child::End::Exited(code @ 129..)) => {
            format!("{verb} failed: helm was ended by signal {}", code - 128)
        }
        (End::Failed, _) => format!("{verb} failed"),
    };
    let said = message::of(&run.stderr, mask);
    if said.is_empty() {
        what
    } else {
        format!("{what}: {said}")
    }
}

fn verb(action: &Action) -> &'static str {
    match action {
        Action::Install { .. } => "install",
        Action::Upgrade { .. } => "upgrade",
        Action::Rollback { .. } => "rollback",
        Action::Test { .. } => "test",
        _ => "uninstall",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::child::End::{Cancelled, Exited, TimedOut};
    use super::*;
    use crate::identity::Stamp;
    use crate::storage::RecordMeta;

    fn history(records: &[(i64, RecordState)]) -> History {
        let record = |(revision, state): &(i64, RecordState)| RecordMeta {
            revision: *revision,
            state: state.clone(),
            stamp: Stamp::Missing,
            touched: jiff::Timestamp::UNIX_EPOCH,
            created: jiff::Timestamp::UNIX_EPOCH,
            resource_version: String::new(),
        };
        History::new(records.iter().map(record).collect())
    }

    #[test]
    fn the_record_counts_and_not_the_exit_code() {
        use RecordState::{
            Deployed, Failed, PendingUpgrade, Superseded, Uninstalled, Uninstalling,
        };
        let upgrade = Action::Upgrade { revision: 2 };
        let rollback = Action::Rollback { to: 1, revision: 2 };
        let uninstall = Action::Uninstall {
            revision: 2,
            no_hooks: false,
            failed_install: false,
        };
        for (action, child, records, expected) in [
            (
                &upgrade,
                Exited(0),
                vec![(1, Superseded), (2, Deployed)],
                End::Succeeded,
            ),
            // Helm keeps quiet about a revision that somebody else made meanwhile.
            (&upgrade, Exited(0), vec![(1, Deployed)], End::Failed),
            (
                &upgrade,
                Exited(1),
                vec![(1, Superseded), (2, Deployed)],
                End::Succeeded,
            ),
            (
                &upgrade,
                Exited(137),
                vec![(1, Deployed), (2, PendingUpgrade)],
                End::Failed,
            ),
            (
                &upgrade,
                TimedOut,
                vec![(1, Deployed), (2, Failed)],
                End::Failed,
            ),
            (
                &upgrade,
                Cancelled,
                vec![(1, Deployed), (2, Failed)],
                End::Interrupted,
            ),
            (&upgrade, Cancelled, vec![(1, Deployed)], End::Interrupted),
            (
                &upgrade,
                Cancelled,
                vec![(1, Superseded), (2, Deployed)],
                End::Succeeded,
            ),
            (
                &rollback,
                Exited(0),
                vec![(1, Superseded), (2, Deployed)],
                End::Succeeded,
            ),
            (&uninstall, Exited(0), vec![], End::Succeeded),
            // The wait for the objects was over, the records are gone.
            (&uninstall, Exited(1), vec![], End::Succeeded),
            (
                &uninstall,
                Exited(0),
                vec![(2, Uninstalled)],
                End::Succeeded,
            ),
            (&uninstall, Exited(1), vec![(2, Uninstalling)], End::Failed),
            (&uninstall, Exited(0), vec![(2, Uninstalling)], End::Failed),
        ] {
            let end = end_of(action, child, &history(&records), None);
            assert_eq!(end, expected, "{action:?} {child:?} {records:?}");
        }
    }

    #[test]
    fn tests_are_judged_by_record_and_exit_code() {
        for (child, tested, expected, result) in [
            (Exited(0), Some(true), End::Succeeded, Some(true)),
            (Exited(0), None, End::Succeeded, Some(true)),
            (Exited(0), Some(false), End::Failed, Some(false)),
            (Exited(1), Some(false), End::Failed, Some(false)),
            // One test passed, the next could not be made.
            (Exited(1), Some(true), End::Failed, Some(false)),
            (Exited(1), None, End::Failed, None),
            (TimedOut, Some(false), End::Failed, Some(false)),
            (Cancelled, Some(false), End::Interrupted, None),
            (Cancelled, None, End::Interrupted, None),
        ] {
            let action = Action::Test { revision: 3 };
            let records = history(&[(3, RecordState::Deployed)]);
            let end = end_of(&action, child, &records, tested);
            assert_eq!(end, expected, "{child:?} {tested:?}");
            let run = Run {
                end: child,
                stderr: String::new(),
                took: Duration::ZERO,
            };
            let outcome = judge(&action, end, &run, &Mask::default(), records, tested);
            let expected = result.map(|succeeded| TestResult {
                revision: 3,
                succeeded,
            });
            assert_eq!(outcome.test, expected, "{child:?} {tested:?}");
        }
    }

    #[test]
    fn failures_are_told_without_secrets() {
        let told = |child, stderr: &str| {
            let mask = Mask::of([&json!("hunter2secret")]);
            let run = Run {
                end: child,
                stderr: stderr.into(),
                took: Duration::from_secs(7),
            };
            let action = Action::Upgrade { revision: 2 };
            judge(&action, End::Failed, &run, &mask, History::default(), None).message
        };
        let stderr = "Error: UPGRADE FAILED: port \"hunter2secret\" is no number";
        assert_eq!(
            told(Exited(1), stderr),
            "upgrade failed: port \"***\" is no number"
        );
        assert_eq!(
            told(Exited(137), ""),
            "upgrade failed: helm was ended by signal 9"
        );
        assert_eq!(told(TimedOut, ""), "upgrade failed: it took more than 7 s");
    }
}
