//! What the controller hands to a pass: everything in memory that concerns one HelmRelease,
//! at one moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use tandem_shared::source::SourceName;

use super::plan::{Failures, Owner};
use crate::crd::{FileRef, HelmReleaseStatus, Target};
use crate::credentials::{Known, Lent};
use crate::demand::FileWish;
use crate::releases::{Entry, Unclear};
use crate::storage::History;
use crate::view::WantView;

/// Everything in memory that concerns one HelmRelease, at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The HelmRelease.
    pub entry: Arc<Entry>,
    /// The newest status that is known, which may be newer than the entry's.
    pub status: Arc<HelmReleaseStatus>,
    /// Its chart and values files.
    pub source: SourceView,
    /// Helm's records as the watch has them; `None` where they aren't followed.
    pub history: Option<History>,
    /// Whose the release is.
    pub owner: Owner,
    /// Of the releases of former names, those that another HelmRelease has now, and which.
    pub former_owners: BTreeMap<Target, String>,
    /// What went wrong lately.
    pub failures: Failures,
    /// The chart has been waited for long enough to say so.
    pub long_awaited: bool,
}

/// What is known of a HelmRelease's chart.
#[derive(Clone, Debug)]
pub enum SourceView {
    /// It doesn't say what it wants.
    Unclear(Unclear),
    /// It isn't asked for, or not verified, for want of a Secret.
    Credential(Lent, Known),
    /// What the volume says.
    Wants(Wants),
}

/// What the volume says about the wants of one HelmRelease.
#[derive(Clone, Debug)]
pub struct Wants {
    /// The source.
    pub name: SourceName,
    /// The key of the chart's want.
    pub key: String,
    /// The chart.
    pub chart: WantView,
    /// Values files, as the HelmRelease names them.
    pub files: BTreeMap<FileRef, FileView>,
}

/// What the volume says about a values file.
#[derive(Clone, Debug)]
pub struct FileView {
    /// Where it is found.
    pub place: FileWish,
    /// The file.
    pub view: WantView,
}
