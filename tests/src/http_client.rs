//! Plain requests to the product's own addresses.

use std::time::Duration;

use anyhow::{Context, Result};
use axum::body::Body;
use axum::http::{Method, Request};
use http_body_util::BodyExt;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

/// No answer on loopback takes longer unless its process hangs.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Sends a request without a body; gives the status and the text.
///
/// # Errors
/// When there is no connection or no answer.
pub async fn request(method: Method, url: &str) -> Result<(u16, String)> {
    let asked = async {
        let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
        let request = Request::builder()
            .method(method)
            .uri(url)
            .body(Body::empty())?;
        let response = client.request(request).await?;
        let status = response.status().as_u16();
        let text = response.into_body().collect().await?.to_bytes();
        Ok::<_, anyhow::Error>((status, String::from_utf8_lossy(&text).into_owned()))
    };
    tokio::time::timeout(TIMEOUT, asked)
        .await
        .with_context(|| format!("{url} gave no answer in {} s", TIMEOUT.as_secs()))?
        .with_context(|| url.to_owned())
}

/// `GET`.
///
/// # Errors
/// As [`request`].
pub async fn get(url: &str) -> Result<(u16, String)> {
    request(Method::GET, url).await
}
