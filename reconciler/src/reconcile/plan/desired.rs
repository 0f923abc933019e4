//! What is wanted of a release.

use std::time::Duration;

use crate::identity::Identity;

/// What is wanted of one release.
#[derive(Clone, Debug)]
pub struct Desired {
    /// There, gone, or there as soon as something is mended.
    pub want: Want,
    /// Generation of the HelmRelease: its change lets a failed try be made again at once.
    pub generation: i64,
    /// `spec.timeout`, defaulted: what a stranger's operation is given at least, twice.
    pub timeout: Duration,
    /// `spec.rollback`.
    pub rollback: RollbackPolicy,
    /// `spec.test`.
    pub test: TestPolicy,
}

/// There or gone.
#[derive(Clone, Debug)]
pub enum Want {
    /// The release shall be there.
    Present(Present),
    /// The release shall be there, but what from isn't known, or can't be had.
    Blocked(Blocked),
    /// An annotation lets nothing be done until it goes.
    Suspended,
    /// The HelmRelease is being deleted.
    Absent {
        /// An annotation lets the release live on.
        abandon: bool,
    },
}

/// What the release shall be made from.
#[derive(Clone, Debug)]
pub struct Present {
    /// The identity that is wanted, first, and further ones that are as good while digests
    /// of artifacts change their version.
    pub identities: Vec<Identity>,
}

/// Why the release can't be made. What is there is still recovered, never removed.
#[derive(Clone, Debug)]
pub struct Blocked {
    /// The reason in one word.
    pub reason: &'static str,
    /// The reason in a sentence, with what to do.
    pub message: String,
    /// Somebody has to change something; otherwise waiting may help.
    pub refuse: bool,
}

/// When a failed upgrade is rolled back, and how often it is tried again.
#[derive(Clone, Copy, Debug, Default)]
pub struct RollbackPolicy {
    /// Roll a failed upgrade back.
    pub enable: bool,
    /// Whether the upgrade may be tried again after the rollbacks counted in status, see
    /// [`Rollback::may_retry`](crate::crd::Rollback::may_retry).
    pub may_retry: bool,
}

/// Whether tests are run, and what they are worth.
#[derive(Clone, Copy, Debug, Default)]
pub struct TestPolicy {
    /// Run tests after every install and upgrade.
    pub enable: bool,
    /// A release with failing tests is good.
    pub ignore_failures: bool,
}
