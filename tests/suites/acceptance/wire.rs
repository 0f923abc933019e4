//! HelmReleases on the wire: documents go as they stand in their files.

use axum::http::{Method, Request};
use kube::Client;
use kube::client::Body;
use serde_json::Value;

use crate::document::text;

/// How a document is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    /// Created, as `kubectl apply` does: unknown fields are refused, dropped with a
    /// warning, or dropped.
    Create(&'static str),
    /// `kubectl apply --server-side`, which knows no leniency: what isn't in the
    /// definition can't be merged.
    Apply,
}

pub(crate) const WAYS: [Way; 4] = [
    Way::Create("Strict"),
    Way::Create("Warn"),
    Way::Create("Ignore"),
    Way::Apply,
];

/// The HelmReleases of a namespace, as they are on the wire.
pub(crate) struct Wire {
    client: Client,
    path: String,
}

/// An answer of the API server.
pub(crate) struct Response {
    pub(crate) accepted: bool,
    pub(crate) warnings: Vec<String>,
    pub(crate) body: Value,
}

impl Wire {
    pub(crate) fn new(client: Client, namespace: &str) -> Self {
        Self {
            client,
            path: format!("/apis/helm.fluxcd.io/v1/namespaces/{namespace}/helmreleases"),
        }
    }

    /// Sends a document as it stands in its file: the API server reads the YAML.
    pub(crate) async fn send(&self, name: &str, way: Way) -> Response {
        let path = &self.path;
        let (method, uri, media) = match way {
            Way::Create(validation) => (
                Method::POST,
                format!("{path}?fieldValidation={validation}"),
                "application/yaml",
            ),
            Way::Apply => (
                Method::PATCH,
                format!("{path}/{name}?fieldManager=acceptance"),
                "application/apply-patch+yaml",
            ),
        };
        self.call(method, &uri, media, text(name)).await
    }

    pub(crate) async fn get(&self, name: &str) -> Value {
        let uri = format!("{}/{name}", self.path);
        let read = self.call(Method::GET, &uri, "application/json", String::new());
        read.await.body
    }

    pub(crate) async fn delete(&self, name: &str) {
        let uri = format!("{}/{name}", self.path);
        let gone = self.call(Method::DELETE, &uri, "application/json", String::new());
        let gone = gone.await;
        assert!(gone.accepted, "{name}: {}", gone.body);
    }

    async fn call(&self, method: Method, uri: &str, media: &str, body: String) -> Response {
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header("content-type", media)
            .header("accept", "application/json")
            .body(Body::from(body.into_bytes()))
            .unwrap();
        let response = self.client.send(request).await.unwrap();
        let warnings = response.headers().get_all("warning").iter();
        Response {
            accepted: response.status().is_success(),
            warnings: warnings
                .map(|warning| warning.to_str().unwrap().to_owned())
                .collect(),
            body: {
                let bytes = response.into_body().collect_bytes().await.unwrap();
                serde_json::from_slice(&bytes).unwrap()
            },
        }
    }
}
