//! What a pass asks the API for once something is to be done: never a cache.

use std::sync::Arc;

use k8s_openapi::api::core;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, CustomResourceExt};
use tandem_shared::lock::{self, Guard, LockError};

use super::plan::{Facts, Namespace};
use super::{Context, Trouble};
use crate::crd::{HelmRelease, Target};
use crate::storage::History;

/// What is only asked for when something is to be done.
pub(super) struct Fresh {
    pub(super) history: History,
    pub(super) facts: Facts,
    /// `None` while somebody else holds it.
    pub(super) lock: Option<Arc<Guard>>,
    pub(super) namespace: Namespace,
    pub(super) definition_deleting: bool,
    /// Objects that an uninstall left and that are still being removed.
    pub(super) terminating: Vec<String>,
}

impl Fresh {
    /// Takes the release lock, and only then lists the records: what is planned on them stays
    /// true.
    pub(super) async fn ask(
        ctx: &Context,
        target: &Target,
        deleting: bool,
    ) -> Result<Self, Trouble> {
        let path = ctx.wanted.release_lock(&target.namespace, &target.name);
        let lock = match lock::try_acquire(&path) {
            Ok(guard) => Some(Arc::new(guard)),
            Err(LockError::Held { .. }) => None,
            Err(error) => return Err(Trouble::new("VolumeFailed", error)),
        };
        let (history, terminating, namespace, definition_deleting) = tokio::join!(
            ctx.engine.store().history(target),
            ctx.engine.terminating(target),
            namespace(&ctx.client, target),
            async { deleting && definition_deleting(&ctx.client).await },
        );
        Ok(Self {
            history: history.map_err(|error| Trouble::new("StorageFailed", error))?,
            facts: Facts::default(),
            lock,
            terminating: terminating.map_err(|error| Trouble::new("ApiFailed", error))?,
            namespace: namespace?,
            definition_deleting,
        })
    }

    /// Puts the records after an action in the place of those before. Whose the objects were
    /// was judged before it.
    pub(super) fn replace(&mut self, history: History) {
        self.history = history;
        self.facts = Facts {
            holders: std::mem::take(&mut self.facts.holders),
            ..Facts::default()
        };
    }
}

async fn namespace(client: &Client, target: &Target) -> Result<Namespace, Trouble> {
    let api: Api<core::v1::Namespace> = Api::all(client.clone());
    match api.get_metadata_opt(&target.namespace).await {
        Ok(None) => Ok(Namespace::Missing),
        Ok(Some(found)) if found.metadata.deletion_timestamp.is_some() => {
            Ok(Namespace::Terminating)
        }
        Ok(Some(_)) => Ok(Namespace::There),
        // A Role can't allow it; what helm then says is clear enough.
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(Namespace::There),
        Err(error) => {
            let what = format!("can't read Namespace {}: {error}", target.namespace);
            Err(Trouble::new("ApiFailed", what))
        }
    }
}

/// Whether the definition of HelmRelease is going, and all HelmReleases with it. If that
/// can't be told, it isn't.
async fn definition_deleting(client: &Client) -> bool {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let found = api.get_metadata_opt(HelmRelease::crd_name()).await;
    found.is_ok_and(|found| {
        found.is_none_or(|definition| definition.metadata.deletion_timestamp.is_some())
    })
}
