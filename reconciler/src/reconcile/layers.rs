//! Reads the sources of values: ConfigMaps, Secrets, and files that came with the chart.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};

use super::artifacts::Artifacts;
use super::gather::{GatherError, fetching, invalid, obstacle};
use super::snapshot::Wants;
use crate::crd::{HelmRelease, KeySelector, ValuesFromSource};
use crate::status::{Obstacle, ObstacleKind};
use crate::values::{Content, Layer};
use crate::view::WantView;

/// Patience with one read of a ConfigMap or Secret.
const READ: Duration = Duration::from_secs(30);

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
) -> Result<Result<Vec<Layer>, Stuck>, GatherError> {
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
                    obstacle: invalid("Unsupported", message),
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
                        let obstacle = Obstacle {
                            kind: ObstacleKind::ChartFailed,
                            ..obstacle(trouble)
                        };
                        return Ok(Err(Stuck {
                            obstacle,
                            retry: false,
                        }));
                    }
                    Some(WantView::Pending(why)) => {
                        return Ok(Err(Stuck {
                            obstacle: fetching(why),
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
                    obstacle: invalid("InvalidSpec", message.to_owned()),
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
) -> Result<(String, Content), GatherError> {
    let what = format!("ConfigMap {namespace}/{}", key.name);
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let found = patiently(&what, api.get_opt(&key.name)).await?;
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
) -> Result<(String, Content), GatherError> {
    let what = format!("Secret {namespace}/{}", key.name);
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let found = patiently(&what, api.get_opt(&key.name)).await?;
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

async fn patiently<T>(
    what: &str,
    read: impl Future<Output = kube::Result<T>>,
) -> Result<T, GatherError> {
    let failed = |why: String| GatherError::Api {
        what: what.to_owned(),
        why,
    };
    match tokio::time::timeout(READ, read).await {
        Ok(read) => read.map_err(|error| failed(error.to_string())),
        Err(_) => Err(failed("no answer in time".to_owned())),
    }
}
