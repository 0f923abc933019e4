//! What a HelmRelease's status says after each step of a pass. Pure: from the status before
//! and what happened.
//!
//! Phases, and conditions named after them, are helm-operator's; `Ready`, `Reconciling` and
//! `Stalled` follow kstatus (the latter two are there only while they are true).

mod draft;
mod patch;
#[cfg(test)]
mod tests;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::crd::{
    ConditionType, HelmReleaseStatus, LastTest, Operation, OperationAction, Phase, Target,
};
use crate::events::Told;
use crate::reconcile::plan::{Action, Decision, Reason};
use crate::reconcile::release::{End, Outcome};

pub use draft::Draft;
pub use patch::merge_patch;

/// What a status is about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The generation that is worked on.
    pub generation: i64,
    /// The release.
    pub target: &'a Target,
    /// Commit or version of the chart, if there is one.
    pub chart: Option<&'a str>,
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
    /// The source doesn't answer; what there is may still be the newest.
    SourceSilent,
    /// The HelmRelease by itself, or the values that it names, make no sense.
    Invalid,
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
            draft.status.last_attempted_revision = subject.chart.map(ToOwned::to_owned);
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
    draft.status.release_name = Some(name.clone());
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
            OperationAction::Rollback => {
                draft.phase(Phase::RolledBack);
                draft.set(
                    ConditionType::RolledBack,
                    "True",
                    Phase::RolledBack.as_str(),
                    &told("Rollback succeeded"),
                );
                draft.status.rollback_count =
                    Some(draft.status.rollback_count.unwrap_or_default() + 1);
            }
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
                let message = format!("test failed - ignoring failures: {message}");
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

/// The plan has nothing to do now.
pub fn settled(
    draft: &mut Draft,
    subject: &Subject<'_>,
    decision: &Decision,
    obstacle: Option<&Obstacle>,
) {
    draft.status.release_name = Some(subject.target.name.clone());
    match (&decision.action, decision.reason) {
        (Action::Nothing, Reason::InSync) => in_sync(draft, subject, obstacle),
        (Action::Nothing, reason) => {
            draft.status.observed_generation = Some(subject.generation);
            stalled(
                draft,
                reason.as_str(),
                &tell_why(draft, reason, &decision.message),
            );
        }
        (Action::Wait, Reason::Backoff) => backoff(draft, subject, &decision.message),
        (_, Reason::Blocked(_)) if obstacle.is_some() => {
            if let Some(obstacle) = obstacle {
                blocked(draft, subject, obstacle);
            }
        }
        (Action::Refuse, reason) => refuse(draft, subject, reason.as_str(), &decision.message),
        (_, reason) => {
            draft.clear(ConditionType::Stalled);
            draft.set(
                ConditionType::Reconciling,
                "True",
                reason.as_str(),
                &decision.message,
            );
            draft.set(
                ConditionType::Ready,
                "Unknown",
                reason.as_str(),
                &decision.message,
            );
        }
    }
}

/// What failed, and why, is told already, unless something else was done meanwhile (a
/// rollback, the removal of a failed install). When it is tried again is no part of it: it
/// differs from time to time.
fn backoff(draft: &mut Draft, subject: &Subject<'_>, message: &str) {
    draft.status.observed_generation = Some(subject.generation);
    if draft.is_not(ConditionType::Ready, "False") {
        let released = draft
            .status
            .condition(ConditionType::Released)
            .filter(|released| released.status == "False");
        let reason = released
            .and_then(|released| released.reason.clone())
            .unwrap_or_else(|| "Backoff".to_owned());
        let message = released
            .and_then(|released| released.message.clone())
            .unwrap_or_else(|| message.to_owned());
        retrying(draft, &reason, &message);
    }
}

/// The HelmRelease can't be worked with as it is written.
pub fn refuse(draft: &mut Draft, subject: &Subject<'_>, reason: &str, message: &str) {
    draft.status.observed_generation = Some(subject.generation);
    draft.phase(Phase::Failed);
    draft.set(
        ConditionType::Released,
        "False",
        Phase::Failed.as_str(),
        message,
    );
    stalled(draft, reason, message);
}

fn in_sync(draft: &mut Draft, subject: &Subject<'_>, obstacle: Option<&Obstacle>) {
    let Target { namespace, name } = subject.target;
    draft.status.observed_generation = Some(subject.generation);
    draft.status.release_status = Some("deployed".to_owned());
    let failing = obstacle.filter(|obstacle| obstacle.kind == ObstacleKind::ChartFailed);
    if let Some(obstacle) = failing {
        // What is released is good; what is asked for is something newer that isn't.
        chart_failed(draft, obstacle);
        retrying(draft, obstacle.reason, &obstacle.message);
        return;
    }
    let message = format!("Release was successful for Helm release '{name}' in '{namespace}'.");
    draft.phase(Phase::Succeeded);
    match obstacle {
        Some(silent) => {
            draft.set(
                ConditionType::ChartFetched,
                "False",
                silent.reason,
                &silent.message,
            );
        }
        None => draft.set(
            ConditionType::ChartFetched,
            "True",
            Phase::ChartFetched.as_str(),
            &fetched(subject),
        ),
    }
    if draft.is_not(ConditionType::Deployed, "True") {
        draft.set(
            ConditionType::Deployed,
            "True",
            Phase::Deployed.as_str(),
            &describe(subject, "In place", "the release is what is wanted"),
        );
    }
    draft.set(
        ConditionType::Released,
        "True",
        Phase::Succeeded.as_str(),
        &message,
    );
    draft.clear(ConditionType::RolledBack);
    draft.status.rollback_count = None;
    draft.status.revision = subject.chart.map(ToOwned::to_owned);
    draft.status.last_attempted_revision = subject.chart.map(ToOwned::to_owned);
    draft.clear(ConditionType::Reconciling);
    draft.clear(ConditionType::Stalled);
    draft.set(
        ConditionType::Ready,
        "True",
        Phase::Succeeded.as_str(),
        &message,
    );
}

fn blocked(draft: &mut Draft, subject: &Subject<'_>, obstacle: &Obstacle) {
    match obstacle.kind {
        ObstacleKind::Fetching => {
            // A volume that was lost, or a sidecar that restarts, is no news to a release
            // that is as it should be.
            let released = draft.status.observed_generation == Some(subject.generation)
                && !draft.is_not(ConditionType::Ready, "True");
            if !released {
                draft.clear(ConditionType::Stalled);
                draft.set(
                    ConditionType::Reconciling,
                    "True",
                    obstacle.reason,
                    &obstacle.message,
                );
                draft.set(
                    ConditionType::Ready,
                    "Unknown",
                    obstacle.reason,
                    &obstacle.message,
                );
            }
        }
        ObstacleKind::ChartFailed | ObstacleKind::SourceSilent => {
            draft.status.observed_generation = Some(subject.generation);
            chart_failed(draft, obstacle);
            retrying(draft, obstacle.reason, &obstacle.message);
        }
        ObstacleKind::Invalid => refuse(draft, subject, obstacle.reason, &obstacle.message),
    }
}

fn chart_failed(draft: &mut Draft, obstacle: &Obstacle) {
    let phase = Phase::ChartFetchFailed;
    draft.phase(phase);
    draft.set(
        ConditionType::ChartFetched,
        "False",
        phase.as_str(),
        &obstacle.message,
    );
    draft.set(
        ConditionType::Released,
        "False",
        phase.as_str(),
        &obstacle.message,
    );
}

fn stalled(draft: &mut Draft, reason: &str, message: &str) {
    draft.clear(ConditionType::Reconciling);
    draft.set(ConditionType::Stalled, "True", reason, message);
    draft.set(ConditionType::Ready, "False", reason, message);
}

/// The message of a state in which nothing is done any more: with what went wrong before.
fn tell_why(draft: &Draft, reason: Reason, message: &str) -> String {
    let why = match reason {
        Reason::RolledBack | Reason::TestFailed => draft.failure_of(ConditionType::Released),
        _ => None,
    };
    match why {
        Some(why) if !why.contains(message) => format!("{message} ({why})"),
        _ => message.to_owned(),
    }
}

fn fetched(subject: &Subject<'_>) -> String {
    let Target { namespace, name } = subject.target;
    format!("Chart was fetched for Helm release '{name}' in '{namespace}'.")
}

fn describe(subject: &Subject<'_>, what: &str, message: &str) -> String {
    let Target { namespace, name } = subject.target;
    format!("{what} for Helm release '{name}' in '{namespace}': {message}.")
}

/// The event that a pass is worth, by the status before and after it. `ran` says what it
/// did to the release, if it did anything with success. A failure that was told before, and
/// is only tried again, isn't told again.
#[must_use]
pub fn event(
    before: &HelmReleaseStatus,
    after: &HelmReleaseStatus,
    target: &Target,
    ran: Option<&str>,
) -> Option<Told> {
    let ready = after.condition(ConditionType::Ready)?;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    match ready.status.as_str() {
        "True" => {
            let was = before
                .condition(ConditionType::Ready)
                .is_some_and(|ready| ready.status == "True");
            if was && ran.is_none() {
                return None;
            }
            let Target { namespace, name } = target;
            let chart = after.revision.as_deref().unwrap_or("unknown");
            let what = ran.unwrap_or("nothing was to be done");
            Some(Told {
                warning: false,
                reason: "ReleaseSynced",
                action: "Sync".to_owned(),
                note: format!(
                    "managed release '{name}' in namespace '{namespace}' synchronized: {what}, chart {chart}"
                ),
            })
        }
        "False" => {
            let told = before.condition(ConditionType::Ready).is_some_and(|old| {
                old.status == "False" && old.reason == ready.reason && old.message == ready.message
            });
            (!told).then(|| Told {
                warning: true,
                reason: "FailedReleaseSync",
                action: text(&ready.reason),
                note: format!(
                    "synchronization of release '{}' in namespace '{}' failed: {}",
                    target.name,
                    target.namespace,
                    text(&ready.message)
                ),
            })
        }
        _ => None,
    }
}
