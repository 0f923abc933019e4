//! The table: which state of the last record leads to which action.

use jiff::{SignedDuration, Timestamp};

use super::present::present_with_record;
use super::recover::{maybe_alive, recover};
use super::{Action, Blocked, Decision, Desired, Need, Observed, Owner, Present, Reason, Want};
use crate::crd::OperationAction;
use crate::identity::Identity;
use crate::storage::{RecordMeta, RecordState};

/// How long to wait for what announces its end by no event.
const RECHECK: SignedDuration = SignedDuration::from_secs(10);

pub(super) type Verdict = Result<Decision, Need>;

pub(super) fn decide(observed: &Observed, desired: &Desired) -> Verdict {
    if let Some(decision) = gate(observed, desired) {
        return Ok(decision);
    }
    let Some(last) = observed.history.last() else {
        return Ok(without_record(observed, desired));
    };
    match &desired.want {
        Want::Absent { .. } => Ok(absent(observed, desired, last)),
        Want::Blocked(blocked) => {
            recover(observed, desired, last).unwrap_or_else(|| Ok(stuck(blocked)))
        }
        Want::Present(present) => recover(observed, desired, last)
            .unwrap_or_else(|| present_with_record(observed, desired, present, last)),
    }
}

/// What decides before any record does.
fn gate(observed: &Observed, desired: &Desired) -> Option<Decision> {
    let absent = matches!(desired.want, Want::Absent { .. });
    if observed.definition_deleting {
        return Some(Decision::new(
            Action::RemoveFinalizer,
            Reason::DefinitionDeleted,
            "the definition of HelmRelease is being deleted; the release stays as it is",
        ));
    }
    if matches!(desired.want, Want::Absent { abandon: true }) {
        return Some(Decision::new(
            Action::RemoveFinalizer,
            Reason::Abandoned,
            "the HelmRelease is annotated to leave its release in the cluster",
        ));
    }
    if let Owner::Other(owner) = &observed.owner {
        let (action, message) = if absent {
            (
                Action::RemoveFinalizer,
                format!("the release belongs to HelmRelease {owner}"),
            )
        } else {
            let advice = "give one of them another releaseName or targetNamespace";
            (
                Action::Refuse,
                format!("the release belongs to HelmRelease {owner}; {advice}"),
            )
        };
        return Some(Decision::new(action, Reason::OwnedByOther, message));
    }
    observed.child_alive.then(|| {
        Decision::new(
            Action::Wait,
            Reason::OperationRunning,
            "an operation of ours on this release is still running",
        )
        .until(observed.now + RECHECK)
    })
}

fn without_record(observed: &Observed, desired: &Desired) -> Decision {
    match &desired.want {
        Want::Absent { .. } => Decision::new(
            Action::RemoveFinalizer,
            Reason::Deleted,
            "there is no release, or no longer",
        ),
        Want::Blocked(blocked) => stuck(blocked),
        Want::Present(present) => install(observed, desired, present, None),
    }
}

fn stuck(blocked: &Blocked) -> Decision {
    let action = if blocked.refuse {
        Action::Refuse
    } else {
        Action::Wait
    };
    Decision::new(
        action,
        Reason::Blocked(blocked.reason),
        blocked.message.clone(),
    )
}

fn absent(observed: &Observed, desired: &Desired, last: &RecordMeta) -> Decision {
    if last.state == RecordState::Uninstalled {
        return Decision::new(
            Action::RemoveFinalizer,
            Reason::Deleted,
            "the release is uninstalled; its history was kept by whoever did it",
        );
    }
    if let Some(wait) = maybe_alive(observed, desired, last) {
        return wait;
    }
    delayed(observed, desired, &[], OperationAction::Uninstall).unwrap_or_else(|| {
        let action = Action::Uninstall {
            revision: last.revision,
            no_hooks: observed.namespace_terminating,
            failed_install: false,
        };
        Decision::new(action, Reason::Deleted, "the HelmRelease is being deleted")
    })
}

pub(super) fn install(
    observed: &Observed,
    desired: &Desired,
    present: &Present,
    uninstalled: Option<&RecordMeta>,
) -> Decision {
    if let Some(wait) = namespace_terminating(observed) {
        return wait;
    }
    if !observed.terminating.is_empty() {
        return Decision::new(
            Action::Wait,
            Reason::ObjectsTerminating,
            format!("still being removed: {}", observed.terminating.join(", ")),
        )
        .until(observed.now + RECHECK);
    }
    delayed(
        observed,
        desired,
        &present.identities,
        OperationAction::Install,
    )
    .unwrap_or_else(|| {
        let action = Action::Install {
            revision: uninstalled.map_or(1, |record| record.revision + 1),
            replace: uninstalled.is_some(),
        };
        Decision::new(action, Reason::NotInstalled, "there is no such release yet")
    })
}

pub(super) fn upgrade(
    observed: &Observed,
    desired: &Desired,
    present: &Present,
    reason: Reason,
    message: &str,
) -> Decision {
    if let Some(wait) = namespace_terminating(observed) {
        return wait;
    }
    let delayed = delayed(
        observed,
        desired,
        &present.identities,
        OperationAction::Upgrade,
    );
    delayed.unwrap_or_else(|| {
        Decision::new(
            Action::Upgrade {
                revision: next(observed),
            },
            reason,
            message,
        )
    })
}

fn namespace_terminating(observed: &Observed) -> Option<Decision> {
    observed.namespace_terminating.then(|| {
        let message = "the namespace of the release is being removed";
        Decision::new(Action::Wait, Reason::NamespaceTerminating, message)
            .until(observed.now + RECHECK)
    })
}

/// Whether this operation failed too recently to be tried again.
pub(super) fn delayed(
    observed: &Observed,
    desired: &Desired,
    wanted: &[Identity],
    action: OperationAction,
) -> Option<Decision> {
    let failure = observed
        .failures
        .delay(action, wanted, desired.generation, observed.now)?;
    let message = format!(
        "{action:?} failed {} times in a row; the next try is due at {}",
        failure.attempts,
        whole_seconds(failure.not_before),
    );
    Some(Decision::new(Action::Wait, Reason::Backoff, message).until(failure.not_before))
}

pub(super) fn next(observed: &Observed) -> i64 {
    observed.history.last().map_or(1, |last| last.revision + 1)
}

/// A time for people, rounded up so that it isn't early.
pub(super) fn whole_seconds(time: Timestamp) -> Timestamp {
    let seconds = time.as_second() + i64::from(time.subsec_nanosecond() > 0);
    Timestamp::from_second(seconds).unwrap_or(time)
}
