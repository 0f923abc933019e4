//! Helm's own records of releases.

use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ListParams};

use super::HelmReleases;
use crate::wait::{LONG, Look, until};

impl HelmReleases {
    /// The labels of the release's records in Helm's storage, by revision.
    pub async fn records(&self, release: &str) -> Result<Vec<BTreeMap<String, String>>> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let ours = ListParams::default().labels(&format!("owner=helm,name={release}"));
        let mut records: Vec<_> = secrets
            .list(&ours)
            .await?
            .into_iter()
            .map(|secret| secret.metadata.labels.unwrap_or_default())
            .collect();
        records.sort_by_key(|labels| {
            labels
                .get("version")
                .and_then(|version| version.parse::<u32>().ok())
        });
        Ok(records)
    }

    /// Waits until the newest of the release's records has this status.
    pub async fn record(&self, release: &str, status: &str) -> Result<()> {
        let what = format!("a record of {release} that is {status}");
        until(what, LONG, || async {
            let records = self.records(release).await?;
            let last = records.last().and_then(|labels| labels.get("status"));
            let holds = last.is_some_and(|last| last == status);
            Ok(Look::when(holds, format!("{records:?}")))
        })
        .await
    }
}
