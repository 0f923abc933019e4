//! Pods, which no node here runs.

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::wait::{LONG, Look, until};

/// How a Pod ends.
#[derive(Clone, Copy, Debug)]
pub enum PodEnd {
    /// All its containers ended well.
    Succeeded,
    /// One of them didn't.
    Failed,
}

/// Waits for a Pod that wasn't run yet, and ends it, as a node would.
///
/// # Errors
/// When it doesn't appear, or the API server refuses its status.
pub async fn end_pod(client: &Client, namespace: &str, name: &str, end: PodEnd) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    until(format!("Pod {name} to be run"), LONG, || async {
        let Some(pod) = pods.get_opt(name).await? else {
            return Ok(Look::NotYet("no such Pod".to_owned()));
        };
        let phase = pod
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        if phase != Some("Pending") || pod.metadata.deletion_timestamp.is_some() {
            return Ok(Look::NotYet(format!("{phase:?}, ended before")));
        }
        // Of this very Pod: the next one of that name is run by itself.
        let status = json!({
            "metadata": { "uid": pod.uid() },
            "status": { "phase": format!("{end:?}") },
        });
        let ours = PatchParams::default();
        match pods.patch_status(name, &ours, &Patch::Merge(&status)).await {
            Ok(_) => Ok(Look::Done(())),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                Ok(Look::NotYet(status.message))
            }
            Err(error) => Err(error.into()),
        }
    })
    .await
}
