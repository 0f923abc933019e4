//! Where a chart comes from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tandem_shared::source::CredentialRef;
use tandem_shared::verify::Verify;

/// Where the chart comes from. With both `git` and `path` it is a directory of a git
/// repository; otherwise all of `repository`, `name` and `version` are needed.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChartSpec {
    /// URL of a git repository: `https://`, `ssh://`, or `user@host:path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<String>,
    /// Branch, tag, full ref name, commit id, or `semver:` and a range of versions: the
    /// newest tag within it. The reconciler's default when left out.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub git_ref: Option<String>,
    /// Directory of the chart, from the root of the git repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Secret for the git repository; README.md lists what it may hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<ObjectReference>,
    /// Take the chart's dependencies as they lie in its `charts` directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_dep_update: Option<bool>,
    /// Follow the git submodules that the chart touches. They are fetched with the
    /// credential of the repository where they lie on the same host, else with none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submodules: Option<bool>,
    /// Release only what is signed by one of these keys; for charts from git.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<VerifySpec>,

    /// URL of a Helm repository; or of an OCI registry, `oci://host/path`, as for `helm push`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// Name of the chart in the Helm repository; in a registry it is added to the URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Version of the chart, or a range of versions; in a registry also a tag or digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Secret for the Helm repository or registry; README.md lists what it may hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart_pull_secret: Option<LocalObjectReference>,
}

/// What has to be signed, and by whose keys.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VerifySpec {
    /// What has to be signed: `HEAD`, the commit that the ref stands for, which is the default;
    /// `Tag`, the annotated tag that the ref is; `TagAndHEAD`, both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "modes")]
    pub mode: Option<VerifyMode>,
    /// Secret with public keys: `*.asc` for armored OpenPGP keys, `*.pub` or `*.sshpub` for
    /// OpenSSH ones.
    pub secret_ref: LocalObjectReference,
}

/// No enum, for the reason that `helm_versions` gives.
fn modes(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "string", "nullable": true, "pattern": "^(HEAD|Tag|TagAndHEAD)$" })
}

impl VerifySpec {
    /// The same, for a HelmRelease in `namespace`.
    #[must_use]
    pub fn resolve(&self, namespace: &str) -> Verify {
        Verify {
            mode: self.mode.unwrap_or_default().into(),
            keys: CredentialRef {
                namespace: namespace.to_owned(),
                name: self.secret_ref.name.clone(),
            },
        }
    }
}

/// What has to be signed: `HEAD`, the commit that the ref stands for, which is the default;
/// `Tag`, the annotated tag that the ref is; `TagAndHEAD`, both.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum VerifyMode {
    /// The commit.
    #[default]
    #[serde(rename = "HEAD")]
    Head,
    /// The tag.
    Tag,
    /// Both.
    #[serde(rename = "TagAndHEAD")]
    TagAndHead,
}

impl From<VerifyMode> for tandem_shared::verify::VerifyMode {
    fn from(mode: VerifyMode) -> Self {
        match mode {
            VerifyMode::Head => Self::Head,
            VerifyMode::Tag => Self::Tag,
            VerifyMode::TagAndHead => Self::TagAndHead,
        }
    }
}

/// An object by name, in the namespace of the HelmRelease unless another is named.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ObjectReference {
    /// Name of the object.
    pub name: String,
    /// Namespace of the object, by default that of the HelmRelease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

impl ObjectReference {
    /// Namespace and name of the object, for a HelmRelease in `namespace`.
    #[must_use]
    pub fn resolve(&self, namespace: &str) -> (String, String) {
        let own = self.namespace.as_deref().filter(|own| !own.is_empty());
        (own.unwrap_or(namespace).to_owned(), self.name.clone())
    }
}

/// An object by name, in the namespace of the HelmRelease.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct LocalObjectReference {
    /// Name of the object.
    pub name: String,
}
