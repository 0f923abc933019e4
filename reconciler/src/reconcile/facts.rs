//! Learns what [`plan`](super::plan) asked for: the I/O between [`needs`](super::plan::needs)
//! and the decision.

use std::io;
use std::path::Path;

use kube::Client;

use super::content;
use super::holder::{holder, strangers};
use super::objects::{Objects, ObjectsError, objects_of};
use super::plan::{Facts, Need, RecordFacts};
use crate::crd::Target;
use crate::storage::{History, Store, StoreError};
use crate::values::Values;

/// What can't be learned.
#[derive(Debug, thiserror::Error)]
pub enum FactsError {
    /// A record can't be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Objects can't be looked up.
    #[error(transparent)]
    Objects(#[from] ObjectsError),
    /// Whose a release is can't be asked.
    #[error("look up the HelmRelease that objects are annotated for: {0}")]
    Holder(#[source] Box<kube::Error>),
    /// The chart can't be read.
    #[error("read the extracted chart: {0}")]
    Chart(#[from] io::Error),
}

/// Where to ask, and about which release.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// Helm's records.
    pub store: &'a Store,
    /// Objects of releases.
    pub objects: &'a Objects,
    /// HelmReleases.
    pub client: &'a Client,
    /// The one namespace whose HelmReleases are followed, or all.
    pub followed: Option<&'a str>,
    /// The release.
    pub target: &'a Target,
    /// Its records.
    pub history: &'a History,
}

/// What is wanted, as far as a record is compared with it.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Directory of the chart.
    pub chart: &'a Path,
    /// The composed values.
    pub values: &'a Values,
    /// `spec.resetValues`, defaulted.
    pub reset_values: bool,
}

/// Learns one thing and adds it to the facts. Without anything wanted, contents are never
/// the same.
///
/// # Errors
/// If it can't be learned; the same need is there at the next try.
pub async fn learn(
    need: Need,
    asked: Asked<'_>,
    wanted: Option<Wanted<'_>>,
    facts: &mut Facts,
) -> Result<(), FactsError> {
    let (store, target) = (asked.store, asked.target);
    match need {
        Need::Record(revision) => {
            let record = store.record(target, revision).await?;
            let learned = RecordFacts {
                described_failed: record.described_failed(),
                is_rollback: record.is_rollback(),
            };
            facts.records.insert(revision, learned);
        }
        Need::Content(revision) => {
            let record = store.record(target, revision).await?;
            let same = match wanted {
                Some(wanted) => content::same(
                    &record,
                    wanted.chart,
                    wanted.values.map(),
                    wanted.reset_values,
                )?,
                None => false,
            };
            facts.same_content.insert(revision, same);
        }
        Need::Preexisting(revision) => {
            let record = store.record(target, revision).await?;
            let named = objects_of(record.manifest());
            drop(record);
            let seen = asked.objects.look(&named, &target.namespace).await?;
            let first = asked.history.records().first().map(|first| first.created);
            let older = seen.into_iter().filter(|seen| seen.created < first);
            let names = older.map(|seen| seen.object.to_string()).collect();
            facts.preexisting.insert(revision, names);
        }
        Need::Holder(revision) => {
            let holder = match asked.followed {
                Some(followed) => {
                    let record = store.record(target, revision).await?;
                    let named = objects_of(record.manifest());
                    drop(record);
                    let seen = asked.objects.look(&named, &target.namespace).await?;
                    holder(asked.client, target, strangers(&seen, followed))
                        .await
                        .map_err(|error| FactsError::Holder(Box::new(error)))?
                }
                // Nobody is left that could be a stranger.
                None => None,
            };
            facts.holders.insert(revision, holder);
        }
    }
    Ok(())
}
