//! Helm's release records, in memory, as a watch of their metadata delivers them: the
//! newest of each release, mostly. A steady state is told by them alone; before anything is
//! done, they are read anew.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::Resource;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Event;
use tracing::warn;

use crate::crd::Target;
use crate::storage::{History, RecordMeta};

/// A record as the watch delivers it.
pub type StoredRecord = PartialObjectMeta<Secret>;

/// All records that are followed.
#[derive(Default)]
pub struct Records {
    releases: HashMap<Target, BTreeMap<i64, RecordMeta>>,
    listing: Option<BTreeSet<(Target, i64)>>,
    listed: bool,
}

impl Records {
    /// Whether they were all listed once.
    #[must_use]
    pub fn is_listed(&self) -> bool {
        self.listed
    }

    /// What is known of a release: all its records but superseded ones.
    #[must_use]
    pub fn history(&self, target: &Target) -> History {
        History::new(
            self.releases
                .get(target)
                .map(|known| known.values().cloned().collect())
                .unwrap_or_default(),
        )
    }

    /// Takes in an event; says which releases it touches.
    pub fn take(&mut self, event: Event<StoredRecord>) -> BTreeSet<Target> {
        match event {
            Event::Init => {
                self.listing = Some(BTreeSet::new());
                BTreeSet::new()
            }
            Event::InitApply(record) | Event::Apply(record) => {
                self.put(&record).into_iter().collect()
            }
            Event::Delete(record) => match RecordMeta::read(record.meta()) {
                Ok((target, meta)) => self
                    .remove(&target, meta.revision)
                    .then_some(target)
                    .into_iter()
                    .collect(),
                Err(_) => BTreeSet::new(),
            },
            Event::InitDone => {
                self.listed = true;
                let seen = self.listing.take().unwrap_or_default();
                let all = self
                    .releases
                    .iter()
                    .flat_map(|(target, known)| known.keys().map(move |at| (target.clone(), *at)));
                let gone: Vec<(Target, i64)> =
                    all.filter(|record| !seen.contains(record)).collect();
                gone.into_iter()
                    .filter_map(|(target, at)| self.remove(&target, at).then_some(target))
                    .collect()
            }
        }
    }

    fn put(&mut self, record: &StoredRecord) -> Option<Target> {
        let (target, meta) = match RecordMeta::read(record.meta()) {
            Ok(read) => read,
            Err(error) => {
                warn!("{error}");
                return None;
            }
        };
        if let Some(listing) = &mut self.listing {
            listing.insert((target.clone(), meta.revision));
        }
        let known = self.releases.entry(target.clone()).or_default();
        let old = known.insert(meta.revision, meta.clone());
        (old.as_ref() != Some(&meta)).then_some(target)
    }

    fn remove(&mut self, target: &Target, revision: i64) -> bool {
        let Some(known) = self.releases.get_mut(target) else {
            return false;
        };
        let removed = known.remove(&revision).is_some();
        if known.is_empty() {
            self.releases.remove(target);
        }
        removed
    }
}

/// Leaves of a record's metadata what [`RecordMeta`] reads: of the managed fields only the
/// newest time.
pub fn strip(record: &mut StoredRecord) {
    let meta = record.meta_mut();
    let newest = meta
        .managed_fields
        .take()
        .unwrap_or_default()
        .into_iter()
        .filter_map(|entry| entry.time)
        .max_by_key(|time| time.0);
    meta.managed_fields = newest.map(|time| {
        vec![ManagedFieldsEntry {
            time: Some(time),
            ..Default::default()
        }]
    });
    meta.annotations = None;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use serde_json::json;

    use super::*;
    use crate::storage::RecordState;

    fn record(revision: i64, status: &str) -> StoredRecord {
        serde_json::from_value(json!({"metadata": {
            "namespace": "demo", "name": format!("sh.helm.release.v1.web.v{revision}"),
            "creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": format!("{revision}{status}"),
            "labels": {"owner": "helm", "name": "web", "status": status, "version": revision.to_string()},
            "managedFields": [
                {"manager": "helm", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:data": {}}},
                {"manager": "helm", "time": "2026-01-03T00:00:00Z"},
                {"manager": "helm", "time": "2026-01-02T00:00:00Z"},
            ],
        }}))
        .unwrap()
    }

    fn target() -> Target {
        Target {
            namespace: "demo".into(),
            name: "web".into(),
        }
    }

    #[test]
    fn only_what_differs_is_told() {
        let mut records = Records::default();
        assert_eq!(
            records.take(Event::Apply(record(1, "deployed"))),
            [target()].into()
        );
        assert!(records.take(Event::Apply(record(1, "deployed"))).is_empty());
        assert_eq!(
            records.take(Event::Apply(record(2, "pending-upgrade"))),
            [target()].into()
        );
        assert_eq!(
            records.history(&target()).last().unwrap().state,
            RecordState::PendingUpgrade
        );
        assert_eq!(
            records.take(Event::Delete(record(1, "superseded"))),
            [target()].into()
        );
        assert_eq!(records.history(&target()).records().len(), 1);
    }

    #[test]
    fn what_a_new_listing_lacks_is_gone() {
        let mut records = Records::default();
        records.take(Event::Apply(record(1, "failed")));
        records.take(Event::Init);
        records.take(Event::InitApply(record(2, "deployed")));
        assert_eq!(records.take(Event::InitDone), [target()].into());
        assert!(records.is_listed());
        assert_eq!(records.history(&target()).records().len(), 1);
    }

    #[test]
    fn stripping_keeps_the_newest_time() {
        let mut stripped = record(1, "deployed");
        strip(&mut stripped);
        let (_, before) = RecordMeta::read(record(1, "deployed").meta()).unwrap();
        let (_, after) = RecordMeta::read(stripped.meta()).unwrap();
        assert_eq!(before, after);
        assert_eq!(stripped.meta().managed_fields.as_ref().unwrap().len(), 1);
    }
}
