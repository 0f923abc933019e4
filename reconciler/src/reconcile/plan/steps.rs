//! Actions that are due, and what delays them.

use jiff::{SignedDuration, Timestamp};

use super::past::good_revision;
use super::{Action, Decision, Desired, Namespace, Need, Observed, Present, Reason};
use crate::crd::OperationAction;
use crate::identity::Identity;
use crate::storage::{RecordMeta, RecordState};

/// How long to wait for what announces its end by no event.
pub(super) const RECHECK: SignedDuration = SignedDuration::from_secs(10);

/// A decision, or what has to be learned before it.
pub(super) type Verdict = Result<Decision, Need>;

pub(super) fn install(
    observed: &Observed,
    desired: &Desired,
    present: &Present,
    uninstalled: Option<&RecordMeta>,
) -> Decision {
    if let Some(wait) = without_namespace(observed) {
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
    if let Some(wait) = without_namespace(observed) {
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

/// Nobody tells when a namespace comes or goes; it is looked for again in a while.
fn without_namespace(observed: &Observed) -> Option<Decision> {
    let decision = match observed.namespace {
        Namespace::There => return None,
        Namespace::Missing => Decision::new(
            Action::Refuse,
            Reason::NamespaceMissing,
            "the namespace of the release doesn't exist; create it, or correct targetNamespace",
        ),
        Namespace::Terminating => Decision::new(
            Action::Wait,
            Reason::NamespaceTerminating,
            "the namespace of the release is being removed",
        ),
    };
    Some(decision.until(observed.now + RECHECK))
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
pub(in crate::reconcile) fn whole_seconds(time: Timestamp) -> Timestamp {
    let seconds = time.as_second() + i64::from(time.subsec_nanosecond() > 0);
    Timestamp::from_second(seconds).unwrap_or(time)
}

/// Removes a first revision that turned out to be no good.
pub(super) fn remove(
    observed: &Observed,
    desired: &Desired,
    last: &RecordMeta,
    reason: Reason,
    what: &str,
) -> Decision {
    let action = OperationAction::RemoveFailedInstall;
    delayed(observed, desired, &[], action).unwrap_or_else(|| {
        let action = Action::Uninstall {
            revision: last.revision,
            no_hooks: observed.namespace == Namespace::Terminating,
            failed_install: true,
        };
        Decision::new(
            action,
            reason,
            format!("the first revision {what} and is removed"),
        )
    })
}

/// Returns to the last good revision; `None` if none is left.
pub(super) fn roll_back(
    observed: &Observed,
    desired: &Desired,
    present: Option<&Present>,
    last: &RecordMeta,
    why: &str,
) -> Option<Verdict> {
    let to = match good_revision(observed, last) {
        Ok(to) => to?,
        Err(need) => return Some(Err(need)),
    };
    let wanted = present.map_or(&[][..], |present| &present.identities);
    Some(Ok(delayed(
        observed,
        desired,
        wanted,
        OperationAction::Rollback,
    )
    .unwrap_or_else(|| {
        let reason = match last.state {
            RecordState::Uninstalling => Reason::UninstallUnfinished,
            RecordState::Deployed => Reason::TestFailed,
            _ => Reason::UpgradeFailed,
        };
        let action = Action::Rollback {
            to,
            revision: next(observed),
        };
        Decision::new(
            action,
            reason,
            format!("{why}; revision {to} was the last good one"),
        )
    })))
}
