//! Jobs, which no node here runs.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use k8s_openapi::api::batch::v1::Job;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::wait::LONG;

/// How a Job ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum JobEnd {
    /// Its Pods did what they were to do.
    Complete,
    /// They didn't.
    Failed,
}

/// Completes every Job of a namespace, as a node would, until `enough`.
pub async fn complete_jobs<F>(
    client: &Client,
    namespace: &str,
    enough: impl FnMut() -> F,
) -> Result<()>
where
    F: Future<Output = Result<bool>>,
{
    end_jobs(client, namespace, |_| Some(JobEnd::Complete), enough).await
}

/// Ends Jobs of a namespace, as a node would, until `enough`: each, by its name, as `how`
/// says, if at all.
pub async fn end_jobs<F>(
    client: &Client,
    namespace: &str,
    how: impl Fn(&str) -> Option<JobEnd>,
    mut enough: impl FnMut() -> F,
) -> Result<()>
where
    F: Future<Output = Result<bool>>,
{
    let jobs: Api<Job> = Api::namespaced(client.clone(), namespace);
    let deadline = Instant::now() + LONG;
    while !enough().await? {
        for job in jobs.list(&ListParams::default()).await?.iter().filter(runs) {
            if let Some(how) = how(&job.name_any()) {
                end(&jobs, job, how).await?;
            }
        }
        ensure!(
            Instant::now() < deadline,
            "Jobs were ended for {} s in vain",
            LONG.as_secs()
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

fn runs(job: &&Job) -> bool {
    let conditions = job.status.as_ref().and_then(|it| it.conditions.as_ref());
    let ended = conditions.into_iter().flatten().any(|condition| {
        ["Complete", "Failed"].contains(&condition.type_.as_str()) && condition.status == "True"
    });
    !ended && job.metadata.deletion_timestamp.is_none()
}

async fn end(jobs: &Api<Job>, job: &Job, how: JobEnd) -> Result<()> {
    let now = jiff::Timestamp::now().to_string();
    // Once it is set, this can't be changed any more.
    let started = job
        .status
        .as_ref()
        .and_then(|status| status.start_time.as_ref());
    let started = started.map_or_else(|| now.clone(), |time| time.0.to_string());
    let condition = |kind: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": now, "lastProbeTime": now });
    let (conditions, completed, counted) = match how {
        JobEnd::Complete => (["SuccessCriteriaMet", "Complete"], Some(&now), "succeeded"),
        JobEnd::Failed => (["FailureTarget", "Failed"], None, "failed"),
    };
    // Of this very state: its controller may be writing to it just now.
    let status = json!({ "metadata": { "resourceVersion": job.resource_version() }, "status": {
        "startTime": started,
        "completionTime": completed,
        counted: 1,
        "active": 0,
        "ready": 0,
        "terminating": 0,
        "conditions": conditions.map(condition),
    } });
    let ours = PatchParams::default();
    match jobs
        .patch_status(&job.name_any(), &ours, &Patch::Merge(&status))
        .await
    {
        Ok(_) => Ok(()),
        // Gone, or written by its controller since it was read: look again.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
