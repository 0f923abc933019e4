//! What a pass asks the API for once something is to be done: never a cache.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, CustomResourceExt};
use tandem_shared::lock::{self, Guard, LockError};

use super::pass::{Next, Pass, Trouble};
use super::plan::Facts;
use crate::crd::HelmRelease;
use crate::storage::History;

/// Patience with one read of the API.
const READ: Duration = Duration::from_secs(30);

/// What is only asked for when something is to be done.
pub(super) struct Fresh {
    pub(super) history: History,
    pub(super) facts: Facts,
    /// `None` while somebody else holds it.
    pub(super) lock: Option<Arc<Guard>>,
    pub(super) namespace_terminating: bool,
    pub(super) definition_deleting: bool,
    /// Objects that an uninstall left and that are still being removed.
    pub(super) terminating: Vec<String>,
}

impl Pass<'_> {
    /// Takes a place among the helm children if one is needed, takes the release lock, and
    /// only then lists the records: what is planned on them stays true.
    pub(super) async fn freshen(&mut self, runs_helm: bool) -> Result<Next, Trouble> {
        if runs_helm && self.permit.is_none() {
            let slots = self.ctx.helm_slots.clone();
            self.slot = None;
            tokio::select! {
                permit = slots.acquire_owned() => self.permit = permit.ok(),
                () = self.ctx.stopping.cancelled() => return Ok(Next::End),
            }
        }
        let path = self
            .ctx
            .wanted
            .release_lock(&self.target.namespace, &self.target.name);
        let lock = match lock::try_acquire(&path) {
            Ok(guard) => Some(Arc::new(guard)),
            Err(LockError::Held { .. }) => None,
            Err(error) => return Err(Trouble::new("VolumeFailed", error)),
        };
        let history = self
            .ctx
            .engine
            .store()
            .history(&self.target)
            .await
            .map_err(|error| Trouble::new("StorageFailed", error))?;
        let deleting = self.snapshot.entry.is_deleting();
        let terminating = self.ctx.engine.terminating(&self.target).await;
        self.fresh = Some(Fresh {
            history,
            terminating: terminating.map_err(|error| Trouble::new("ApiFailed", error))?,
            facts: Facts::default(),
            lock,
            namespace_terminating: self.namespace_terminating().await?,
            definition_deleting: deleting && self.definition_deleting().await,
        });
        self.saw_record();
        Ok(Next::Step)
    }

    /// Somebody else changed the records: what they are now is listed and planned on.
    pub(super) async fn look_again(&mut self) -> Result<Next, Trouble> {
        self.fresh = None;
        self.freshen(false).await
    }

    /// Replaces the records after an action.
    pub(super) fn saw_history(&mut self, history: History) {
        if let Some(fresh) = &mut self.fresh {
            fresh.history = history;
            fresh.facts = Facts::default();
        }
        self.saw_record();
    }

    pub(super) fn saw_record(&mut self) {
        let last = self.fresh.as_ref().and_then(|fresh| fresh.history.last());
        self.finished.seen_record = Some(
            last.map(|last| last.resource_version.clone())
                .unwrap_or_default(),
        );
    }

    pub(super) fn history(&self) -> History {
        self.fresh
            .as_ref()
            .map(|fresh| fresh.history.clone())
            .unwrap_or_default()
    }

    pub(super) fn lock(&self) -> Option<Arc<Guard>> {
        self.fresh.as_ref().and_then(|fresh| fresh.lock.clone())
    }

    pub(super) async fn namespace_terminating(&self) -> Result<bool, Trouble> {
        let api: Api<Namespace> = Api::all(self.ctx.client.clone());
        let trouble = |why: String| {
            Trouble::new(
                "ApiFailed",
                format!("can't read Namespace {}: {why}", self.target.namespace),
            )
        };
        match tokio::time::timeout(READ, api.get_metadata_opt(&self.target.namespace)).await {
            Ok(Ok(found)) => {
                Ok(found.is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_some()))
            }
            // A Role can't allow it; what helm then says is clear enough.
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => Ok(false),
            Ok(Err(error)) => Err(trouble(error.to_string())),
            Err(_) => Err(trouble("no answer in time".to_owned())),
        }
    }

    /// Whether the definition of HelmRelease is going, and all HelmReleases with it. If that
    /// can't be told, it isn't.
    pub(super) async fn definition_deleting(&self) -> bool {
        let api: Api<CustomResourceDefinition> = Api::all(self.ctx.client.clone());
        let name = HelmRelease::crd_name();
        match tokio::time::timeout(READ, api.get_metadata_opt(name)).await {
            Ok(Ok(found)) => {
                found.is_none_or(|definition| definition.metadata.deletion_timestamp.is_some())
            }
            Ok(Err(_)) | Err(_) => false,
        }
    }
}
