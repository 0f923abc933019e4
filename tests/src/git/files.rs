//! Plain files beside the repositories of an [`super::HttpServer`].

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use axum::http::request::Parts;
use axum::http::{Response, StatusCode, header};
use axum::{
    body::{Body, Bytes},
    response::IntoResponse,
};

/// What stands before the name of a file in its path.
const FOLDER: &str = "/files/";

/// Files by their names.
#[derive(Debug, Default)]
pub(super) struct Files(Mutex<BTreeMap<String, Bytes>>);

impl Files {
    pub(super) fn put(&self, name: &str, content: &[u8]) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.insert(name.to_owned(), Bytes::copy_from_slice(content));
    }

    pub(super) fn remove(&self, name: &str) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.remove(name);
    }

    pub(super) fn url(base: &str, name: &str) -> String {
        format!("{base}{FOLDER}{name}")
    }

    /// The answer to a request for a file; `None` for one of a repository.
    pub(super) fn answer(&self, parts: &Parts) -> Option<Response<Body>> {
        let name = parts.uri.path().strip_prefix(FOLDER)?;
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(content) = files.get(name) else {
            return Some(StatusCode::NOT_FOUND.into_response());
        };
        let mut hasher = DefaultHasher::new();
        content.hash(&mut hasher);
        let etag = format!("\"{:x}\"", hasher.finish());
        let asked = parts.headers.get(header::IF_NONE_MATCH);
        Some(
            if asked.is_some_and(|asked| asked.as_bytes() == etag.as_bytes()) {
                StatusCode::NOT_MODIFIED.into_response()
            } else {
                ([(header::ETAG, etag)], content.clone()).into_response()
            },
        )
    }
}
