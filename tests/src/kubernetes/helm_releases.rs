//! HelmReleases and what is said about them, through the API alone.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Secret};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::watcher::{self, watcher};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::MANAGER;
use crate::wait::{LONG, Look, until};

/// The HelmReleases of one namespace.
#[derive(Clone)]
pub struct HelmReleases {
    pub(super) client: Client,
    pub(super) namespace: String,
    api: Api<DynamicObject>,
}

/// A HelmRelease as it was read.
pub struct HelmRelease(pub DynamicObject);

impl HelmRelease {
    /// A value of its status by path, such as `phase`.
    pub fn status(&self, field: &str) -> &Value {
        &self.0.data["status"][field]
    }

    /// A condition: its status, reason and message.
    pub fn condition(&self, name: &str) -> Option<(&str, &str, &str)> {
        let conditions = self.0.data["status"]["conditions"].as_array()?;
        let found = conditions.iter().find(|one| one["type"] == name)?;
        let text = |field: &str| found[field].as_str().unwrap_or_default();
        Some((text("status"), text("reason"), text("message")))
    }

    /// Whether the newest generation has been acted on.
    pub fn is_observed(&self) -> bool {
        self.0
            .metadata
            .generation
            .is_some_and(|generation| self.status("observedGeneration") == generation)
    }

    fn describe(&self) -> String {
        format!(
            "generation {:?}, status {}",
            self.0.metadata.generation, self.0.data["status"]
        )
    }
}

/// The spec of a HelmRelease with a chart from git.
pub fn from_git(url: &str, reference: &str, path: &str) -> Value {
    json!({ "chart": { "git": url, "ref": reference, "path": path } })
}

impl HelmReleases {
    /// Those of `namespace`.
    pub fn new(client: Client, namespace: &str) -> Self {
        let kind = GroupVersionKind::gvk("helm.fluxcd.io", "v1", "HelmRelease");
        let resource = ApiResource::from_gvk_with_plural(&kind, "helmreleases");
        let api = Api::namespaced_with(client.clone(), namespace, &resource);
        Self {
            client,
            namespace: namespace.to_owned(),
            api,
        }
    }

    /// Their namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Makes a HelmRelease, or replaces the whole spec of the one that is there.
    ///
    /// Not by server-side apply: that reads its body as YAML, which lacks some
    /// of the characters that JSON has.
    pub async fn apply(&self, name: &str, spec: &Value) -> Result<()> {
        let mut object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "helm.fluxcd.io/v1",
            "kind": "HelmRelease",
            "metadata": { "name": name },
            "spec": spec,
        }))?;
        match self.api.create(&PostParams::default(), &object).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            made => return Ok(made.map(drop)?),
        }
        object.metadata = self.api.get(name).await?.metadata;
        self.api
            .replace(name, &PostParams::default(), &object)
            .await?;
        Ok(())
    }

    /// Merges into a HelmRelease, as `kubectl patch --type merge` does.
    pub async fn patch(&self, name: &str, patch: &Value) -> Result<()> {
        self.api
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    /// Reads one.
    pub async fn get(&self, name: &str) -> Result<HelmRelease> {
        Ok(HelmRelease(self.api.get(name).await?))
    }

    /// Reads all, from the API server's cache.
    pub async fn list(&self) -> Result<Vec<HelmRelease>> {
        let cached = ListParams::default().match_any();
        Ok(self
            .api
            .list(&cached)
            .await?
            .into_iter()
            .map(HelmRelease)
            .collect())
    }

    /// Follows all of them until `wanted` of them hold. By a watch, which costs the API
    /// server little: for measurements that looks would disturb.
    pub async fn follow(
        &self,
        what: &str,
        wanted: usize,
        within: Duration,
        holds: impl Fn(&HelmRelease) -> bool,
    ) -> Result<()> {
        let mut good = BTreeSet::new();
        let following = async {
            let mut events = pin!(watcher(self.api.clone(), watcher::Config::default()));
            while good.len() < wanted {
                match events.try_next().await?.context("the watch ended")? {
                    watcher::Event::Init | watcher::Event::InitDone => {}
                    watcher::Event::Apply(one) | watcher::Event::InitApply(one) => {
                        let (name, one) = (one.name_any(), HelmRelease(one));
                        if holds(&one) {
                            good.insert(name);
                        } else {
                            good.remove(&name);
                        }
                    }
                    watcher::Event::Delete(one) => {
                        good.remove(&one.name_any());
                    }
                }
            }
            Ok(())
        };
        match tokio::time::timeout(within, following).await {
            Ok(followed) => followed,
            Err(_) => bail!(
                "waited {} s for {wanted} HelmReleases {what}; there are {}",
                within.as_secs(),
                good.len()
            ),
        }
    }

    /// Asks for the deletion of one; finalizers may hold it.
    pub async fn delete(&self, name: &str) -> Result<()> {
        self.api.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Waits until one is gone.
    pub async fn gone(&self, name: &str) -> Result<()> {
        until(format!("HelmRelease {name} to be gone"), LONG, || async {
            let left = self.api.get_opt(name).await?.map(HelmRelease);
            Ok(Look::when(
                left.is_none(),
                left.map(|left| left.describe()).unwrap_or_default(),
            ))
        })
        .await
    }

    /// Waits until `holds`, and gives what was then read.
    pub async fn wait(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&HelmRelease) -> bool,
    ) -> Result<HelmRelease> {
        self.wait_within(name, what, LONG, holds).await
    }

    /// The same with a deadline of one's own.
    pub async fn wait_within(
        &self,
        name: &str,
        what: &str,
        within: Duration,
        holds: impl Fn(&HelmRelease) -> bool,
    ) -> Result<HelmRelease> {
        let waiting = until(
            format!("HelmRelease {}/{name}: {what}", self.namespace),
            within,
            || async {
                let found = self.get(name).await?;
                let seen = found.describe();
                Ok(Look::from_option(holds(&found).then_some(found), seen))
            },
        );
        match waiting.await {
            Ok(found) => Ok(found),
            Err(error) => bail!(
                "{error:#}; events: {:#?}",
                self.events(name).await.unwrap_or_default()
            ),
        }
    }

    /// Waits until the newest generation is released and ready.
    pub async fn released(&self, name: &str) -> Result<HelmRelease> {
        self.wait(name, "released", |found| {
            found.is_observed()
                && found
                    .condition("Released")
                    .is_some_and(|one| one.0 == "True")
                && found.condition("Ready").is_some_and(|one| one.0 == "True")
        })
        .await
    }

    /// Waits until it is released from `commit`.
    pub async fn released_from(&self, name: &str, commit: &str) -> Result<HelmRelease> {
        self.wait(name, &format!("released from {commit}"), |found| {
            found.is_observed()
                && found.status("revision") == commit
                && found
                    .condition("Released")
                    .is_some_and(|one| one.0 == "True")
        })
        .await
    }

    /// Waits until a condition has this status and a message or reason with
    /// `words` in it; gives the message.
    pub async fn condition(
        &self,
        name: &str,
        condition: &str,
        status: &str,
        words: &str,
    ) -> Result<String> {
        let found = self
            .wait(
                name,
                &format!("{condition}={status} with {words:?}"),
                |found| {
                    found
                        .condition(condition)
                        .is_some_and(|(is, reason, message)| {
                            is == status && (message.contains(words) || reason.contains(words))
                        })
                },
            )
            .await?;
        Ok(found
            .condition(condition)
            .map(|one| one.2.to_owned())
            .unwrap_or_default())
    }

    /// The events about one: type, reason and message.
    pub async fn events(&self, name: &str) -> Result<Vec<(String, String, String)>> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let about = ListParams::default().fields(&format!(
            "involvedObject.name={name},involvedObject.kind=HelmRelease"
        ));
        let text = |part: Option<String>| part.unwrap_or_default();
        let listed = events.list(&about).await?;
        Ok(listed
            .into_iter()
            .map(|one| (text(one.type_), text(one.reason), text(one.message)))
            .collect())
    }

    /// Waits for an event of that type and reason with `words` in its message.
    pub async fn event(&self, name: &str, type_: &str, reason: &str, words: &str) -> Result<()> {
        until(
            format!("{type_} event {reason} with {words:?} about {name}"),
            LONG,
            || async {
                let events = self.events(name).await?;
                let found = events
                    .iter()
                    .any(|one| one.0 == type_ && one.1 == reason && one.2.contains(words));
                Ok(Look::when(found, format!("{events:?}")))
            },
        )
        .await
    }

    /// A ConfigMap's data in this namespace, if it is there.
    pub async fn config_map(&self, name: &str) -> Result<Option<BTreeMap<String, String>>> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
        Ok(maps
            .get_opt(name)
            .await?
            .map(|map| map.data.unwrap_or_default()))
    }

    /// Waits until the ConfigMap's `marker` is this.
    pub async fn marker(&self, name: &str, marker: &str) -> Result<()> {
        until(
            format!("ConfigMap {name} with marker {marker}"),
            LONG,
            || async {
                let data = self.config_map(name).await?;
                let holds = data
                    .as_ref()
                    .and_then(|data| data.get("marker"))
                    .is_some_and(|is| is == marker);
                Ok(Look::when(holds, format!("{data:?}")))
            },
        )
        .await
    }

    /// Makes or replaces a ConfigMap.
    pub async fn put_config_map(&self, name: &str, values: &[(&str, &str)]) -> Result<()> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
        let data: BTreeMap<&str, &str> = values.iter().copied().collect();
        let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": data });
        let ours = PatchParams::apply(MANAGER).force();
        maps.patch(name, &ours, &Patch::Apply(&object)).await?;
        Ok(())
    }

    /// Deletes a ConfigMap.
    pub async fn delete_config_map(&self, name: &str) -> Result<()> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
        maps.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Makes or replaces a Secret.
    pub async fn put_secret(&self, name: &str, values: &[(&str, &str)]) -> Result<()> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let data: serde_json::Map<String, Value> = values
            .iter()
            .map(|(key, value)| ((*key).to_owned(), json!(value)))
            .collect();
        let object = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "stringData": data });
        secrets
            .patch(
                name,
                &PatchParams::apply(MANAGER).force(),
                &Patch::Apply(&object),
            )
            .await?;
        Ok(())
    }

    /// Makes an object of any kind that the test's own code knows.
    pub async fn create<K>(&self, object: &K) -> Result<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + serde::Serialize
            + serde::de::DeserializeOwned
            + Clone
            + std::fmt::Debug,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.namespace);
        Ok(api.create(&PostParams::default(), object).await?)
    }

    /// Waits until whatever is created is younger than this HelmRelease: age is in whole
    /// seconds, and of two of the same age the UID decides.
    pub async fn is_the_older_one(&self, name: &str) -> Result<()> {
        let created = self.get(name).await?.0.metadata.creation_timestamp;
        let created = created.context("it has no age")?.0.as_second();
        until("the next second", LONG, || async {
            let seconds = jiff::Timestamp::now().as_second();
            Ok(Look::when(seconds > created, seconds))
        })
        .await
    }
}
