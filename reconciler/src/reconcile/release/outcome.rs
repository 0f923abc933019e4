//! What became of an action, judged by Helm's record.

use std::time::Duration;

use tandem_shared::child;

use super::{Job, message};
use crate::helm::Run;
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
    /// How long it took.
    pub took: Duration,
}

/// Judges a child that ended, by the records after it. `tested` is what the record says of
/// its tests.
pub(super) fn judge(job: &Job, run: &Run, history: History, tested: Option<bool>) -> Outcome {
    let state = |revision: i64| {
        let mut records = history.records().iter();
        records
            .find(|record| record.revision == revision)
            .map(|record| &record.state)
    };
    let mut test = None;
    let done = match &job.action {
        Action::Install { revision, .. }
        | Action::Upgrade { revision }
        | Action::Rollback { revision, .. } => state(*revision) == Some(&RecordState::Deployed),
        Action::Uninstall { .. } => history
            .last()
            .is_none_or(|last| last.state == RecordState::Uninstalled),
        Action::Test { revision } => {
            let succeeded = match (tested, run.end) {
                (Some(succeeded), _) => Some(succeeded && run.end == child::End::Exited(0)),
                // No tests: nothing that could fail.
                (None, child::End::Exited(0)) => Some(true),
                (None, _) => None,
            };
            let interrupted = run.end == child::End::Cancelled;
            test = succeeded
                .filter(|succeeded| *succeeded || !interrupted)
                .map(|succeeded| TestResult {
                    revision: *revision,
                    succeeded,
                });
            succeeded == Some(true)
        }
        _ => false,
    };
    let end = if done {
        End::Succeeded
    } else if run.end == child::End::Cancelled {
        End::Interrupted
    } else {
        End::Failed
    };
    let message = describe(job, run, end);
    Outcome {
        end,
        message,
        history,
        test,
        took: run.took,
    }
}

fn describe(job: &Job, run: &Run, end: End) -> String {
    if end == End::Succeeded {
        return match &job.action {
            Action::Install { .. } => "install succeeded",
            Action::Upgrade { .. } => "upgrade succeeded",
            Action::Rollback { .. } => "rollback succeeded",
            Action::Test { .. } => "test succeeded",
            _ => "uninstall succeeded",
        }
        .to_owned();
    }
    let what = match (&job.action, run.end) {
        (action, child::End::Cancelled) => format!("{} was interrupted", verb(action)),
        (action, child::End::TimedOut) => {
            format!(
                "{} failed: it took more than {} s",
                verb(action),
                run.took.as_secs()
            )
        }
        (action, child::End::Exited(code @ 129..)) => {
            format!(
                "{} failed: helm was ended by signal {}",
                verb(action),
                code - 128
            )
        }
        (action, child::End::Exited(_)) => format!("{} failed", verb(action)),
    };
    let said = message::of(&run.stderr, &job.mask);
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
