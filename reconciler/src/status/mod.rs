//! What a HelmRelease's status says after each step of a pass. Pure: from the status before
//! and what happened.
//!
//! Phases, and conditions named after them, are helm-operator's; `Ready`, `Reconciling` and
//! `Stalled` follow kstatus. The latter two, `FieldsIgnored` and `Suspended` are there
//! only while they are true.

mod draft;
mod ignored;
mod patch;
mod settled;
#[cfg(test)]
mod tests;
mod told;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tandem_shared::request::Resolution;

use crate::crd::{
    ConditionType, HelmReleaseStatus, LastTest, Operation, OperationAction, Phase, Target,
};
use crate::reconcile::release::{End, Outcome};
use crate::storage::{History, RecordState};
use crate::view::Trouble;

pub use draft::Draft;
pub use ignored::ignored;
pub use patch::merge_patch;
pub use settled::{refuse, resumed, settled};
pub use told::event;

/// What a status is about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The generation that is worked on.
    pub generation: i64,
    /// The release.
    pub target: &'a Target,
    /// Commit or version of the chart, if there is one.
    pub chart: Option<&'a str>,
    /// Where the chart is from, as far as that can be made out.
    pub origin: Option<&'a str>,
    /// What its dependencies stand for, if it has any.
    pub dependencies: Option<&'a Resolution>,
    /// Whether failing tests are of no importance.
    pub ignore_test_failures: bool,
}

/// What keeps a release from being made, or from being made from the newest chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// What kind.
    pub kind: ObstacleKind,
    /// The reason in one word.
    pub reason: &'static str,
    /// The reason in a sentence, with what to do.
    pub message: String,
}

/// Kinds of obstacles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObstacleKind {
    /// The chart (or the credential for it) isn't there yet; time will tell.
    Fetching,
    /// The chart can't be had, or not in its newest form.
    ChartFailed,
    /// The HelmRelease doesn't say where its chart comes from.
    NoChart,
    /// The source doesn't answer; what there is may still be the newest.
    SourceSilent,
    /// Values can't be had from where they are to come from.
    NoValues,
    /// Values that were had may not be the newest.
    OldValues,
    /// The HelmRelease by itself, or the values that it names, make no sense.
    Invalid,
}

impl Obstacle {
    /// The reason of all that isn't there yet.
    pub const FETCHING: &'static str = "Fetching";

    /// The chart, or what comes with it, isn't there yet.
    #[must_use]
    pub fn fetching(why: &str) -> Self {
        Self {
            kind: ObstacleKind::Fetching,
            reason: Self::FETCHING,
            message: why.to_owned(),
        }
    }

    /// Somebody has to correct the HelmRelease, or the values that it names.
    #[must_use]
    pub fn invalid(reason: &'static str, message: String) -> Self {
        Self {
            kind: ObstacleKind::Invalid,
            reason,
            message,
        }
    }

    /// The chart, or what comes with it, can't be had.
    #[must_use]
    pub fn missing(trouble: &Trouble) -> Self {
        Self {
            kind: ObstacleKind::ChartFailed,
            reason: trouble.reason,
            message: trouble.message.clone(),
        }
    }

    /// A values file behind a URL can't be had.
    #[must_use]
    pub fn no_values(trouble: &Trouble) -> Self {
        Self {
            kind: ObstacleKind::NoValues,
            ..Self::missing(trouble)
        }
    }

    /// There is a values file, which may not be the newest.
    #[must_use]
    pub fn old_values(trouble: &Trouble) -> Self {
        Self {
            kind: ObstacleKind::OldValues,
            ..Self::missing(trouble)
        }
    }

    /// There is a chart, which may not be the newest.
    #[must_use]
    pub fn outdated(trouble: &Trouble) -> Self {
        let kind = if trouble.source {
            ObstacleKind::SourceSilent
        } else {
            ObstacleKind::ChartFailed
        };
        Self {
            kind,
            ..Self::missing(trouble)
        }
    }
}

/// A helm child is about to be started.
pub fn started(draft: &mut Draft, subject: &Subject<'_>, operation: &Operation) {
    let Target { namespace, name } = subject.target;
    let (phase, verb) = match operation.action {
        OperationAction::Install => (Some(Phase::Installing), "install"),
        OperationAction::Upgrade => (Some(Phase::Upgrading), "upgrade"),
        OperationAction::Rollback => (Some(Phase::RollingBack), "rollback"),
        OperationAction::Test => (Some(Phase::Testing), "test"),
        OperationAction::Uninstall => (None, "uninstall"),
        OperationAction::RemoveFailedInstall => (None, "uninstall of the failed install"),
    };
    let message = format!("running {verb} of Helm release '{name}' in '{namespace}'");
    let reason = phase.map_or("Uninstalling", Phase::as_str);
    match operation.action {
        OperationAction::Install | OperationAction::Upgrade => {
            draft.set(
                ConditionType::ChartFetched,
                "True",
                Phase::ChartFetched.as_str(),
                &fetched(subject),
            );
            draft.set(ConditionType::Deployed, "Unknown", reason, &message);
            draft.tried(subject);
        }
        OperationAction::Rollback => {
            draft.set(ConditionType::RolledBack, "Unknown", reason, &message)
        }
        OperationAction::Test => draft.set(ConditionType::Tested, "Unknown", reason, &message),
        OperationAction::Uninstall | OperationAction::RemoveFailedInstall => {}
    }
    if phase.is_some() {
        draft.status.phase = phase;
    }
    // After an uninstall the numbers begin anew: what was tested or annotated under this one is gone.
    let makes = !matches!(
        operation.action,
        OperationAction::Test | OperationAction::Uninstall | OperationAction::RemoveFailedInstall
    );
    let tested = draft.status.last_test.as_ref();
    if makes && tested.is_some_and(|test| test.revision >= operation.revision) {
        draft.status.last_test = None;
    }
    let annotated = draft.status.annotated_revision;
    if makes && annotated.is_some_and(|annotated| annotated >= operation.revision) {
        draft.status.annotated_revision = None;
    }
    draft.about(subject.target);
    draft.status.operation = Some(operation.clone());
    draft.clear(ConditionType::Stalled);
    draft.set(ConditionType::Reconciling, "True", reason, &message);
    draft.set(ConditionType::Ready, "Unknown", reason, &message);
}

/// A helm child ended.
pub fn ended(draft: &mut Draft, subject: &Subject<'_>, action: OperationAction, outcome: &Outcome) {
    draft.status.release_status = outcome
        .history
        .last()
        .map(|last| last.state.as_str().to_owned());
    if let Some(test) = outcome.test {
        draft.status.last_test = Some(LastTest {
            revision: test.revision,
            succeeded: test.succeeded,
            finished_at: Time(draft.now()),
        });
    }
    let settled = outcome
        .history
        .last()
        .is_none_or(|last| last.state.is_settled());
    match outcome.end {
        End::Interrupted => {
            if let Some(operation) = &mut draft.status.operation {
                operation.interrupted = true;
            }
            return;
        }
        // The plan asks who made a rollback, for as long as it is the last revision.
        _ if settled && action != OperationAction::Rollback => draft.status.operation = None,
        _ => {}
    }
    draft.status.observed_generation = Some(subject.generation);
    let told = |what: &str| describe(subject, what, &outcome.message);
    if outcome.end == End::Succeeded {
        match action {
            OperationAction::Install | OperationAction::Upgrade => {
                let what = if action == OperationAction::Install {
                    "Installation"
                } else {
                    "Upgrade"
                };
                draft.phase(Phase::Deployed);
                draft.set(
                    ConditionType::Deployed,
                    "True",
                    Phase::Deployed.as_str(),
                    &told(&format!("{what} succeeded")),
                );
            }
            OperationAction::Rollback => rolled_back(draft, &told("Rollback succeeded")),
            OperationAction::Test => {
                draft.phase(Phase::Tested);
                draft.set(
                    ConditionType::Tested,
                    "True",
                    Phase::Tested.as_str(),
                    &told("Tests succeeded"),
                );
            }
            OperationAction::Uninstall | OperationAction::RemoveFailedInstall => {}
        }
        return;
    }
    let message = outcome.message.as_str();
    let reason = match action {
        OperationAction::Install => "InstallFailed",
        OperationAction::Upgrade => "UpgradeFailed",
        OperationAction::Rollback => "RollbackFailed",
        OperationAction::Test => "TestFailed",
        OperationAction::Uninstall | OperationAction::RemoveFailedInstall => "UninstallFailed",
    };
    match action {
        OperationAction::Install | OperationAction::Upgrade => {
            draft.phase(Phase::DeployFailed);
            draft.set(
                ConditionType::Deployed,
                "False",
                Phase::DeployFailed.as_str(),
                message,
            );
            draft.set(
                ConditionType::Released,
                "False",
                Phase::DeployFailed.as_str(),
                message,
            );
        }
        OperationAction::Rollback => {
            draft.phase(Phase::RollbackFailed);
            draft.set(
                ConditionType::RolledBack,
                "False",
                Phase::RollbackFailed.as_str(),
                message,
            );
        }
        OperationAction::Test => {
            draft.phase(Phase::TestFailed);
            if subject.ignore_test_failures {
                let message = ignored_test_failure(message);
                draft.set(
                    ConditionType::Tested,
                    "False",
                    Phase::TestFailed.as_str(),
                    &message,
                );
                return;
            }
            draft.set(
                ConditionType::Tested,
                "False",
                Phase::TestFailed.as_str(),
                message,
            );
            draft.set(
                ConditionType::Released,
                "False",
                Phase::TestFailed.as_str(),
                message,
            );
        }
        OperationAction::Uninstall | OperationAction::RemoveFailedInstall => {}
    }
    retrying(draft, reason, message);
}

/// Something else is released than what was rolled back before: its rollbacks are counted by
/// themselves.
pub fn begun_anew(draft: &mut Draft) {
    draft.status.rollback_count = None;
}

/// Whether the last operation is a rollback that is done, and whose end nobody told: the
/// process that made it ended before.
#[must_use]
pub fn missed_rollback(status: &HelmReleaseStatus, history: &History) -> bool {
    let told = status.condition(ConditionType::RolledBack);
    let rollback = status
        .operation
        .as_ref()
        .filter(|operation| operation.action == OperationAction::Rollback);
    let done = |rollback: &Operation| {
        history.records().iter().any(|record| {
            record.revision == rollback.revision && record.state == RecordState::Deployed
        })
    };
    told.is_some_and(|told| told.status == "Unknown") && rollback.is_some_and(done)
}

/// Tells of a [missed rollback](missed_rollback), and counts it.
pub fn tell_missed_rollback(draft: &mut Draft, subject: &Subject<'_>) {
    let end = "the process that made it ended before it could tell";
    rolled_back(draft, &describe(subject, "Rollback succeeded", end));
}

fn rolled_back(draft: &mut Draft, message: &str) {
    let phase = Phase::RolledBack;
    draft.phase(phase);
    draft.set(ConditionType::RolledBack, "True", phase.as_str(), message);
    draft.status.rollback_count = Some(draft.status.rollback_count.unwrap_or_default() + 1);
}

/// What is said of a test that failed and need not pass, in helm-operator's words.
#[must_use]
pub fn ignored_test_failure(message: &str) -> String {
    message.replacen("test failed", "test failed - ignoring failures", 1)
}

/// Something went wrong that is tried again by itself.
pub fn retrying(draft: &mut Draft, reason: &str, message: &str) {
    draft.set(ConditionType::Ready, "False", reason, message);
    draft.set(
        ConditionType::Reconciling,
        "True",
        "ProgressingWithRetry",
        message,
    );
    draft.clear(ConditionType::Stalled);
}

/// Something went wrong outside of helm that is tried again by itself.
pub fn troubled(draft: &mut Draft, subject: &Subject<'_>, reason: &str, message: &str) {
    draft.status.observed_generation = Some(subject.generation);
    draft.phase(Phase::Failed);
    draft.set(
        ConditionType::Released,
        "False",
        Phase::Failed.as_str(),
        message,
    );
    retrying(draft, reason, message);
}

fn fetched(subject: &Subject<'_>) -> String {
    let Target { namespace, name } = subject.target;
    format!("Chart was fetched for Helm release '{name}' in '{namespace}'.")
}

fn describe(subject: &Subject<'_>, what: &str, message: &str) -> String {
    let Target { namespace, name } = subject.target;
    format!("{what} for Helm release '{name}' in '{namespace}': {message}.")
}
