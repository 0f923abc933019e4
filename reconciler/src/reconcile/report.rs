//! Writes what became of a HelmRelease: its status, events, its finalizer, and the decision
//! file on the volume. Each only if it says something new.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource};
use serde_json::json;
use tandem_shared::decision::{Decision, ObjectRef};
use tandem_shared::layout::Wanted;
use tandem_shared::observe;
use tandem_shared::publish;
use thiserror::Error;
use tracing::warn;

use crate::crd::{FINALIZER, HelmRelease, HelmReleaseStatus, StoredHelmRelease};
use crate::events::{Events, Told};
use crate::metrics::{Metrics, Written};
use crate::releases::{Entry, Key};
use crate::status::merge_patch;

/// The name under which the API remembers what we wrote.
pub const FIELD_MANAGER: &str = "tandem";
/// Tries to change finalizers that others change at the same time.
const TRIES: usize = 5;

/// What couldn't be written to the API.
#[derive(Debug, Error)]
pub enum ReportError {
    /// The API said no, or nothing.
    #[error("can't write the {what} of HelmRelease {key}: {why}")]
    Api {
        /// What.
        what: &'static str,
        /// Of which.
        key: Key,
        /// What the API said.
        why: String,
    },
    /// The HelmRelease is gone.
    #[error("HelmRelease {0} is gone")]
    Gone(Key),
}

/// Writes reports.
#[derive(Clone)]
pub struct Reporter {
    client: Client,
    events: Events,
    wanted: Wanted,
    metrics: std::sync::Arc<Metrics>,
}

impl Reporter {
    /// Reports to the API through `client`, and to the mount `wanted`.
    #[must_use]
    pub fn new(
        client: Client,
        events: Events,
        wanted: Wanted,
        metrics: std::sync::Arc<Metrics>,
    ) -> Self {
        Self {
            client,
            events,
            wanted,
            metrics,
        }
    }

    /// Turns the status from `before` into `after`; gives the object's new version, or
    /// `None` if there was nothing to write.
    ///
    /// # Errors
    /// If the API doesn't take it.
    pub async fn status(
        &self,
        key: &Key,
        before: &HelmReleaseStatus,
        after: &HelmReleaseStatus,
    ) -> Result<Option<String>, ReportError> {
        let Some(patch) = merge_patch(before, after) else {
            return Ok(None);
        };
        let api: Api<StoredHelmRelease> = Api::namespaced(self.client.clone(), &key.namespace);
        let (parameters, patch) = (parameters(), Patch::Merge(patch));
        let written = api.patch_status(&key.name, &parameters, &patch).await;
        let written = written.map_err(failed("status", key))?;
        self.metrics.wrote(Written::status);
        Ok(written.meta().resource_version.clone())
    }

    /// Makes our finalizer hold the HelmRelease, or let it go.
    ///
    /// # Errors
    /// If the API doesn't take it.
    pub async fn finalizer(&self, entry: &Entry, hold: bool) -> Result<(), ReportError> {
        let key = &entry.key;
        let api: Api<HelmRelease> = Api::namespaced(self.client.clone(), &key.namespace);
        let mut meta = entry.object.meta().clone();
        for attempt in 1.. {
            let mut finalizers = meta.finalizers.clone().unwrap_or_default();
            let held = finalizers.iter().any(|finalizer| finalizer == FINALIZER);
            if held == hold {
                return Ok(());
            }
            finalizers.retain(|finalizer| finalizer != FINALIZER);
            if hold {
                finalizers.push(FINALIZER.to_owned());
            }
            // With its version: others' finalizers are never lost.
            let patch = Patch::Merge(json!({"metadata": {
                "uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": finalizers,
            }}));
            let parameters = parameters();
            match api.patch_metadata(&key.name, &parameters, &patch).await {
                Ok(_) => {
                    self.metrics.wrote(Written::finalizer);
                    return Ok(());
                }
                Err(kube::Error::Api(status)) if status.code == 409 && attempt < TRIES => {
                    let now = api.get_metadata(&key.name).await;
                    let now = now.map_err(failed("finalizer", key))?.metadata;
                    if now.uid != meta.uid {
                        return Err(ReportError::Gone(key.clone()));
                    }
                    meta = now;
                }
                Err(error) => return Err(failed("finalizer", key)(error)),
            }
        }
        Ok(())
    }

    /// Writes an event about the HelmRelease.
    pub async fn event(&self, entry: &Entry, told: &Told) {
        let meta = entry.object.meta();
        let about = ObjectReference {
            api_version: Some(HelmRelease::api_version(&()).into_owned()),
            kind: Some(HelmRelease::kind(&()).into_owned()),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            ..ObjectReference::default()
        };
        if self.events.tell(&about, told).await {
            self.metrics.wrote(Written::event);
        }
    }

    /// Writes the decision about one HelmRelease to the volume, unless the file says the
    /// same already, whenever that was.
    pub fn decision(&self, decision: &Decision) {
        let ObjectRef { namespace, name } = &decision.helm_release;
        let path = self.wanted.release(namespace, name);
        let same = observe::load::<Decision>(&path).is_ok_and(|old| {
            Decision {
                at: decision.at,
                ..old.document
            } == *decision
        });
        if !same && let Err(error) = publish::json(&path, decision) {
            warn!(helmrelease = %format!("{namespace}/{name}"), "{error}");
        }
    }
}

pub(super) fn parameters() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

fn failed(what: &'static str, key: &Key) -> impl FnOnce(kube::Error) -> ReportError {
    let key = key.clone();
    move |error| match error {
        kube::Error::Api(status) if status.code == 404 => ReportError::Gone(key),
        error => ReportError::Api {
            what,
            key,
            why: error.to_string(),
        },
    }
}
