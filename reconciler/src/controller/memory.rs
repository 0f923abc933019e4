//! What the controller remembers of one HelmRelease besides the object itself.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use kube::Resource;
use tandem_shared::source::SourceName;
use tokio::sync::watch;

use crate::crd::{HelmReleaseStatus, Target};
use crate::reconcile::plan::Failures;
use crate::reconcile::snapshot::Snapshot;
use crate::releases::Entry;

/// What the controller remembers of one HelmRelease besides the object itself.
#[derive(Default)]
pub(super) struct Memory {
    /// The release of its last pass, for metrics.
    pub target: Option<Target>,
    /// The source and the wants that it was last seen to have.
    pub wants: Option<(SourceName, Vec<String>)>,
    /// Since when; `None` once a check since then has told about them.
    pub asked_at: Option<Timestamp>,
    /// Such a check was asked for.
    pub doubted: bool,
    /// The pass under way.
    pub running: Option<Running>,
    /// Another pass has to follow it.
    pub again: bool,
    /// Helm's records changed during it.
    pub record_changed: bool,
    /// The version of the newest record that a pass saw.
    pub seen_record: Option<String>,
    /// The status that was written last, and the object's version since.
    pub status: Option<(Arc<HelmReleaseStatus>, String)>,
    /// What went wrong lately.
    pub failures: Failures,
    /// Passes in a row that came to nothing for reasons that pass.
    pub blocked: u32,
    /// Since when its chart is waited for.
    pub awaiting: Option<Instant>,
    /// The commit that it prefers for a short commit id.
    pub prefer: Option<String>,
}

/// A pass under way.
pub(super) struct Running {
    /// Tells it what is new.
    pub inputs: watch::Sender<Arc<Snapshot>>,
}

/// The newest status that is known: a watch may lag behind what we wrote ourselves.
pub(super) fn newest_status(entry: &Entry, memory: Option<&Memory>) -> Arc<HelmReleaseStatus> {
    let observed = entry
        .release()
        .and_then(|release| release.status.clone())
        .unwrap_or_default();
    let version = |text: &str| text.parse::<u64>().ok();
    let seen = entry
        .object
        .meta()
        .resource_version
        .as_deref()
        .and_then(version);
    match memory.and_then(|memory| memory.status.as_ref()) {
        Some((written, at)) if version(at) >= seen => written.clone(),
        _ => Arc::new(observed),
    }
}
