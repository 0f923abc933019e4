//! The API's side of what wakes the reconciler: watches of HelmReleases, of the metadata of
//! Helm's release records, and, once a HelmRelease names any, of the metadata of ConfigMaps
//! and Secrets. Each lists everything first and goes on for ever.

use std::convert::identity;
use std::fmt::Debug;
use std::time::Duration;

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::core::PartialObjectMeta;
use kube::runtime::utils::{Backoff, ResetTimerBackoff};
use kube::runtime::watcher::{Config, Error, Event, ExponentialBackoff};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use tokio::sync::{mpsc, watch};
use tracing::{info, warn};

use crate::crd::StoredHelmRelease;
use crate::records::StoredRecord;
use crate::references::{Followed, Seen};
use crate::storage::{NO_RECORD_SELECTOR, WATCH_SELECTOR};
use crate::{records, releases};

/// From the first retry after an error to the longest one.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));

/// Without an error for this long, the next one is the first again.
const CALM: Duration = Duration::from_secs(60);

/// Follows all HelmReleases, or those of one namespace.
pub async fn helm_releases(
    client: Client,
    namespace: Option<String>,
    out: mpsc::Sender<Event<StoredHelmRelease>>,
) {
    let api: Api<StoredHelmRelease> = in_scope(client, namespace.as_deref());
    // Listed with quorum: from an API server that lags, a spec could come back that its
    // owner has replaced, and helm would be run for it.
    let events = watcher(api, Config::default()).modify(releases::strip);
    follow("HelmReleases", events, identity, out).await;
}

/// Follows the metadata of Helm's release records.
pub async fn release_records(
    client: Client,
    namespace: Option<String>,
    out: mpsc::Sender<Event<StoredRecord>>,
) {
    let api: Api<StoredRecord> = in_scope(client, namespace.as_deref());
    let config = Config::default().labels(WATCH_SELECTOR);
    let events = watcher(api, config).modify(records::strip);
    follow("Helm's release records", events, identity, out).await;
}

/// Follows the metadata of ConfigMaps, once there is one to follow.
pub async fn config_maps(
    client: Client,
    namespace: Option<String>,
    mut wanted: watch::Receiver<Followed>,
    out: mpsc::Sender<Seen>,
) {
    if wanted.wait_for(|kinds| kinds.config_maps).await.is_ok() {
        let api: Api<PartialObjectMeta<ConfigMap>> = in_scope(client, namespace.as_deref());
        let events = watcher(api, Config::default());
        follow("ConfigMaps", events, Seen::ConfigMap, out).await;
    }
}

/// Follows the metadata of Secrets other than Helm's, once there is one to follow.
pub async fn secrets(
    client: Client,
    namespace: Option<String>,
    mut wanted: watch::Receiver<Followed>,
    out: mpsc::Sender<Seen>,
) {
    if wanted.wait_for(|kinds| kinds.secrets).await.is_ok() {
        let api: Api<PartialObjectMeta<Secret>> = in_scope(client, namespace.as_deref());
        let config = Config::default().labels(NO_RECORD_SELECTOR);
        follow("Secrets", watcher(api, config), Seen::Secret, out).await;
    }
}

fn in_scope<K>(client: Client, namespace: Option<&str>) -> Api<K>
where
    K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    }
}

async fn follow<K: Debug + Send, T>(
    what: &'static str,
    events: impl Stream<Item = Result<Event<K>, Error>> + Send,
    tell: impl Fn(Event<K>) -> T,
    out: mpsc::Sender<T>,
) {
    let mut events = std::pin::pin!(events.backoff(Retry::new()));
    // A long outage is told once, and its end.
    let mut trouble = None;
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                // A listing that begins may fail yet.
                if !matches!(event, Event::Init) && trouble.take().is_some() {
                    info!("{what} are followed again");
                }
                if out.send(tell(event)).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                let told = describe(what, &error);
                if trouble.as_ref() != Some(&told) {
                    warn!("{told}");
                    trouble = Some(told);
                }
            }
        }
    }
}

/// Grows with every error. A watch tells of each listing that begins, which is no reason to
/// begin anew: the listing itself may be what fails.
struct Retry(ResetTimerBackoff<ExponentialBackoff>);

impl Retry {
    fn new() -> Self {
        let backoff = backon::ExponentialBuilder::default()
            .with_min_delay(RETRY.0)
            .with_max_delay(RETRY.1)
            .without_max_times()
            .with_jitter();
        Self(ResetTimerBackoff::new(backoff.into(), CALM))
    }
}

impl Iterator for Retry {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next()
    }
}

impl Backoff for Retry {
    fn reset(&mut self) {}
}

fn describe(what: &str, error: &Error) -> String {
    let status = match error {
        Error::InitialListFailed(kube::Error::Api(status))
        | Error::WatchStartFailed(kube::Error::Api(status)) => Some(status.code),
        Error::WatchError(status) => Some(status.code),
        _ => None,
    };
    match status {
        Some(404) => String::from(
            "the cluster doesn't know HelmReleases yet; install their definition, which `reconciler crd` prints, with kubectl apply --server-side -f -",
        ),
        Some(403) => format!(
            "not allowed to list and watch {what} ({error}); apply the RBAC rules of the deployment"
        ),
        // The server forgot what it had told us: an everyday thing, the watch lists again.
        Some(410) => format!("the watch of {what} begins anew: {error}"),
        _ => format!("can't follow {what}: {error}; trying again"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn listings_that_begin_and_fail_are_tried_ever_more_rarely() {
        let mut retry = Retry::new();
        let mut next = || {
            retry.reset();
            retry.next().unwrap_or_default()
        };
        let first = next();
        let last = (0..8).map(|_| next()).last().unwrap_or_default();
        assert!(first < RETRY.0 * 2 && last >= RETRY.1, "{first:?} {last:?}");
        tokio::time::advance(CALM * 2).await;
        assert!(next() < RETRY.0 * 2);
    }
}
