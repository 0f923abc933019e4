//! Reading and writing release records through the Kubernetes API.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use super::meta::secret_name;
use super::{CodecError, History, MetaError, Record, RecordMeta, RecordState, codec};
use crate::crd::Target;
use crate::identity::{IDENTITY_LABEL, Identity};

/// Helm's release records in one cluster.
#[derive(Clone)]
pub struct Store {
    client: Client,
}

/// A record can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The API server said no, or nothing.
    #[error("{what} of release {target}: {source}")]
    Api {
        /// What was tried.
        what: &'static str,
        /// The release.
        target: Target,
        /// The API's answer.
        source: Box<kube::Error>,
    },
    /// A record's metadata is damaged.
    #[error(transparent)]
    Meta(#[from] MetaError),
    /// A record's payload is damaged.
    #[error("decode Secret {namespace}/{name}: {source}")]
    Codec {
        /// Namespace of the Secret.
        namespace: String,
        /// Name of the Secret.
        name: String,
        /// What is wrong.
        source: CodecError,
    },
    /// The record isn't what it was when it was decided to change it.
    #[error("revision {revision} of release {target} was changed by somebody else meanwhile")]
    Changed {
        /// The release.
        target: Target,
        /// The revision.
        revision: i64,
    },
    /// The record is gone.
    #[error("revision {revision} of release {target} is gone")]
    Gone {
        /// The release.
        target: Target,
        /// The revision.
        revision: i64,
    },
}

impl Store {
    /// Records are read and written with this client's rights.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// The client that records are read and written with.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The metadata of all records of a release, read with quorum: never from a cache.
    ///
    /// # Errors
    /// If the API can't be asked, or a record's metadata is damaged.
    pub async fn history(&self, target: &Target) -> Result<History, StoreError> {
        let selector = format!("owner=helm,name={}", target.name);
        let list = self
            .api(target)
            .list_metadata(&ListParams::default().labels(&selector))
            .await
            .map_err(api_error("list the records", target))?;
        let records: Result<Vec<RecordMeta>, MetaError> = list
            .items
            .iter()
            .map(|item| Ok(RecordMeta::read(&item.metadata)?.1))
            .collect();
        Ok(History::new(records?))
    }

    /// One revision, decoded.
    ///
    /// # Errors
    /// [`StoreError::Gone`] if there is no such revision; otherwise if the API can't be
    /// asked or the record is damaged.
    pub async fn record(&self, target: &Target, revision: i64) -> Result<Record, StoreError> {
        Ok(self.fetch(target, revision).await?.1)
    }

    /// Rewrites the status of a revision, in label and payload, if it still is the record
    /// `expected`. The description says why.
    ///
    /// # Errors
    /// [`StoreError::Changed`] if somebody else wrote it meanwhile.
    pub async fn rewrite(
        &self,
        target: &Target,
        expected: &RecordMeta,
        state: RecordState,
        description: &str,
    ) -> Result<Record, StoreError> {
        let (mut secret, record) = self.fetch(target, expected.revision).await?;
        let changed = || StoreError::Changed {
            target: target.clone(),
            revision: expected.revision,
        };
        if record.meta.resource_version != expected.resource_version {
            return Err(changed());
        }
        let name = secret_name(&target.name, expected.revision);
        let rewritten = record.rewritten(state, description);
        let data = codec::encode(rewritten.payload()).map_err(codec_error(target, &name))?;
        secret
            .data
            .get_or_insert_default()
            .insert("release".into(), k8s_openapi::ByteString(data));
        secret
            .metadata
            .labels
            .get_or_insert_default()
            .insert("status".into(), rewritten.meta.state.as_str().to_owned());
        match self
            .api(target)
            .replace(&name, &PostParams::default(), &secret)
            .await
        {
            Ok(written) => {
                let meta = RecordMeta::read(&written.metadata)?.1;
                Ok(Record::new(meta, rewritten.payload().clone()))
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Err(changed()),
            Err(error) => Err(api_error("rewrite a record", target)(error)),
        }
    }

    /// Writes our label on a revision, if it still is the record `expected`.
    ///
    /// # Errors
    /// [`StoreError::Changed`] if somebody else wrote it meanwhile.
    pub async fn patch_label(
        &self,
        target: &Target,
        expected: &RecordMeta,
        identity: &Identity,
    ) -> Result<(), StoreError> {
        let patch = json!({"metadata": {
            "resourceVersion": expected.resource_version,
            "labels": {IDENTITY_LABEL: identity.label(expected.revision)},
        }});
        let parameters = PatchParams::default();
        let name = secret_name(&target.name, expected.revision);
        match self
            .api(target)
            .patch_metadata(&name, &parameters, &Patch::Merge(&patch))
            .await
        {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => Err(StoreError::Changed {
                target: target.clone(),
                revision: expected.revision,
            }),
            Err(error) => Err(api_error("label a record", target)(error)),
        }
    }

    async fn fetch(&self, target: &Target, revision: i64) -> Result<(Secret, Record), StoreError> {
        let name = secret_name(&target.name, revision);
        let secret = self
            .api(target)
            .get_opt(&name)
            .await
            .map_err(api_error("get a record", target))?
            .ok_or_else(|| StoreError::Gone {
                target: target.clone(),
                revision,
            })?;
        let meta = RecordMeta::read(&secret.metadata)?.1;
        let data = secret.data.as_ref().and_then(|data| data.get("release"));
        let bytes = data.map_or(&[][..], |data| data.0.as_slice());
        let payload = codec::decode(bytes).map_err(codec_error(target, &name))?;
        Ok((secret, Record::new(meta, payload)))
    }

    fn api(&self, target: &Target) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &target.namespace)
    }
}

fn api_error(what: &'static str, target: &Target) -> impl FnOnce(kube::Error) -> StoreError {
    let target = target.clone();
    move |source| StoreError::Api {
        what,
        target,
        source: Box::new(source),
    }
}

fn codec_error(target: &Target, name: &str) -> impl FnOnce(CodecError) -> StoreError {
    let (namespace, name) = (target.namespace.clone(), name.to_owned());
    move |source| StoreError::Codec {
        namespace,
        name,
        source,
    }
}
