//! Plain requests to the product's own addresses.

use std::time::Duration;

use anyhow::{Context, Result};
use axum::body::{Body, Bytes};
use axum::http::{Method, Request, Response};
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
    let request = Request::builder()
        .method(method)
        .uri(url)
        .body(Body::empty())?;
    let answer = send(request).await?;
    let text = String::from_utf8_lossy(answer.body()).into_owned();
    Ok((answer.status().as_u16(), text))
}

/// Sends any request; gives the answer with its whole body.
///
/// # Errors
/// As [`request`].
pub async fn send(request: Request<Body>) -> Result<Response<Bytes>> {
    let url = request.uri().to_string();
    let asked = async {
        let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
        let (head, body) = client.request(request).await?.into_parts();
        let bytes = body.collect().await?.to_bytes();
        Ok::<_, anyhow::Error>(Response::from_parts(head, bytes))
    };
    tokio::time::timeout(TIMEOUT, asked)
        .await
        .with_context(|| format!("{url} gave no answer in {} s", TIMEOUT.as_secs()))?
        .context(url)
}

/// `GET`.
///
/// # Errors
/// As [`request`].
pub async fn get(url: &str) -> Result<(u16, String)> {
    request(Method::GET, url).await
}
