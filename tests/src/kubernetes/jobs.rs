//! Jobs, which no node here runs.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use k8s_openapi::api::batch::v1::Job;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::wait::LONG;

/// Completes every Job of a namespace, as a node would, until `enough`.
pub async fn complete_jobs<F>(
    client: &Client,
    namespace: &str,
    mut enough: impl FnMut() -> F,
) -> Result<()>
where
    F: Future<Output = Result<bool>>,
{
    let jobs: Api<Job> = Api::namespaced(client.clone(), namespace);
    let deadline = Instant::now() + LONG;
    while !enough().await? {
        for job in jobs.list(&ListParams::default()).await? {
            let done = job
                .status
                .as_ref()
                .is_some_and(|status| status.completion_time.is_some());
            if !done {
                complete(&jobs, &job).await?;
            }
        }
        ensure!(
            Instant::now() < deadline,
            "Jobs were completed for {} s without an end",
            LONG.as_secs()
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

async fn complete(jobs: &Api<Job>, job: &Job) -> Result<()> {
    let now = jiff::Timestamp::now().to_string();
    // Once it is set, this can't be changed any more.
    let started = job
        .status
        .as_ref()
        .and_then(|status| status.start_time.as_ref());
    let started = started.map_or_else(|| now.clone(), |time| time.0.to_string());
    let condition = |kind: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": now, "lastProbeTime": now });
    // Of this very state: its controller may be writing to it just now.
    let status = json!({ "metadata": { "resourceVersion": job.resource_version() }, "status": {
        "startTime": started,
        "completionTime": now,
        "succeeded": 1,
        "active": 0,
        "ready": 0,
        "terminating": 0,
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    } });
    match jobs
        .patch_status(
            &job.name_any(),
            &PatchParams::default(),
            &Patch::Merge(&status),
        )
        .await
    {
        Ok(_) => Ok(()),
        // Gone, or written by its controller since it was read: look again.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
