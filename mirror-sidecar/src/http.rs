//! /healthz, /readyz and /metrics.

use std::future::Future;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;

use crate::health::Health;
use crate::metrics::Metrics;

/// What the endpoints show.
#[derive(Clone)]
pub struct Shown {
    /// How the process is.
    pub health: Arc<Health>,
    /// What it counts.
    pub metrics: Arc<Metrics>,
}

/// Serves until `end`.
///
/// # Errors
/// If the listener fails.
pub async fn serve(
    listener: TcpListener,
    shown: Shown,
    end: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let routes = Router::new()
        .route(
            "/healthz",
            get(|State(shown): State<Shown>| async move { verdict(shown.health.live()) }),
        )
        .route(
            "/readyz",
            get(|State(shown): State<Shown>| async move { verdict(shown.health.ready()) }),
        )
        .route(
            "/metrics",
            get(|State(shown): State<Shown>| async move { metrics(&shown.metrics) }),
        )
        .with_state(shown);
    axum::serve(listener, routes)
        .with_graceful_shutdown(end)
        .await
}

fn verdict(result: Result<(), String>) -> Response {
    match result {
        Ok(()) => "ok\n".into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, why).into_response(),
    }
}

fn metrics(metrics: &Metrics) -> Response {
    match metrics.text() {
        Ok(text) => (
            [(
                header::CONTENT_TYPE,
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
            )],
            text,
        )
            .into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
