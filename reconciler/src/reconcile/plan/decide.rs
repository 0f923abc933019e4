//! The table: which state of the last record leads to which action.

use super::present::present_with_record;
use super::recover::{maybe_alive, recover};
use super::steps::{RECHECK, Verdict, delayed, install};
use super::{Action, Blocked, Decision, Desired, Namespace, Observed, Owner, Reason, Want};
use crate::crd::OperationAction;
use crate::identity::Stamp;
use crate::storage::{RecordMeta, RecordState};

pub(super) fn decide(observed: &Observed, desired: &Desired) -> Verdict {
    if let Some(decision) = gate(observed, desired) {
        return Ok(decision);
    }
    let Some(last) = observed.history.last() else {
        return Ok(without_record(observed, desired));
    };
    match &desired.want {
        Want::Absent { .. } => Ok(absent(observed, desired, last)),
        Want::Suspended => Ok(suspended()),
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
    if matches!(desired.want, Want::Suspended) {
        return Some(suspended());
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
        Want::Suspended => suspended(),
        Want::Blocked(blocked) => stuck(blocked),
        Want::Present(present) => install(observed, desired, present, None),
    }
}

fn suspended() -> Decision {
    Decision::new(
        Action::Nothing,
        Reason::Suspended,
        "the HelmRelease is suspended by the annotation helm.fluxcd.io/suspend; remove it to go on",
    )
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
    if !observed.tried && last.stamp == Stamp::Missing {
        return Decision::new(
            Action::RemoveFinalizer,
            Reason::NeverReleased,
            "somebody else made the release, and this HelmRelease never touched it; it stays",
        );
    }
    if let Some(wait) = maybe_alive(observed, desired, last) {
        return wait;
    }
    delayed(observed, desired, &[], OperationAction::Uninstall).unwrap_or_else(|| {
        let action = Action::Uninstall {
            revision: last.revision,
            no_hooks: observed.namespace == Namespace::Terminating,
            failed_install: false,
        };
        Decision::new(action, Reason::Deleted, "the HelmRelease is being deleted")
    })
}
