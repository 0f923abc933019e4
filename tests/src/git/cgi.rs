//! One request to `git http-backend`, which speaks CGI.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Response};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Answers a request for a repository below `root`.
pub(super) async fn answer(
    root: &Path,
    parts: &Parts,
    body: Bytes,
    user: Option<&str>,
) -> Result<Response<Body>> {
    let header = |name: &str| {
        parts
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    let mut command = Command::from(super::git()?);
    command
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REQUEST_METHOD", parts.method.as_str())
        .env("PATH_INFO", parts.uri.path())
        .env("QUERY_STRING", parts.uri.query().unwrap_or_default())
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .env("REMOTE_ADDR", "127.0.0.1")
        .envs(user.map(|user| ("REMOTE_USER", user)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let mut child = command.spawn().context("git http-backend did not start")?;
    let mut stdin = child.stdin.take().context("no standard input")?;
    // Beside reading: both pipes may fill. The backend may end without reading.
    let fed = tokio::spawn(async move {
        let _ = stdin.write_all(&body).await;
    });
    let output = child.wait_with_output().await?;
    fed.abort();
    respond(&output.stdout)
}

fn respond(output: &[u8]) -> Result<Response<Body>> {
    let end = output
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .context("no header from git http-backend")?;
    let (head, body) = output.split_at(end);
    let mut response = Response::new(Body::from(Bytes::copy_from_slice(&body[4..])));
    for line in std::str::from_utf8(head)?.split("\r\n") {
        let Some((name, value)) = line.split_once(": ") else {
            bail!("git http-backend gave the header {line:?}");
        };
        if name.eq_ignore_ascii_case("status") {
            let code = value.split(' ').next().unwrap_or_default();
            *response.status_mut() = code.parse()?;
        } else {
            response
                .headers_mut()
                .append(HeaderName::try_from(name)?, HeaderValue::try_from(value)?);
        }
    }
    Ok(response)
}
