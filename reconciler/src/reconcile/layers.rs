//! Reads the sources of values: ConfigMaps, Secrets, and files that came with the chart.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use thiserror::Error;

use super::artifacts::{ArtifactError, Artifacts};
use super::snapshot::Wants;
use crate::crd::{HelmRelease, KeySelector, ValuesFromSource};
use crate::status::Obstacle;
use crate::values::{Content, Layer};
use crate::view::WantView;

/// What couldn't be read, for reasons that pass.
#[derive(Debug, Error)]
pub enum LayersError {
    /// The API didn't give an object.
    #[error("can't read {what}: {source}")]
    Api {
        /// Which object.
        what: String,
        /// What the API said.
        source: Box<kube::Error>,
    },
    /// A values file isn't what its name says, or can't be opened.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
}

/// Sources of values that can't be used.
pub(super) struct Stuck {
    pub(super) obstacle: Obstacle,
    pub(super) retry: bool,
}

/// Reads all sources of values of `release`, in their order.
pub(super) async fn layers(
    client: &Client,
    artifacts: &Artifacts,
    release: &HelmRelease,
    wants: &Wants,
) -> Result<Result<Vec<Layer>, Stuck>, LayersError> {
    let namespace = release.own_namespace();
    let mut layers = Vec::new();
    for source in release.spec.values_sources() {
        let optional = source.is_optional();
        let (origin, secret, content) = match &source {
            ValuesFromSource {
                config_map_key_ref: Some(key),
                ..
            } => {
                let (origin, content) = config_map(client, key, key.namespace(&namespace)).await?;
                (origin, false, content)
            }
            ValuesFromSource {
                secret_key_ref: Some(key),
                ..
            } => {
                let (origin, content) =
                    self::secret(client, key, key.namespace(&namespace)).await?;
                (origin, true, content)
            }
            ValuesFromSource {
                external_source_ref: Some(external),
                ..
            } => {
                // Its query may be a token.
                let url = tandem_shared::source::redact_url(&external.url);
                if optional {
                    continue;
                }
                let message = format!(
                    "valuesFrom names {url:?} as an externalSourceRef, which this version does not support; keep the values in a ConfigMap, a Secret or the chart's repository"
                );
                return Ok(Err(Stuck {
                    obstacle: Obstacle::invalid("Unsupported", message),
                    retry: false,
                }));
            }
            ValuesFromSource {
                chart_file_ref: Some(file),
                ..
            } => {
                let origin = format!("file {:?} of the chart", file.path);
                match wants.files.get(&file.path).map(|(_, view)| view) {
                    Some(WantView::Good { good, .. }) => {
                        let name = file.path.rsplit('/').next().unwrap_or(&file.path);
                        (
                            origin,
                            false,
                            Content::Text(artifacts.file(&good.artifact, name).await?),
                        )
                    }
                    Some(WantView::Problem(trouble)) if optional => {
                        (origin, false, Content::Missing(trouble.message.clone()))
                    }
                    Some(WantView::Problem(trouble)) => {
                        return Ok(Err(Stuck {
                            obstacle: Obstacle::missing(trouble),
                            retry: false,
                        }));
                    }
                    Some(WantView::Pending(why)) => {
                        return Ok(Err(Stuck {
                            obstacle: Obstacle::fetching(why),
                            retry: false,
                        }));
                    }
                    None => (
                        origin,
                        false,
                        Content::Missing("it was not asked for".to_owned()),
                    ),
                }
            }
            _ => {
                let message = "valuesFrom has an entry without a source; set configMapKeyRef, secretKeyRef or chartFileRef in it";
                return Ok(Err(Stuck {
                    obstacle: Obstacle::invalid("InvalidSpec", message.to_owned()),
                    retry: false,
                }));
            }
        };
        layers.push(Layer {
            origin,
            optional,
            secret,
            content,
        });
    }
    Ok(Ok(layers))
}

async fn config_map(
    client: &Client,
    key: &KeySelector,
    namespace: &str,
) -> Result<(String, Content), LayersError> {
    let what = format!("ConfigMap {namespace}/{}", key.name);
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let found = api.get_opt(&key.name).await.map_err(unread(&what))?;
    let text = found.map(|found| {
        let text = found
            .data
            .unwrap_or_default()
            .remove(key.key())
            .map(String::into_bytes);
        text.or_else(|| {
            found
                .binary_data
                .unwrap_or_default()
                .remove(key.key())
                .map(|bytes| bytes.0)
        })
    });
    Ok(content(&what, "ConfigMap", key, text))
}

async fn secret(
    client: &Client,
    key: &KeySelector,
    namespace: &str,
) -> Result<(String, Content), LayersError> {
    let what = format!("Secret {namespace}/{}", key.name);
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let found = api.get_opt(&key.name).await.map_err(unread(&what))?;
    let text = found.map(|found| {
        found
            .data
            .unwrap_or_default()
            .remove(key.key())
            .map(|bytes| bytes.0)
    });
    Ok(content(&what, "Secret", key, text))
}

fn content(
    what: &str,
    kind: &str,
    key: &KeySelector,
    text: Option<Option<Vec<u8>>>,
) -> (String, Content) {
    let origin = format!("key {:?} of {what}", key.key());
    let content = match text {
        Some(Some(text)) => Content::Text(text),
        Some(None) => Content::Missing("there is no such key".to_owned()),
        None => Content::Missing(format!("there is no such {kind}")),
    };
    (origin, content)
}

fn unread(what: &str) -> impl FnOnce(kube::Error) -> LayersError {
    let what = what.to_owned();
    move |source| LayersError::Api {
        what,
        source: Box::new(source),
    }
}
