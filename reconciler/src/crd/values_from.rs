//! Values from elsewhere.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

impl ValuesFromSource {
    /// Whether the release goes on without this source.
    #[must_use]
    pub fn is_optional(&self) -> bool {
        let optional = if let Some(key) = &self.config_map_key_ref {
            key.optional
        } else if let Some(key) = &self.secret_key_ref {
            key.optional
        } else if let Some(external) = &self.external_source_ref {
            external.optional
        } else {
            self.chart_file_ref.as_ref().and_then(|file| file.optional)
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
