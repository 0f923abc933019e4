//! Kubeconfig files.

use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::guard::write;
use crate::pki::Identity;

/// Writes the kubeconfig of a user with a client certificate.
pub(super) fn with_certificate(
    server: &str,
    authority: &str,
    user: &Identity,
    path: &Path,
) -> Result<()> {
    let user = json!({
        "client-certificate-data": STANDARD.encode(&user.certificate),
        "client-key-data": STANDARD.encode(&user.key),
    });
    let cluster =
        json!({ "server": server, "certificate-authority-data": STANDARD.encode(authority) });
    save(&cluster, &user, path)
}

/// Writes a kubeconfig for the same cluster as `admin`'s current one, with a
/// bearer token.
pub(super) fn with_token(admin: &Path, token: &str, path: &Path) -> Result<()> {
    let admin = kube::config::Kubeconfig::read_from(admin)?;
    let current = admin.current_context.as_deref();
    let context = admin
        .contexts
        .iter()
        .find(|one| Some(one.name.as_str()) == current)
        .or(admin.contexts.first());
    let wanted = context
        .and_then(|one| one.context.as_ref())
        .map(|one| one.cluster.as_str());
    let cluster = admin
        .clusters
        .iter()
        .find(|one| Some(one.name.as_str()) == wanted)
        .and_then(|one| one.cluster.as_ref())
        .context("the administrator's kubeconfig names no cluster")?;
    save(
        &serde_json::to_value(cluster)?,
        &json!({ "token": token }),
        path,
    )
}

/// JSON is YAML, and nothing here needs a dumper for more.
fn save(cluster: &Value, user: &Value, path: &Path) -> Result<()> {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "tandem",
        "clusters": [{ "name": "tandem", "cluster": cluster }],
        "users": [{ "name": "tandem", "user": user }],
        "contexts": [{ "name": "tandem", "context": { "cluster": "tandem", "user": "tandem" } }],
    });
    write(path, serde_json::to_string_pretty(&config)?)
}
