//! What to do next with one release: a pure function of what was seen and what is wanted.
//!
//! `plan(observed, desired)` names exactly one action. Everything that it needs is data;
//! what costs an API call is asked for only by rows that depend on it, through [`needs`]:
//!
//! 1. gather fills [`Observed`] from one quorum list of the release's records;
//! 2. while [`needs`] asks for a [`Need`], gather learns it and puts it into
//!    [`Observed::facts`];
//! 3. [`plan`] decides.

mod decide;
mod desired;
mod failures;
mod observed;
#[cfg(any(test, feature = "plan-table"))]
mod page;
mod past;
mod present;
mod recover;
mod steps;
#[cfg(any(test, feature = "plan-table"))]
mod table;
#[cfg(test)]
mod tests;

pub use desired::{Blocked, Desired, Present, RollbackPolicy, TestPolicy, Want};
pub use failures::{Failure, Failures};
pub use observed::{Facts, Namespace, Need, Observed, Owner, RecordFacts, TestResult};
#[cfg(any(test, feature = "plan-table"))]
pub use page::table_page;

use jiff::Timestamp;

use decide::decide;

pub(in crate::reconcile) use steps::whole_seconds;

/// One action on a release. Revisions are those that the action makes or works on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// All is as it should be, or as good as it gets; look again when something changes.
    Nothing,
    /// Look again at the time of [`Decision`], or when something changes.
    Wait,
    /// Somebody has to change something; look again when something changes.
    Refuse,
    /// Run `helm install`.
    Install {
        /// The revision that it makes.
        revision: i64,
        /// The history of an uninstalled release is in the way and is built upon.
        replace: bool,
    },
    /// Run `helm upgrade`.
    Upgrade {
        /// The revision that it makes.
        revision: i64,
    },
    /// Run `helm rollback`.
    Rollback {
        /// The good revision to return to.
        to: i64,
        /// The revision that it makes.
        revision: i64,
    },
    /// Run `helm test`.
    Test {
        /// The revision that is tested.
        revision: i64,
    },
    /// Rewrite a dead operation's record to `failed`.
    MarkFailed {
        /// The record.
        revision: i64,
    },
    /// Rewrite the record of an operation that died after its last change to `deployed`.
    MarkDeployed {
        /// The record.
        revision: i64,
    },
    /// Write our label on a record that holds just what is wanted.
    PatchLabel {
        /// The record.
        revision: i64,
    },
    /// Run `helm uninstall`.
    Uninstall {
        /// The newest record.
        revision: i64,
        /// Leave out hooks: the namespace terminates and takes no new objects.
        no_hooks: bool,
        /// It is the removal of a failed install, not of a release.
        failed_install: bool,
    },
    /// Let the HelmRelease go.
    RemoveFinalizer,
}

/// The kinds of [`Action`], for tables, logs and metrics.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ActionKind {
    /// [`Action::Nothing`].
    Nothing,
    /// [`Action::Wait`].
    Wait,
    /// [`Action::Refuse`].
    Refuse,
    /// [`Action::Install`].
    Install,
    /// [`Action::Upgrade`].
    Upgrade,
    /// [`Action::Rollback`].
    Rollback,
    /// [`Action::Test`].
    Test,
    /// [`Action::MarkFailed`].
    MarkFailed,
    /// [`Action::MarkDeployed`].
    MarkDeployed,
    /// [`Action::PatchLabel`].
    PatchLabel,
    /// [`Action::Uninstall`].
    Uninstall,
    /// [`Action::RemoveFinalizer`].
    RemoveFinalizer,
}

impl Action {
    /// Which kind of action it is.
    #[must_use]
    pub fn kind(&self) -> ActionKind {
        match self {
            Self::Nothing => ActionKind::Nothing,
            Self::Wait => ActionKind::Wait,
            Self::Refuse => ActionKind::Refuse,
            Self::Install { .. } => ActionKind::Install,
            Self::Upgrade { .. } => ActionKind::Upgrade,
            Self::Rollback { .. } => ActionKind::Rollback,
            Self::Test { .. } => ActionKind::Test,
            Self::MarkFailed { .. } => ActionKind::MarkFailed,
            Self::MarkDeployed { .. } => ActionKind::MarkDeployed,
            Self::PatchLabel { .. } => ActionKind::PatchLabel,
            Self::Uninstall { .. } => ActionKind::Uninstall,
            Self::RemoveFinalizer => ActionKind::RemoveFinalizer,
        }
    }

    /// Whether a helm child carries it out; then status records the operation first.
    #[must_use]
    pub fn runs_helm(&self) -> bool {
        matches!(
            self.kind(),
            ActionKind::Install
                | ActionKind::Upgrade
                | ActionKind::Rollback
                | ActionKind::Test
                | ActionKind::Uninstall
        )
    }
}

impl ActionKind {
    /// The name of the kind.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "Nothing",
            Self::Wait => "Wait",
            Self::Refuse => "Refuse",
            Self::Install => "Install",
            Self::Upgrade => "Upgrade",
            Self::Rollback => "Rollback",
            Self::Test => "Test",
            Self::MarkFailed => "MarkFailed",
            Self::MarkDeployed => "MarkDeployed",
            Self::PatchLabel => "PatchLabel",
            Self::Uninstall => "Uninstall",
            Self::RemoveFinalizer => "RemoveFinalizer",
        }
    }
}

/// Why an action was chosen, in one word for conditions and events.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Reason {
    /// The release is what is wanted.
    InSync,
    /// There is no release yet.
    NotInstalled,
    /// Chart, values or settings differ from what is released.
    Changed,
    /// The release was changed by somebody else and is brought back.
    ChangedByOthers,
    /// An existing release already is what is wanted.
    Adopted,
    /// An existing release is taken over and brought to what is wanted.
    Adopting,
    /// The last try failed and is made again.
    Retry,
    /// The last try was interrupted and is made again.
    Interrupted,
    /// The last try failed; the next one comes later.
    Backoff,
    /// The last upgrade failed.
    UpgradeFailed,
    /// The first install failed and is removed.
    InstallFailed,
    /// The tests of this revision failed.
    TestFailed,
    /// This revision wasn't tested yet.
    NotTested,
    /// The release was rolled back and isn't tried again until something changes.
    RolledBack,
    /// An operation of ours is still running.
    OperationRunning,
    /// Somebody else's operation is, or may be, running.
    ForeignOperation,
    /// An operation died before it was finished.
    OperationDied,
    /// An operation died after its last change.
    OperationFinished,
    /// An uninstall died or was undone.
    UninstallUnfinished,
    /// Objects of an earlier release are still being removed.
    ObjectsTerminating,
    /// The namespace of the release isn't there.
    NamespaceMissing,
    /// The namespace of the release is being removed.
    NamespaceTerminating,
    /// Another HelmRelease owns this release.
    OwnedByOther,
    /// A record must be read first.
    RecordUnread,
    /// Helm's record has a state that isn't known.
    UnknownState,
    /// The HelmRelease is being deleted.
    Deleted,
    /// An annotation lets nothing be done.
    Suspended,
    /// The HelmRelease is being deleted and its release is left alone.
    Abandoned,
    /// The HelmRelease is being deleted, and somebody else's release bears the name.
    NeverReleased,
    /// The definition of HelmRelease is being deleted; releases are left alone.
    DefinitionDeleted,
    /// What gather said keeps the release from being made.
    Blocked(&'static str),
}

impl Reason {
    /// Whether what is released is something else than what was tried last, or another
    /// beginning: failures before it say nothing about it.
    #[must_use]
    pub fn is_of_something_else(self) -> bool {
        matches!(
            self,
            Self::Changed | Self::ChangedByOthers | Self::Adopting | Self::NotInstalled
        )
    }

    /// The word, as conditions and events carry it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InSync => "InSync",
            Self::NotInstalled => "NotInstalled",
            Self::Changed => "Changed",
            Self::ChangedByOthers => "ChangedByOthers",
            Self::Adopted => "Adopted",
            Self::Adopting => "Adopting",
            Self::Retry => "Retry",
            Self::Interrupted => "Interrupted",
            Self::Backoff => "Backoff",
            Self::UpgradeFailed => "UpgradeFailed",
            Self::InstallFailed => "InstallFailed",
            Self::TestFailed => "TestFailed",
            Self::NotTested => "NotTested",
            Self::RolledBack => "RolledBack",
            Self::OperationRunning => "OperationRunning",
            Self::ForeignOperation => "ForeignOperation",
            Self::OperationDied => "OperationDied",
            Self::OperationFinished => "OperationFinished",
            Self::UninstallUnfinished => "UninstallUnfinished",
            Self::ObjectsTerminating => "ObjectsTerminating",
            Self::NamespaceMissing => "NamespaceMissing",
            Self::NamespaceTerminating => "NamespaceTerminating",
            Self::OwnedByOther => "OwnedByOther",
            Self::RecordUnread => "RecordUnread",
            Self::UnknownState => "UnknownState",
            Self::Deleted => "Deleted",
            Self::NeverReleased => "NeverReleased",
            Self::Suspended => "Suspended",
            Self::Abandoned => "Abandoned",
            Self::DefinitionDeleted => "DefinitionDeleted",
            Self::Blocked(word) => word,
        }
    }
}

/// One action, and why.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Decision {
    /// What to do.
    pub action: Action,
    /// Why, in one word.
    pub reason: Reason,
    /// Why, in a sentence; of the release only, never of values.
    pub message: String,
    /// When to look again, if the answer may change and nothing tells.
    pub until: Option<Timestamp>,
}

impl Decision {
    fn new(action: Action, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            action,
            reason,
            message: message.into(),
            until: None,
        }
    }

    fn until(mut self, until: Timestamp) -> Self {
        self.until = Some(until);
        self
    }
}

/// What must be learned before [`plan`] can decide; `None` once it can.
#[must_use]
pub fn needs(observed: &Observed, desired: &Desired) -> Option<Need> {
    decide(observed, desired).err()
}

/// The next action. While [`needs`] asks for something, that is to wait.
#[must_use]
pub fn plan(observed: &Observed, desired: &Desired) -> Decision {
    decide(observed, desired).unwrap_or_else(|need| {
        Decision::new(
            Action::Wait,
            Reason::RecordUnread,
            format!("{need} was not read yet"),
        )
    })
}
