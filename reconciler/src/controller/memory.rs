//! What the controller remembers of one HelmRelease besides the object itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use kube::Resource;
use tandem_shared::request::Prefer;
use tandem_shared::source::SourceName;
use tokio::sync::watch;

use crate::crd::{HelmReleaseStatus, Target};
use crate::reconcile::plan::Failures;
use crate::reconcile::snapshot::Snapshot;
use crate::releases::Entry;
use crate::storage::History;

/// What the controller remembers of one HelmRelease besides the object itself.
#[derive(Default)]
pub(super) struct Memory {
    /// The release of its last pass, for metrics.
    pub target: Option<Target>,
    /// What it was last seen to want of each of its sources.
    pub asked: BTreeMap<SourceName, Asked>,
    /// When somebody last asked for it to be looked at, in their own words.
    pub requested: Option<String>,
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
    /// What it prefers for what isn't one thing by itself.
    pub prefer: Prefer,
}

/// What a HelmRelease wants of one source.
#[derive(Default)]
pub(super) struct Asked {
    /// The keys of its wants, in order.
    pub wants: Vec<String>,
    /// Since when; `None` once a check since then has told about them.
    pub since: Option<Timestamp>,
    /// Such a check was asked for.
    pub doubted: bool,
    /// It was edited: refresh tokens whose checks say nothing about that, until another one
    /// has been handled.
    pub edited: Option<BTreeSet<String>>,
}

impl Memory {
    /// Forgets the status that was written once the watch has delivered it.
    pub(super) fn caught_up(&mut self, entry: &Entry) {
        self.status = self.status.take().filter(|(_, at)| is_newer(at, entry));
    }

    /// Whether a pass saw newer records than the watch has delivered: what is known from the
    /// watch says nothing then.
    pub(super) fn is_ahead_of(&self, known: &History) -> bool {
        let version = |text: &str| text.parse::<u64>().ok();
        let newest = known.last().map(|last| last.resource_version.as_str());
        self.seen_record.as_deref().and_then(version) > newest.and_then(version)
    }
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
    match memory.and_then(|memory| memory.status.as_ref()) {
        Some((written, at)) if is_newer(at, entry) => written.clone(),
        _ => Arc::new(observed),
    }
}

/// Whether a version of the object is newer than the one that the watch delivered last.
fn is_newer(version: &str, entry: &Entry) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    let seen = entry.object.meta().resource_version.as_deref();
    number(version) > seen.and_then(number)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::config::SourceDefaults;
    use crate::crd::Phase;
    use crate::identity::Stamp;
    use crate::storage::{RecordMeta, RecordState};

    fn entry(version: &str, phase: &str) -> Entry {
        let defaults = SourceDefaults {
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(1),
            reference: None,
            skip_dependencies: false,
            own_namespace_alone: false,
        };
        let object = json!({
            "apiVersion": "helm.fluxcd.io/v1", "kind": "HelmRelease",
            "metadata": {"namespace": "demo", "name": "web", "resourceVersion": version},
            "spec": {"chart": {}}, "status": {"phase": phase},
        });
        Entry::new(serde_json::from_value(object).unwrap(), &defaults)
    }

    #[test]
    fn a_watch_that_lags_does_not_take_back_what_was_written() {
        let written = HelmReleaseStatus {
            phase: Some(Phase::Succeeded),
            ..HelmReleaseStatus::default()
        };
        let memory = Memory {
            status: Some((Arc::new(written), "100".into())),
            ..Memory::default()
        };
        for (version, phase) in [
            ("99", Phase::Succeeded),
            ("100", Phase::Failed),
            ("101", Phase::Failed),
        ] {
            let status = newest_status(&entry(version, "Failed"), Some(&memory));
            assert_eq!(status.phase, Some(phase), "{version}");
        }
        assert_eq!(
            newest_status(&entry("99", "Failed"), None).phase,
            Some(Phase::Failed)
        );
    }

    #[test]
    fn records_that_a_watch_has_not_delivered_yet_are_missed() {
        let known = |version: &str| {
            let meta = RecordMeta {
                revision: 1,
                state: RecordState::PendingUpgrade,
                stamp: Stamp::Missing,
                touched: Timestamp::UNIX_EPOCH,
                created: Timestamp::UNIX_EPOCH,
                resource_version: version.into(),
            };
            History::new(vec![meta])
        };
        let seen = |version: Option<&str>| Memory {
            seen_record: version.map(Into::into),
            ..Memory::default()
        };
        assert!(seen(Some("100")).is_ahead_of(&known("99")));
        assert!(seen(Some("100")).is_ahead_of(&History::default()));
        assert!(!seen(Some("100")).is_ahead_of(&known("100")));
        assert!(!seen(Some("")).is_ahead_of(&known("99")));
        assert!(!seen(None).is_ahead_of(&History::default()));
    }
}
