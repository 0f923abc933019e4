//! The table: which state of the last record leads to which action.

use super::past::returned_by_us;
use super::present::present_with_record;
use super::recover::{maybe_alive, recover};
use super::steps::{RECHECK, Verdict, delayed, install};
use super::{Action, Blocked, Decision, Desired, Namespace, Need, Observed, Owner, Reason, Want};
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
    if let Some(decision) = held(observed, desired, last)? {
        return Ok(decision);
    }
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
        return Some(anothers(owner, desired, false));
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

/// The release is another HelmRelease's, by its age or by an annotation.
fn anothers(owner: &str, desired: &Desired, annotated: bool) -> Decision {
    let mut message = format!("the release belongs to HelmRelease {owner}");
    if annotated {
        message.push_str(", for which its objects are annotated");
    }
    if matches!(desired.want, Want::Absent { .. }) {
        return Decision::new(Action::RemoveFinalizer, Reason::OwnedByOther, message);
    }
    message.push_str("; give one of them another releaseName or targetNamespace");
    Decision::new(Action::Refuse, Reason::OwnedByOther, message)
}

/// Before anything is done to a release that this HelmRelease didn't have so far, or that
/// somebody else made in its place: its objects may be those of a HelmRelease that another
/// reconciler follows.
fn held(
    observed: &Observed,
    desired: &Desired,
    last: &RecordMeta,
) -> Result<Option<Decision>, Need> {
    let by_us = matches!(last.stamp, Stamp::Known { .. }) || returned_by_us(observed, last);
    let has_it = observed.tried && by_us;
    let left_alone = match &desired.want {
        Want::Suspended => true,
        Want::Present(_) => last.state == RecordState::Uninstalled,
        Want::Blocked(_) => last.state.is_settled() && last.state != RecordState::Unknown,
        Want::Absent { .. } => {
            last.state == RecordState::Uninstalled || never_touched(observed, last)
        }
    };
    if has_it || left_alone {
        return Ok(None);
    }
    let holder = observed.facts.holders.get(&last.revision);
    let holder = holder.ok_or(Need::Holder(last.revision))?;
    Ok(holder.as_ref().map(|owner| anothers(owner, desired, true)))
}

fn never_touched(observed: &Observed, last: &RecordMeta) -> bool {
    !observed.tried && last.stamp == Stamp::Missing
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
    if never_touched(observed, last) {
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
