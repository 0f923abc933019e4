//! What a status says when the plan has nothing to do, for now or for good.

use super::{Draft, Obstacle, ObstacleKind, Subject, describe, fetched, retrying};
use crate::crd::{ConditionType, Phase, Target};
use crate::reconcile::plan::{Action, Decision, Reason};

/// The plan has nothing to do now.
pub fn settled(
    draft: &mut Draft,
    subject: &Subject<'_>,
    decision: &Decision,
    obstacle: Option<&Obstacle>,
) {
    draft.about(subject.target);
    if decision.reason == Reason::OwnedByOther {
        // Its objects get the other's annotation, maybe under the same revision.
        draft.status.annotated_revision = None;
    }
    match (&decision.action, decision.reason) {
        (Action::Nothing, Reason::InSync) => in_sync(draft, subject, obstacle),
        (Action::Nothing, Reason::Suspended) => suspended(draft, &decision.message),
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

/// What was said of the release stays true, as far as anybody looked.
fn suspended(draft: &mut Draft, message: &str) {
    draft.clear(ConditionType::Reconciling);
    draft.set(ConditionType::Suspended, "True", "Suspended", message);
}

/// It isn't suspended any more.
pub fn resumed(draft: &mut Draft) {
    draft.clear(ConditionType::Suspended);
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
    draft.status.revision = subject.chart.map(ToOwned::to_owned);
    // Whoever it was: it is over.
    draft.status.operation = None;
    let failing = obstacle.filter(|obstacle| obstacle.kind == ObstacleKind::ChartFailed);
    if let Some(obstacle) = failing {
        // What is released is good; what is asked for is something newer that isn't.
        chart_failed(draft, obstacle);
        retrying(draft, obstacle.reason, &obstacle.message);
        return;
    }
    let message = format!("Release was successful for Helm release '{name}' in '{namespace}'.");
    draft.phase(Phase::Succeeded);
    let (old_values, silent) = match obstacle {
        Some(old) if old.kind == ObstacleKind::OldValues => (Some(old), None),
        other => (None, other),
    };
    match silent {
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
    draft.tried(subject);
    draft.clear(ConditionType::Reconciling);
    draft.clear(ConditionType::Stalled);
    let ready = match old_values {
        Some(old) => format!("{message} Its values may be old: {}", old.message),
        None => message,
    };
    draft.set(
        ConditionType::Ready,
        "True",
        Phase::Succeeded.as_str(),
        &ready,
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
        ObstacleKind::NoChart => {
            draft.status.observed_generation = Some(subject.generation);
            chart_failed(draft, obstacle);
            stalled(draft, obstacle.reason, &obstacle.message);
        }
        ObstacleKind::NoValues | ObstacleKind::OldValues => {
            draft.status.observed_generation = Some(subject.generation);
            chart_there(draft, subject);
            draft.phase(Phase::Failed);
            draft.set(
                ConditionType::Released,
                "False",
                Phase::Failed.as_str(),
                &obstacle.message,
            );
            retrying(draft, obstacle.reason, &obstacle.message);
        }
        ObstacleKind::Invalid => {
            chart_there(draft, subject);
            refuse(draft, subject, obstacle.reason, &obstacle.message);
        }
    }
}

fn chart_there(draft: &mut Draft, subject: &Subject<'_>) {
    if subject.chart.is_some() {
        draft.set(
            ConditionType::ChartFetched,
            "True",
            Phase::ChartFetched.as_str(),
            &fetched(subject),
        );
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
