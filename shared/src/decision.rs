//! `releases/<namespace>.<name>.json`: the last decision about one
//! HelmRelease. The reconciler writes it, for people; nothing reads it back
//! to decide by.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::artifact::Digest;
use crate::verify::Verified;
use crate::version::Document;

/// The last decision about one HelmRelease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// `tandem.release/v1`.
    pub schema: String,
    /// The HelmRelease.
    pub helm_release: ObjectRef,
    /// The generation that was looked at.
    pub generation: i64,
    /// The Helm release and the namespace that it is in.
    pub release: ObjectRef,
    /// The name of the source on this volume; absent while the HelmRelease
    /// names none that can be asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The keys of its wants; the chart's stands first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wants: Vec<String>,
    /// The values files that don't come from the chart's commit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values_sources: Vec<ValuesSource>,
    /// The artifact that was planned with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Digest>,
    /// The commit or chart version of that artifact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart_revision: Option<String>,
    /// Who signed what was planned with, if the HelmRelease asks for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_by: Option<Verified>,
    /// The commit or chart version that is live, as the last success left it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released: Option<String>,
    /// What was decided: an action's name, such as `Upgrade` or `Nothing`.
    pub action: String,
    /// How it stands: the action's result, or what is waited for, as the
    /// HelmRelease's `Ready` condition says it.
    pub reason: String,
    /// The same in a sentence. Free of secrets.
    pub message: String,
    /// Whether the release is as it should be.
    pub ready: bool,
    /// The revision of the Helm release, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u32>,
    /// Failures in a row.
    #[serde(default)]
    pub failures: u32,
    /// When the next attempt is due, after a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt: Option<Timestamp>,
    /// When this was decided.
    pub at: Timestamp,
}

/// A values file that doesn't come from the chart's commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValuesSource {
    /// The file in words, as the HelmRelease names it, its URL without what may be secret.
    pub file: String,
    /// The name of its source on this volume.
    pub source: String,
    /// The key of its want there.
    pub want: String,
    /// The commit that its content was first seen at, of a git source that gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The artifact that was planned with; absent while there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Digest>,
}

/// A namespaced object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Document for Decision {
    const KIND: &'static str = "release";

    fn schema(&self) -> &str {
        &self.schema
    }
}
