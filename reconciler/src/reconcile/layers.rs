//! Reads the sources of values: ConfigMaps, Secrets, and files that the sidecar brought.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use tandem_shared::manifest::Good;
use thiserror::Error;

use super::artifacts::{ArtifactError, Artifacts};
use super::snapshot::{FileView, Wants};
use crate::crd::{HelmRelease, KeySelector, ValuesFromSource};
use crate::status::Obstacle;
use crate::values::{Content, Layer};
use crate::view::{UNVERIFIED, WantView};

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

/// All sources of values in their order, and what keeps one from being the newest.
pub(super) type Collected = (Vec<Layer>, Option<Obstacle>);

/// Reads all sources of values of `release`, in their order.
pub(super) async fn layers(
    client: &Client,
    artifacts: &Artifacts,
    release: &HelmRelease,
    wants: &Wants,
) -> Result<Result<Collected, Stuck>, LayersError> {
    let namespace = release.own_namespace();
    let mut layers = Vec::new();
    let mut outdated = None;
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
            _ => {
                let Some(file) = source.file(&namespace) else {
                    let message = "valuesFrom has an entry without a source; set configMapKeyRef, secretKeyRef, externalSourceRef, chartFileRef or gitFileRef in it";
                    return Ok(Err(Stuck {
                        obstacle: Obstacle::invalid("InvalidSpec", message.to_owned()),
                        retry: false,
                    }));
                };
                let origin = file.to_string();
                let found = wants.files.get(&file).map_or_else(
                    || Found::Missing("it was not asked for".to_owned()),
                    |file| found(file, &origin, optional),
                );
                let content = match found {
                    Found::File(good, trouble) => {
                        outdated = outdated.or(trouble);
                        Content::Text(artifacts.file(&good.artifact).await?)
                    }
                    Found::Missing(why) => Content::Missing(why),
                    Found::Stuck(obstacle) => {
                        return Ok(Err(Stuck {
                            obstacle,
                            retry: false,
                        }));
                    }
                };
                (origin, file.is_guarded(), content)
            }
        };
        layers.push(Layer {
            origin,
            optional,
            secret,
            content,
        });
    }
    Ok(Ok((layers, outdated)))
}

/// What becomes of a values file.
#[derive(Debug, PartialEq)]
enum Found<'a> {
    /// There is one; perhaps there is a newer one that can't be had.
    File(&'a Good, Option<Obstacle>),
    /// There is none, which an optional one may be.
    Missing(String),
    /// Nothing can be done without it.
    Stuck(Obstacle),
}

/// What becomes of a values file, called `origin`, of which the volume says `file`.
///
/// An optional one is waited for until its source was asked, and asked again if it was silent:
/// nothing must be released without it merely because nobody has looked yet, or a host was
/// away when a volume was lost. What was good once is used until something else is.
fn found<'a>(file: &'a FileView, origin: &str, optional: bool) -> Found<'a> {
    match &file.view {
        WantView::Good { good, trouble } => {
            Found::File(good, trouble.as_ref().map(Obstacle::old_values))
        }
        WantView::Problem(trouble) if optional && trouble.passing => Found::Stuck(
            Obstacle::fetching(&format!("{origin}: {}", trouble.message)),
        ),
        // One that nobody signed is there; whoever may push must not make it go away.
        WantView::Problem(trouble)
            if optional && !trouble.is_ours() && trouble.reason != UNVERIFIED =>
        {
            Found::Missing(trouble.message.clone())
        }
        WantView::Problem(trouble) => {
            // Without it the chart isn't there, either.
            let mut obstacle = match file.place.with_chart {
                true => Obstacle::missing(trouble),
                false => Obstacle::no_values(trouble),
            };
            if trouble.is_ours() {
                obstacle.message = format!("{origin}: {}", obstacle.message);
            }
            Found::Stuck(obstacle)
        }
        WantView::Pending(why) => Found::Stuck(Obstacle::fetching(&format!("{origin}: {why}"))),
    }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use serde_json::json;

    use tandem_shared::source::SourceName;

    use super::*;
    use crate::demand::FileWish;
    use crate::status::ObstacleKind;
    use crate::view::Trouble;

    fn file(view: &WantView) -> FileView {
        FileView {
            place: FileWish {
                source: SourceName::parse(&format!("h-{}", "0".repeat(32))).unwrap(),
                key: "k".into(),
                with_chart: false,
            },
            view: view.clone(),
        }
    }

    fn problem(reason: &'static str) -> WantView {
        WantView::Problem(Trouble {
            reason,
            message: "no".into(),
            source: true,
            passing: false,
        })
    }

    fn kind(found: Found<'_>) -> Option<ObstacleKind> {
        match found {
            Found::Stuck(obstacle) => Some(obstacle.kind),
            Found::File(_, old) => old.map(|old| old.kind),
            Found::Missing(_) => None,
        }
    }

    #[test]
    fn optional_means_that_its_url_gives_none_not_that_nobody_looked() {
        let pending = WantView::Pending("it is being fetched".into());
        let mut silent = problem("Unreachable");
        if let WantView::Problem(trouble) = &mut silent {
            trouble.passing = true;
        }
        for (view, optional, expected) in [
            (&pending, false, Some(ObstacleKind::Fetching)),
            (&pending, true, Some(ObstacleKind::Fetching)),
            (&silent, false, Some(ObstacleKind::NoValues)),
            (&silent, true, Some(ObstacleKind::Fetching)),
            (
                &problem("PathNotFound"),
                false,
                Some(ObstacleKind::NoValues),
            ),
            (&problem("PathNotFound"), true, None),
            (&problem("Unreachable"), true, None),
            (&problem("InvalidUrl"), true, None),
            (&problem("Unverified"), true, Some(ObstacleKind::NoValues)),
            // What lies between the processes says nothing about the file.
            (
                &problem("CredentialMissing"),
                true,
                Some(ObstacleKind::NoValues),
            ),
            (
                &problem("ManifestRefused"),
                true,
                Some(ObstacleKind::NoValues),
            ),
            (&problem("Volume"), true, Some(ObstacleKind::NoValues)),
        ] {
            let file = file(view);
            let found = found(&file, "https://h/v", optional);
            assert_eq!(kind(found), expected, "{view:?} {optional}");
        }
    }

    #[test]
    fn what_was_good_is_used_while_its_url_gives_nothing() {
        let good: Good = serde_json::from_value(json!({
            "artifact": format!("t1:{}", "1".repeat(64)), "inputs": "i", "size": 1,
            "since": "2026-01-01T00:00:00Z",
        }))
        .unwrap();
        for reason in [None, Some("Unreachable"), Some("PathNotFound")] {
            for optional in [false, true] {
                let view = WantView::Good {
                    good: Box::new(good.clone()),
                    trouble: reason.and_then(|reason| problem(reason).trouble().cloned()),
                };
                let file = file(&view);
                let found = found(&file, "https://h/v", optional);
                assert!(matches!(&found, Found::File(used, _) if **used == good));
                let told = reason.map(|_| ObstacleKind::OldValues);
                assert_eq!(kind(found), told, "{reason:?}");
            }
        }
    }
}
