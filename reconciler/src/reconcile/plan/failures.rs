//! What went wrong lately, and when to try again.

use jiff::Timestamp;

use crate::crd::OperationAction;
use crate::identity::Identity;

/// Failures that nothing has made good since, at most one of each kind of operation.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Failures(Vec<Failure>);

/// The last failure of one kind of operation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failure {
    /// What failed. A failed test of a revision counts as the failure of its install or
    /// upgrade, besides.
    pub action: OperationAction,
    /// What was wanted then; `None` if nothing was (an uninstall).
    pub identity: Option<Identity>,
    /// Generation of the HelmRelease then.
    pub generation: i64,
    /// Failures in a row, this one included.
    pub attempts: u32,
    /// When the next try is due.
    pub not_before: Timestamp,
}

impl Failures {
    /// Failures in a row of this kind for what is wanted now, before one more is added.
    #[must_use]
    pub fn attempts(
        &self,
        action: OperationAction,
        wanted: Option<&Identity>,
        generation: i64,
    ) -> u32 {
        let wanted = wanted.map_or(&[][..], std::slice::from_ref);
        self.relevant(action, wanted, generation)
            .map_or(0, |failure| failure.attempts)
    }

    /// The longest row of failures of any kind; 0 if nothing failed.
    #[must_use]
    pub fn most(&self) -> u32 {
        self.0
            .iter()
            .map(|failure| failure.attempts)
            .max()
            .unwrap_or(0)
    }

    /// Adds a failure, in the place of an earlier one of its kind.
    pub fn failed(&mut self, failure: Failure) {
        self.0
            .retain(|other| kind(other.action) != kind(failure.action));
        self.0.push(failure);
    }

    /// Forgets what this success makes good: an install or upgrade everything, anything
    /// else its own kind (after a rollback, the upgrade still has to wait for its turn).
    pub fn succeeded(&mut self, action: OperationAction) {
        if kind(action) == Kind::Release {
            self.0.clear();
        } else {
            self.0
                .retain(|failure| kind(failure.action) != kind(action));
        }
    }

    /// When an operation of this kind may be tried again, if it has to wait at all.
    pub(super) fn delay(
        &self,
        action: OperationAction,
        wanted: &[Identity],
        generation: i64,
        now: Timestamp,
    ) -> Option<&Failure> {
        self.relevant(action, wanted, generation)
            .filter(|failure| now < failure.not_before)
    }

    fn relevant(
        &self,
        action: OperationAction,
        wanted: &[Identity],
        generation: i64,
    ) -> Option<&Failure> {
        self.0.iter().find(|failure| {
            kind(failure.action) == kind(action)
                && failure.generation == generation
                && failure
                    .identity
                    .as_ref()
                    .is_none_or(|identity| wanted.contains(identity))
        })
    }
}

#[derive(Eq, PartialEq)]
enum Kind {
    Release,
    Rollback,
    Test,
    Uninstall,
}

fn kind(action: OperationAction) -> Kind {
    match action {
        OperationAction::Install | OperationAction::Upgrade => Kind::Release,
        OperationAction::Rollback => Kind::Rollback,
        OperationAction::Test => Kind::Test,
        OperationAction::Uninstall | OperationAction::RemoveFailedInstall => Kind::Uninstall,
    }
}
