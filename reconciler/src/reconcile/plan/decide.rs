//! The table: which state of the last record leads to which action.

use jiff::{SignedDuration, Timestamp};

use super::recover::{good_revision, recover, rolled_back};
use super::{Action, Blocked, Decision, Desired, Need, Observed, Owner, Present, Reason, Want};
use crate::crd::OperationAction;
use crate::identity::{Comparison, Stamp};
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
    if let Some(wait) = super::recover::maybe_alive(observed, desired, last) {
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

fn present_with_record(
    observed: &Observed,
    desired: &Desired,
    present: &Present,
    last: &RecordMeta,
) -> Verdict {
    match &last.state {
        RecordState::Uninstalled => Ok(install(observed, desired, present, Some(last))),
        RecordState::Failed => failed(observed, desired, present, last),
        RecordState::Deployed => deployed(observed, desired, present, last),
        RecordState::Superseded => Ok(upgrade(
            observed,
            desired,
            present,
            Reason::ChangedByOthers,
            "no revision of the release is in force",
        )),
        other => Ok(Decision::new(
            Action::Refuse,
            Reason::UnknownState,
            format!(
                "Helm records revision {} as {other:?}, a state that is not known; bring it to \
                 a known one with the helm program that wrote it",
                last.revision,
                other = other.as_str(),
            ),
        )),
    }
}

fn install(
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

fn upgrade(
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

/// The last operation failed, or was marked so.
fn failed(observed: &Observed, desired: &Desired, present: &Present, last: &RecordMeta) -> Verdict {
    let ours = last.stamp.compare(last.revision, &present.identities) != Comparison::Unknown;
    if !observed.history.ever_deployed() && ours {
        let preexisting = observed.facts.preexisting.get(&last.revision);
        let preexisting = preexisting.ok_or(Need::Preexisting(last.revision))?;
        if preexisting.is_empty() {
            return Ok(remove(
                observed,
                desired,
                last,
                Reason::InstallFailed,
                "failed to install",
            ));
        }
        let message = format!(
            "the install failed and is not removed, because {} existed before it",
            preexisting.join(", ")
        );
        return Ok(upgrade(observed, desired, present, Reason::Retry, &message));
    }
    if rolled_back(observed, present, last)? {
        // The rollback itself failed: it is owed still.
        let message = "the rollback failed";
        return roll_back(observed, desired, Some(present), last, message).unwrap_or_else(|| {
            Ok(upgrade(
                observed,
                desired,
                present,
                Reason::Retry,
                "the rollback failed",
            ))
        });
    }
    match last.stamp.compare(last.revision, &present.identities) {
        Comparison::Same => {
            if interrupted(observed, last) {
                let message = "the last try was interrupted";
                return Ok(upgrade(
                    observed,
                    desired,
                    present,
                    Reason::Interrupted,
                    message,
                ));
            }
            if desired.rollback.enable
                && let Some(verdict) =
                    roll_back(observed, desired, Some(present), last, "the upgrade failed")
            {
                return verdict;
            }
            Ok(upgrade(
                observed,
                desired,
                present,
                Reason::Retry,
                "the last try failed",
            ))
        }
        Comparison::Other => {
            let message = "the last try failed, and what is wanted has changed since";
            Ok(upgrade(
                observed,
                desired,
                present,
                Reason::Changed,
                message,
            ))
        }
        Comparison::Unknown => {
            let message = "an existing, failed release is taken over";
            Ok(upgrade(
                observed,
                desired,
                present,
                Reason::Adopting,
                message,
            ))
        }
    }
}

/// Some revision is in the cluster and good, as far as Helm knows.
fn deployed(
    observed: &Observed,
    desired: &Desired,
    present: &Present,
    last: &RecordMeta,
) -> Verdict {
    let comparison = last.stamp.compare(last.revision, &present.identities);
    if comparison == Comparison::Same {
        return tested(observed, desired, present, last);
    }
    if comparison == Comparison::Other {
        let message = "chart, values or settings differ from what is released";
        return Ok(upgrade(
            observed,
            desired,
            present,
            Reason::Changed,
            message,
        ));
    }
    if rolled_back(observed, present, last)? {
        return Ok(if desired.rollback.may_retry {
            upgrade(
                observed,
                desired,
                present,
                Reason::Retry,
                "tried again after a rollback",
            )
        } else {
            Decision::new(
                Action::Nothing,
                Reason::RolledBack,
                "the release was rolled back after this chart and these values failed; it is \
                 not tried again until one of them changes",
            )
        });
    }
    let same = observed.facts.same_content.get(&last.revision);
    if *same.ok_or(Need::Content(last.revision))? {
        return Ok(Decision::new(
            Action::PatchLabel {
                revision: last.revision,
            },
            Reason::Adopted,
            "the release already is what is wanted",
        ));
    }
    let (reason, message) = match last.stamp {
        Stamp::Known { .. } => (
            Reason::ChangedByOthers,
            "the release was changed by somebody else and is brought back",
        ),
        _ => (Reason::Adopting, "an existing release is taken over"),
    };
    Ok(upgrade(observed, desired, present, reason, message))
}

/// The release is what is wanted; are its tests?
fn tested(observed: &Observed, desired: &Desired, present: &Present, last: &RecordMeta) -> Verdict {
    let in_sync = Decision::new(
        Action::Nothing,
        Reason::InSync,
        "the release is what is wanted",
    );
    if !desired.test.enable {
        return Ok(in_sync);
    }
    let result = observed
        .last_test
        .filter(|test| test.revision == last.revision);
    let Some(result) = result else {
        let delayed = delayed(
            observed,
            desired,
            &present.identities,
            OperationAction::Test,
        );
        return Ok(delayed.unwrap_or_else(|| {
            let action = Action::Test {
                revision: last.revision,
            };
            Decision::new(
                action,
                Reason::NotTested,
                "this revision was not tested yet",
            )
        }));
    };
    if result.succeeded || desired.test.ignore_failures {
        return Ok(in_sync);
    }
    if last.revision == 1 {
        return Ok(remove(
            observed,
            desired,
            last,
            Reason::TestFailed,
            "failed its tests",
        ));
    }
    if desired.rollback.enable
        && let Some(verdict) = roll_back(observed, desired, Some(present), last, "the tests failed")
    {
        return verdict;
    }
    Ok(Decision::new(
        Action::Nothing,
        Reason::TestFailed,
        "the tests failed; the release stays, because spec.rollback is not enabled or nothing \
         good is left to return to",
    ))
}

/// Removes a first revision that turned out to be no good.
fn remove(
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
            no_hooks: observed.namespace_terminating,
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

/// The last operation was stopped by us, for something newer or a shutdown.
fn interrupted(observed: &Observed, last: &RecordMeta) -> bool {
    observed
        .operation
        .as_ref()
        .is_some_and(|operation| operation.interrupted && operation.revision == last.revision)
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
    wanted: &[crate::identity::Identity],
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
