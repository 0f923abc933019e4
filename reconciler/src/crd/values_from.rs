//! Values from elsewhere.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tandem_shared::source::redact_url;
use tandem_shared::verify::Verify;

use super::{ObjectReference, VerifySpec};

/// One source of values; exactly one of its fields is expected, the first set one counts.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ValuesFromSource {
    /// A key of a ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_key_ref: Option<KeySelector>,
    /// A key of a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<KeySelector>,
    /// A file behind a URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_source_ref: Option<ExternalSourceSelector>,
    /// A file of the chart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart_file_ref: Option<ChartFileSelector>,
    /// A file of a git repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_file_ref: Option<GitFileSelector>,
}

/// One key of a ConfigMap or Secret.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct KeySelector {
    /// Name of the object.
    pub name: String,
    /// Namespace of the object, by default that of the HelmRelease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The key, `values.yaml` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Go on without it if the object or key is missing or isn't valid YAML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
}

/// A file behind a URL.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ExternalSourceSelector {
    /// The URL, `http://` or `https://`. A user and password in it are used for it alone.
    pub url: String,
    /// Go on without it if the URL gives none, or what it gives isn't valid YAML. What it
    /// gave before is used while it doesn't.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
}

/// A file of the chart.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ChartFileSelector {
    /// Path of the file from the root of the chart.
    pub path: String,
    /// Go on without it if it is missing or isn't valid YAML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
}

/// A file of a git repository, not of the chart's alone.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GitFileSelector {
    /// URL of a git repository, as in `chart.git`.
    pub git: String,
    /// Ref as in `chart.ref`. The reconciler's default when left out. Of the same
    /// repository, `secretRef` and ref as the chart, the file comes from the chart's commit.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub git_ref: Option<String>,
    /// Path of the file, from the root of the git repository.
    pub path: String,
    /// Secret for the git repository, as `chart.secretRef`, which doesn't count here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<ObjectReference>,
    /// Use only what is signed by one of these keys, as `chart.verify`; that counts here
    /// where the file comes from the chart's commit, unless this is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<VerifySpec>,
    /// Go on without it if it is missing or isn't valid YAML. What was found before is used
    /// while its repository doesn't answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
}

/// A values file that doesn't lie in the cluster, as a HelmRelease names it.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum FileRef {
    /// Of the chart, by its path from the chart's folder.
    Chart(String),
    /// Behind a URL.
    Url(String),
    /// Of a git repository.
    Git {
        /// URL as written.
        url: String,
        /// Ref as written; `None` means the reconciler's default.
        reference: Option<String>,
        /// Path as written.
        path: String,
        /// Namespace and name of the Secret with credentials.
        secret: Option<(String, String)>,
        /// What has to be signed, and by whose keys.
        verify: Option<Verify>,
    },
}

impl FileRef {
    /// Whether it takes a credential of its own to read it, so that what is in it isn't
    /// meant for everybody.
    #[must_use]
    pub fn is_guarded(&self) -> bool {
        match self {
            Self::Chart(_) => false,
            // Its query may be a token.
            Self::Url(url) => redact_url(url) != *url,
            Self::Git { url, secret, .. } => secret.is_some() || redact_url(url) != *url,
        }
    }
}

/// In words, without what is secret in its URL.
impl std::fmt::Display for FileRef {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Chart(path) => write!(formatter, "file {path:?} of the chart"),
            Self::Url(url) => formatter.write_str(&redact_url(url)),
            Self::Git {
                url,
                reference,
                path,
                ..
            } => {
                write!(formatter, "file {path:?} of {}", redact_url(url))?;
                match reference {
                    Some(reference) => write!(formatter, " at {reference:?}"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl ValuesFromSource {
    /// The file that it names, for a HelmRelease in `namespace`, if it isn't one that lies
    /// in the cluster.
    #[must_use]
    pub fn file(&self, namespace: &str) -> Option<FileRef> {
        if self.config_map_key_ref.is_some() || self.secret_key_ref.is_some() {
            return None;
        }
        if let Some(external) = &self.external_source_ref {
            return Some(FileRef::Url(external.url.clone()));
        }
        if let Some(file) = &self.chart_file_ref {
            return Some(FileRef::Chart(file.path.clone()));
        }
        let file = self.git_file_ref.as_ref()?;
        Some(FileRef::Git {
            url: file.git.clone(),
            reference: file
                .git_ref
                .clone()
                .filter(|reference| !reference.is_empty()),
            path: file.path.clone(),
            secret: file
                .secret_ref
                .as_ref()
                .map(|secret| secret.resolve(namespace)),
            verify: file.verify.as_ref().map(|verify| verify.resolve(namespace)),
        })
    }

    /// Whether the release goes on without this source.
    #[must_use]
    pub fn is_optional(&self) -> bool {
        let optional = if let Some(key) = &self.config_map_key_ref {
            key.optional
        } else if let Some(key) = &self.secret_key_ref {
            key.optional
        } else if let Some(external) = &self.external_source_ref {
            external.optional
        } else if let Some(file) = &self.chart_file_ref {
            file.optional
        } else {
            self.git_file_ref.as_ref().and_then(|file| file.optional)
        };
        optional.unwrap_or(false)
    }
}

impl KeySelector {
    /// The key, defaulted.
    #[must_use]
    pub fn key(&self) -> &str {
        match self.key.as_deref() {
            Some(key) if !key.is_empty() => key,
            _ => "values.yaml",
        }
    }

    /// The namespace of the object, for a HelmRelease in `namespace`.
    #[must_use]
    pub fn namespace<'a>(&'a self, namespace: &'a str) -> &'a str {
        match self.namespace.as_deref() {
            Some(own) if !own.is_empty() => own,
            _ => namespace,
        }
    }
}
