//! Health, metrics, and the one thing that can be asked for over HTTP: a look at the sources
//! now.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use url::form_urlencoded;

use crate::metrics::Metrics;
use crate::wanted::SourceFilter;

/// What has to be there before the process is of use; each absent one is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// All HelmReleases were listed.
    pub helm_releases: bool,
    /// All of Helm's release records were listed.
    pub records: bool,
    /// All manifests were read.
    pub manifests: bool,
}

impl Readiness {
    /// What is missing, in words; empty if nothing is.
    #[must_use]
    pub fn missing(&self) -> String {
        let parts = [
            (
                self.helm_releases,
                "HelmReleases are not listed yet (is their definition installed?)",
            ),
            (self.records, "Helm's release records are not listed yet"),
            (
                self.manifests,
                "the manifests on the volume were not read yet",
            ),
        ];
        let missing: Vec<&str> = parts
            .iter()
            .filter(|(there, _)| !there)
            .map(|(_, what)| *what)
            .collect();
        missing.join("; ")
    }
}

/// A wish that sources be checked now.
#[derive(Debug)]
pub struct SyncRequest {
    /// Which; all without a filter.
    pub filter: Option<SourceFilter>,
    /// How many sources will be checked.
    pub answer: oneshot::Sender<usize>,
}

/// Why nothing is served.
#[derive(Debug, Error)]
pub enum HttpError {
    /// The address isn't to be had.
    #[error("can't listen on {address}: {source}; name another address with --listen")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// The server ended.
    #[error("the HTTP server ended: {0}")]
    Serve(std::io::Error),
}

/// What the handlers work with.
#[derive(Clone)]
pub struct Shared {
    /// All metrics.
    pub metrics: Arc<Metrics>,
    /// What is there already.
    pub ready: watch::Receiver<Readiness>,
    /// Where wishes go.
    pub syncs: mpsc::Sender<SyncRequest>,
}

/// Takes the address. Without IPv6, every address means every one of IPv4.
///
/// # Errors
/// If it can't be had.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, HttpError> {
    let failed = |source| HttpError::Listen { address, source };
    match TcpListener::bind(address).await {
        Err(error)
            if address.is_ipv6()
                && address.ip().is_unspecified()
                && error.kind() != std::io::ErrorKind::AddrInUse =>
        {
            let fallback = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), address.port());
            TcpListener::bind(fallback).await.map_err(|_| failed(error))
        }
        other => other.map_err(failed),
    }
}

/// Serves until `stop`.
///
/// # Errors
/// If the server ends by itself.
pub async fn serve(
    listener: TcpListener,
    shared: Shared,
    stop: CancellationToken,
) -> Result<(), HttpError> {
    let router = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/api/v1/sync-git", post(sync_git))
        .route("/api/v1/webhooks/{receiver}", any(no_webhooks))
        .with_state(shared);
    axum::serve(listener, router)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await
        .map_err(HttpError::Serve)
}

async fn readyz(State(shared): State<Shared>) -> Response {
    let missing = shared.ready.borrow().missing();
    if missing.is_empty() {
        "ok\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, format!("{missing}\n")).into_response()
    }
}

async fn metrics(State(shared): State<Shared>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], shared.metrics.text()).into_response()
}

async fn sync_git(State(shared): State<Shared>, uri: Uri) -> Response {
    let filter = match filter(uri.query().unwrap_or_default()) {
        Ok(filter) => filter,
        Err(why) => return (StatusCode::BAD_REQUEST, why).into_response(),
    };
    let (answer, answered) = oneshot::channel();
    let named = filter.is_some();
    if shared
        .syncs
        .send(SyncRequest { filter, answer })
        .await
        .is_err()
    {
        return (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n").into_response();
    }
    match answered.await {
        Ok(0) if named => (
            StatusCode::NOT_FOUND,
            "no HelmRelease wants such a source\n",
        )
            .into_response(),
        Ok(_) => "OK".into_response(),
        Err(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "not ready yet; see /readyz\n",
        )
            .into_response(),
    }
}

/// Whoever may reach this address may ask for more than a forge should.
async fn no_webhooks() -> Response {
    let where_else = "webhooks are received at the address of --webhook-listen\n";
    (StatusCode::NOT_FOUND, where_else).into_response()
}

fn filter(query: &str) -> Result<Option<SourceFilter>, String> {
    let mut filter = None;
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        let one = match &*key {
            "source" => SourceFilter::Name(value.into_owned()),
            "url" => SourceFilter::Url(value.into_owned()),
            _ => return Err("the query takes source=NAME or url=URL\n".to_owned()),
        };
        if filter.replace(one).is_some() {
            return Err("the query takes one of source=NAME and url=URL\n".to_owned());
        }
    }
    Ok(filter)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn a_query_names_one_source_or_none() {
        assert_eq!(filter(""), Ok(None));
        assert_eq!(
            filter("url=https%3A%2F%2Fh%2Fr"),
            Ok(Some(SourceFilter::Url("https://h/r".into())))
        );
        assert_eq!(
            filter("source=r-0"),
            Ok(Some(SourceFilter::Name("r-0".into())))
        );
        assert!(filter("sauce=r").is_err());
        assert!(filter("source=a&source=b").is_err());
    }

    #[test]
    fn what_is_missing_is_told() {
        let mut ready = Readiness {
            helm_releases: false,
            records: true,
            manifests: true,
        };
        assert!(
            ready.missing().contains("definition"),
            "{}",
            ready.missing()
        );
        ready.helm_releases = true;
        assert_eq!(ready.missing(), "");
    }
}
