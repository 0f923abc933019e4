//! What to do about records of operations that may be running, or died.

use jiff::{SignedDuration, Timestamp};

use super::steps::{Verdict, delayed, next, roll_back, whole_seconds};
use super::{Action, Decision, Desired, Namespace, Observed, Reason};
use crate::crd::OperationAction;
use crate::storage::{RecordMeta, RecordState};

/// A stranger's operation is given at least this long since its record was last written.
const STALE_AFTER: SignedDuration = SignedDuration::from_mins(15);

/// Settles a record that says an operation is under way; `None` if the last one doesn't.
pub(super) fn recover(
    observed: &Observed,
    desired: &Desired,
    last: &RecordMeta,
) -> Option<Verdict> {
    if last.state.is_settled() && last.state != RecordState::Unknown {
        return None;
    }
    if let Some(wait) = maybe_alive(observed, desired, last) {
        return Some(Ok(wait));
    }
    Some(if last.state == RecordState::Uninstalling {
        unfinished_uninstall(observed, desired, last)
    } else {
        Ok(dead(observed, last))
    })
}

/// Waits while the operation that a record speaks of may be running somewhere.
pub(super) fn maybe_alive(
    observed: &Observed,
    desired: &Desired,
    last: &RecordMeta,
) -> Option<Decision> {
    if last.state.is_settled() && last.state != RecordState::Unknown || ours(observed, last) {
        return None;
    }
    let stale = stale_at(desired, last);
    (observed.now < stale).then(|| {
        let message = format!(
            "revision {} is {}, which is not an operation of ours and may be running; it is \
             taken for dead at {}",
            last.revision,
            last.state,
            whole_seconds(stale),
        );
        Decision::new(Action::Wait, Reason::ForeignOperation, message).until(stale)
    })
}

/// When a stranger's operation is taken for dead.
fn stale_at(desired: &Desired, last: &RecordMeta) -> Timestamp {
    let twice = SignedDuration::try_from(desired.timeout.saturating_mul(2));
    let patience = twice.unwrap_or(SignedDuration::MAX).max(STALE_AFTER);
    last.touched
        .saturating_add(patience)
        .unwrap_or(Timestamp::MAX)
}

/// Whether the record is that of an operation that we started. It is dead then: a live
/// child of this volume holds the release lock, and one of an older Lease epoch ended with
/// its Lease.
fn ours(observed: &Observed, last: &RecordMeta) -> bool {
    let Some(operation) = &observed.operation else {
        return false;
    };
    let of_this_kind = match last.state {
        RecordState::PendingInstall => operation.action == OperationAction::Install,
        RecordState::PendingUpgrade => operation.action == OperationAction::Upgrade,
        RecordState::PendingRollback => operation.action == OperationAction::Rollback,
        RecordState::Uninstalling => matches!(
            operation.action,
            OperationAction::Uninstall | OperationAction::RemoveFailedInstall
        ),
        _ => false,
    };
    // Without Leases every epoch is 0; a newer one than ours would be somebody else's.
    let of_our_time = observed.epoch == 0 || operation.epoch <= observed.epoch;
    of_this_kind && of_our_time && operation.revision == last.revision
}

fn dead(observed: &Observed, last: &RecordMeta) -> Decision {
    let revision = last.revision;
    // Helm marks the predecessor superseded, then the new revision deployed, as its last
    // two writes. An install with --replace does it the other way round.
    let finished = matches!(
        last.state,
        RecordState::PendingUpgrade | RecordState::PendingRollback
    ) && !observed.history.any_deployed()
        && observed
            .history
            .before_last()
            .is_some_and(|before| before.state == RecordState::Superseded);
    if finished {
        let message = format!("the operation that made revision {revision} died when it was done");
        Decision::new(
            Action::MarkDeployed { revision },
            Reason::OperationFinished,
            message,
        )
    } else {
        let message = format!("the operation that made revision {revision} died");
        Decision::new(
            Action::MarkFailed { revision },
            Reason::OperationDied,
            message,
        )
    }
}

/// An uninstall died, or somebody wants the release again while it is half gone.
fn unfinished_uninstall(observed: &Observed, desired: &Desired, last: &RecordMeta) -> Verdict {
    let failed_install = observed.operation.as_ref().is_some_and(|operation| {
        operation.action == OperationAction::RemoveFailedInstall
            && operation.revision == last.revision
    });
    if failed_install {
        let action = OperationAction::RemoveFailedInstall;
        return Ok(delayed(observed, desired, &[], action).unwrap_or_else(|| {
            let action = Action::Uninstall {
                revision: last.revision,
                no_hooks: observed.namespace == Namespace::Terminating,
                failed_install: true,
            };
            let message = "the removal of a failed install is not finished";
            Decision::new(action, Reason::UninstallUnfinished, message)
        }));
    }
    let why = "the release was being uninstalled and is wanted";
    roll_back(observed, desired, None, last, why).unwrap_or_else(|| {
        // Nothing else is left: its own objects can still be brought back.
        let action = Action::Rollback {
            to: last.revision,
            revision: next(observed),
        };
        Ok(delayed(observed, desired, &[], OperationAction::Rollback)
            .unwrap_or_else(|| Decision::new(action, Reason::UninstallUnfinished, why)))
    })
}
