//! The objects that a release names, in the cluster: only their metadata.

mod rendered;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, Preconditions};
use kube::core::GroupVersionKind;
use kube::discovery::{self, Scope};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::antecedent;
use super::report;
use crate::crd::{ANTECEDENT_ANNOTATION, Target};
use crate::releases::Key;

pub use rendered::{objects_of, secrets_of};

/// Calls for one release under way at a time.
const CONCURRENCY: usize = 8;

/// One object that a manifest names.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ObjectRef {
    /// `group/version`, or `v1`.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespace as written; empty means that of the release, or none.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl std::fmt::Display for ObjectRef {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(formatter, "{}/", self.namespace)?;
        }
        formatter.write_str(&self.name)
    }
}

/// An object that exists.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Seen {
    /// The object.
    pub object: ObjectRef,
    /// When it was created, by the API server's clock.
    pub created: Option<Timestamp>,
    /// It is being removed.
    pub terminating: bool,
    uid: Option<String>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

impl Seen {
    fn new(object: ObjectRef, metadata: ObjectMeta) -> Self {
        Self {
            object,
            created: metadata.creation_timestamp.map(|time| time.0),
            terminating: metadata.deletion_timestamp.is_some(),
            uid: metadata.uid,
            labels: metadata.labels.unwrap_or_default(),
            annotations: metadata.annotations.unwrap_or_default(),
        }
    }

    /// The HelmRelease that it is annotated for.
    #[must_use]
    pub fn antecedent(&self) -> Option<Key> {
        antecedent::parse(self.annotations.get(ANTECEDENT_ANNOTATION)?)
    }

    /// Whether Helm marked it as an object of this release.
    #[must_use]
    pub fn belongs_to(&self, release: &Target) -> bool {
        let annotation = |key: &str| self.annotations.get(key).map(String::as_str);
        self.labels
            .get("app.kubernetes.io/managed-by")
            .map(String::as_str)
            == Some("Helm")
            && annotation("meta.helm.sh/release-name") == Some(release.name.as_str())
            && annotation("meta.helm.sh/release-namespace") == Some(release.namespace.as_str())
    }

    /// Whether Helm marked it as an object of another release. One without marks may be of a
    /// release from before there were any.
    #[must_use]
    pub fn belongs_to_another(&self, release: &Target) -> bool {
        let other = |key: &str, own: &str| {
            let marked = self.annotations.get(key);
            marked.is_some_and(|marked| marked != own)
        };
        other("meta.helm.sh/release-name", &release.name)
            || other("meta.helm.sh/release-namespace", &release.namespace)
    }

    /// Whether it is to outlive its release.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.annotations
            .get("helm.sh/resource-policy")
            .is_some_and(|policy| policy == "keep")
    }
}

/// What came of annotating objects.
#[derive(Debug, Default)]
pub struct Annotated {
    /// Those that bear the annotation now.
    pub seen: Vec<Seen>,
    /// Those that don't, and why. One that isn't there is among neither.
    pub left: Vec<(ObjectRef, ObjectsError)>,
}

/// The API server can't be asked about an object, or says no.
#[derive(Debug, thiserror::Error)]
#[error("{what} {object}: {source}")]
pub struct ObjectsError {
    what: &'static str,
    object: String,
    source: Box<kube::Error>,
}

impl ObjectsError {
    /// Whether it may pass by itself: the API server didn't say that it never will.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self.source.as_ref() {
            kube::Error::Api(status) => {
                !matches!(status.code, 400..=499) || matches!(status.code, 409 | 429)
            }
            _ => true,
        }
    }
}

/// Looks objects up; remembers how kinds are served.
#[derive(Clone)]
pub struct Objects {
    client: Client,
    kinds: Arc<Mutex<HashMap<GroupVersionKind, (ApiResource, bool)>>>,
}

impl Objects {
    /// Looks up with this client's rights.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self {
            client,
            kinds: Arc::default(),
        }
    }

    /// Those of the objects that exist; `namespace` is that of the release.
    ///
    /// # Errors
    /// If the API server can't be asked. An object that doesn't exist, or whose kind isn't
    /// served, is no error.
    pub async fn look(
        &self,
        objects: &[ObjectRef],
        namespace: &str,
    ) -> Result<Vec<Seen>, ObjectsError> {
        stream::iter(
            objects
                .iter()
                .cloned()
                .map(|object| self.look_at(object, namespace)),
        )
        .buffered(CONCURRENCY)
        .try_filter_map(|seen| std::future::ready(Ok(seen)))
        .try_collect()
        .await
    }

    async fn look_at(
        &self,
        object: ObjectRef,
        namespace: &str,
    ) -> Result<Option<Seen>, ObjectsError> {
        let failed = failed("look up", &object);
        let Some(api) = self.api(&object, namespace).await.map_err(&failed)? else {
            return Ok(None);
        };
        let found = api.get_metadata_opt(&object.name).await.map_err(&failed)?;
        Ok(found.map(|found| Seen::new(object, found.metadata)))
    }

    /// Annotates objects with the HelmRelease that they are released for, over whatever
    /// stood there. What the API server answers is as good as a look at them.
    pub async fn annotate(&self, objects: &[ObjectRef], namespace: &str, owner: &Key) -> Annotated {
        let value = antecedent::value(owner);
        let patch = Patch::Merge(json!({
            "metadata": { "annotations": { ANTECEDENT_ANNOTATION: value } },
        }));
        let patched = objects
            .iter()
            .cloned()
            .map(|object| self.patch(object, namespace, &patch));
        let answers: Vec<_> = stream::iter(patched).buffered(CONCURRENCY).collect().await;
        let mut annotated = Annotated::default();
        for answer in answers {
            match answer {
                Ok(seen) => annotated.seen.extend(seen),
                Err(left) => annotated.left.push(left),
            }
        }
        annotated
    }

    async fn patch(
        &self,
        object: ObjectRef,
        namespace: &str,
        patch: &Patch<Value>,
    ) -> Result<Option<Seen>, (ObjectRef, ObjectsError)> {
        let failed = failed("annotate", &object);
        let api = match self.api(&object, namespace).await {
            Ok(Some(api)) => api,
            Ok(None) => return Ok(None),
            Err(error) => return Err((object, failed(error))),
        };
        let parameters = report::parameters();
        match api.patch_metadata(&object.name, &parameters, patch).await {
            Ok(found) => Ok(Some(Seen::new(object, found.metadata))),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err((object, failed(error))),
        }
    }

    /// Removes an object that was seen, and no other of its name.
    ///
    /// # Errors
    /// If the API server can't be asked or says no. An object that is gone is no error.
    pub async fn remove(&self, seen: &Seen, namespace: &str) -> Result<(), ObjectsError> {
        let object = &seen.object;
        let failed = failed("remove", object);
        let Some(api) = self.api(object, namespace).await.map_err(&failed)? else {
            return Ok(());
        };
        let only_this = Preconditions {
            uid: seen.uid.clone(),
            ..Preconditions::default()
        };
        let parameters = DeleteParams::background().preconditions(only_this);
        match api.delete(&object.name, &parameters).await {
            Ok(_) => Ok(()),
            // Gone, or another one of its name.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }

    /// The API of an object's kind; `None` if it isn't served.
    async fn api(
        &self,
        object: &ObjectRef,
        namespace: &str,
    ) -> kube::Result<Option<Api<DynamicObject>>> {
        let Some((resource, namespaced)) = self.kind(object).await? else {
            return Ok(None);
        };
        let client = self.client.clone();
        Ok(Some(match (namespaced, object.namespace.as_str()) {
            (false, _) => Api::all_with(client, &resource),
            (true, "") => Api::namespaced_with(client, namespace, &resource),
            (true, own) => Api::namespaced_with(client, own, &resource),
        }))
    }

    /// How a kind is served, and whether in namespaces; `None` if it isn't.
    async fn kind(&self, object: &ObjectRef) -> kube::Result<Option<(ApiResource, bool)>> {
        let (group, version) = object
            .api_version
            .split_once('/')
            .unwrap_or(("", &object.api_version));
        let kind = GroupVersionKind::gvk(group, version, &object.kind);
        if let Some(known) = self.kinds.lock().await.get(&kind) {
            return Ok(Some(known.clone()));
        }
        match discovery::pinned_kind(&self.client, &kind).await {
            Ok((resource, capabilities)) => {
                let served = (resource, capabilities.scope == Scope::Namespaced);
                self.kinds.lock().await.insert(kind, served.clone());
                Ok(Some(served))
            }
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(kube::Error::Discovery(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn failed(what: &'static str, object: &ObjectRef) -> impl Fn(kube::Error) -> ObjectsError + use<> {
    let object = object.to_string();
    move |source| ObjectsError {
        what,
        object: object.clone(),
        source: Box::new(source),
    }
}
