//! A release that is wanted and has a record.

use super::past::{returned_by_us, rolled_back};
use super::steps::{Verdict, delayed, install, remove, roll_back, upgrade};
use super::{Action, Decision, Desired, Need, Observed, Present, Reason};
use crate::crd::OperationAction;
use crate::identity::{Comparison, Stamp};
use crate::storage::{RecordMeta, RecordState};

pub(super) fn present_with_record(
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
        Comparison::Unknown if matches!(last.stamp, Stamp::Known { .. }) => {
            let message = "the last operation failed, and was not for what is wanted";
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
        _ if returned_by_us(observed, last) => (
            Reason::Changed,
            "the release was rolled back, and what is wanted has changed since",
        ),
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
    if last.revision == 1 && observed.on_trial {
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

/// The last operation was stopped by us, for something newer or a shutdown.
fn interrupted(observed: &Observed, last: &RecordMeta) -> bool {
    observed
        .operation
        .as_ref()
        .is_some_and(|operation| operation.interrupted && operation.revision == last.revision)
}
