//! What was seen of a release.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::Failures;
use crate::crd::Operation;
use crate::storage::History;

/// What was seen of one release. Default is a release that nobody has ever seen.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The moment of the decision.
    pub now: Timestamp,
    /// Helm's records, from one quorum list.
    pub history: History,
    /// What the records say beyond their metadata, as far as it was asked for.
    pub facts: Facts,
    /// The operation that the HelmRelease's status records.
    pub operation: Option<Operation>,
    /// The release lock is held: a child of ours, or of our killed predecessor, lives.
    pub child_alive: bool,
    /// The Lease epoch that this process acts under; always 0 without Leases.
    pub epoch: i64,
    /// The last run of the tests.
    pub last_test: Option<TestResult>,
    /// We made the release, and it was never good since: a first revision that fails its
    /// tests is removed again. Any other is somebody's already.
    pub on_trial: bool,
    /// This HelmRelease released it, or tried to.
    pub tried: bool,
    /// What went wrong lately.
    pub failures: Failures,
    /// Whose the release is among all HelmReleases.
    pub owner: Owner,
    /// How the namespace of the release is.
    pub namespace: Namespace,
    /// The definition of HelmRelease is being removed from the cluster.
    pub definition_deleting: bool,
    /// Objects that an install names and that are still being removed, as
    /// `Kind namespace/name`.
    pub terminating: Vec<String>,
}

/// Whose a release is: the oldest HelmRelease that names it, then the lowest UID.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Owner {
    /// This HelmRelease's.
    #[default]
    Ours,
    /// Another HelmRelease's, by `namespace/name`.
    Other(String),
}

/// How the namespace of a release is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Namespace {
    /// It is there, or that isn't known.
    #[default]
    There,
    /// It isn't there.
    Missing,
    /// It is being removed, and takes no new objects.
    Terminating,
}

/// A run of the tests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TestResult {
    /// The revision that was tested.
    pub revision: i64,
    /// Whether all tests passed.
    pub succeeded: bool,
}

/// What decoding brought to light.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Facts {
    /// By revision: what [`Need::Record`] asked for.
    pub records: BTreeMap<i64, RecordFacts>,
    /// By revision: whether chart and values are what is wanted, see [`Need::Content`].
    pub same_content: BTreeMap<i64, bool>,
    /// By revision: objects of a failed install that were there before it, see
    /// [`Need::Preexisting`].
    pub preexisting: BTreeMap<i64, Vec<String>>,
    /// By revision: whose its objects are, see [`Need::Holder`].
    pub holders: BTreeMap<i64, Option<String>>,
}

/// What one decoded record tells.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RecordFacts {
    /// It was described as failed, whatever its status says now.
    pub described_failed: bool,
    /// It is, or was to be, a return to an earlier revision.
    pub is_rollback: bool,
}

/// Something that costs an API call, asked for only where it decides.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Need {
    /// Decode this revision's record.
    Record(i64),
    /// Decode this revision's record and compare chart and values with what is wanted.
    Content(i64),
    /// Find out which objects of this revision are older than the release.
    Preexisting(i64),
    /// Find out whether this revision's objects are annotated for a HelmRelease that is
    /// followed elsewhere and asks for the release.
    Holder(i64),
}

impl std::fmt::Display for Need {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Record(revision) => write!(formatter, "the record of revision {revision}"),
            Self::Content(revision) => write!(formatter, "the content of revision {revision}"),
            Self::Preexisting(revision) => {
                write!(formatter, "the age of the objects of revision {revision}")
            }
            Self::Holder(revision) => {
                write!(formatter, "whose the objects of revision {revision} are")
            }
        }
    }
}
