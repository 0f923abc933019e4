//! `requests/<source>.json`: all that HelmReleases want of one source, now.
//!
//! The reconciler writes it; the sidecar reads it. It is a pure function of
//! all HelmReleases, so nothing is ever forgotten in it. A file written by
//! hand works as well: see [`Request::owner`].

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::artifact::Digest;
use crate::names;
use crate::source::Source;
use crate::verify::Verify;
use crate::version::Document;

/// All that is wanted of one source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// `tandem.request/v1`.
    pub schema: String,
    /// The source, with its exact URL.
    pub source: Source,
    /// Who writes and removes this file: the reconciler removes only what
    /// bears its own word. A person writes anything else, or nothing.
    #[serde(default)]
    pub owner: String,
    /// The folder below the credentials volume that holds the credential, if
    /// the source has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_id: Option<String>,
    /// Seconds from one check of the source to the next.
    #[serde(default = "default_interval")]
    pub interval_seconds: u64,
    /// Seconds that one exchange with the source may take.
    #[serde(default = "default_timeout")]
    pub timeout_seconds: u64,
    /// Compared for equality only: a new token asks for a check at once. The
    /// sidecar echoes it as `handledRefresh`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub refresh: String,
    /// What is wanted, sorted by key.
    #[serde(default)]
    pub wants: Vec<Want>,
}

fn default_interval() -> u64 {
    300
}

fn default_timeout() -> u64 {
    60
}

/// One chart or file at one ref (or version) of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Want {
    /// Names this want within its source: see [`WantSpec::key`]. A request
    /// written by hand may use any unique text.
    pub key: String,
    /// What is wanted.
    #[serde(flatten)]
    pub spec: WantSpec,
    /// Wants with the same group move together, from one commit, or not at all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Artifacts of this want that the reconciler found to be other than
    /// their name says. The sidecar checks and rebuilds them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub rejected: BTreeSet<Digest>,
    /// What was resolved before, so that a lost volume resolves to the same.
    #[serde(default, skip_serializing_if = "Prefer::is_empty")]
    pub prefer: Prefer,
    /// The folder below the credentials volume that holds the keys of
    /// [`WantSpec::verify`]. Without it nothing is verified, and nothing new served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys_id: Option<String>,
    /// The HelmReleases that want this (`namespace/name`), for people only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used_by: Vec<String>,
}

/// What is wanted, apart from who wants it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WantSpec {
    /// A chart or a single file.
    pub kind: WantKind,
    /// Git: a tag, a branch (a tag wins where both have the name, as with git
    /// itself), a full ref (`refs/…`), a commit id (4 to 40 hex digits), or
    /// `semver:` and a range: the newest tag within it. Absent: the branch
    /// that the remote's HEAD names.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Helm and OCI: a version or a range; OCI: also any other tag, a digest, or both
    /// (`1.2.3@sha256:…`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Git: path of the chart folder or file from the repository's root, `.`
    /// for the root. Helm and OCI: name of the chart. Http: what the file shall be
    /// called; the URL alone says which one it is.
    pub path: String,
    /// Leave the chart's dependencies as the tree holds them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skip_dependencies: bool,
    /// Git: follow the submodules that the path touches.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub submodules: bool,
    /// Git: what has to be signed before anything of it is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
}

/// What kind of artifact is wanted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WantKind {
    /// A chart folder. `Chart.yaml` lies at the root of its artifact.
    Chart,
    /// One file (a values file). Its artifact holds that file alone, under the
    /// last part of the asked path.
    File,
    /// A kind of a later version: that want alone fails, in words.
    #[serde(untagged)]
    Other(String),
}

/// What was resolved earlier for a want.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Prefer {
    /// The commit that a short commit id or a range of tags stood for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The version that a range stood for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What dependencies stood for. Several, if HelmReleases that share this want saw
    /// different charts; the one whose chart it is counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<Resolution>,
}

impl Prefer {
    /// Whether nothing was resolved before.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What the remote dependencies of one chart stood for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resolution {
    /// The chart that they were resolved for: `resolvedFor` of its result.
    #[serde(rename = "for")]
    pub chart: String,
    /// Versions and archive digests.
    pub dependencies: Vec<ResolvedDependency>,
}

/// One dependency of a chart, as it was resolved.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedDependency {
    /// Name of the dependency's chart.
    pub name: String,
    /// The version that was chosen.
    pub version: String,
    /// Where it came from (`file://…`, `https://…`, `oci://…`), without a password.
    pub repository: String,
    /// SHA-256 of its archive, in hex, for a remote one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

impl WantSpec {
    fn digest(&self, group: &str) -> String {
        let kind = match &self.kind {
            WantKind::Chart => "chart",
            WantKind::File => "file",
            WantKind::Other(word) => word,
        };
        // An absent ref and an empty one are different wishes.
        let optional =
            |text: &Option<String>| text.as_ref().map_or("-".to_owned(), |t| format!("+{t}"));
        let (reference, version) = (optional(&self.reference), optional(&self.version));
        let skip = [u8::from(self.skip_dependencies)];
        let mut parts: Vec<&[u8]> = vec![
            kind.as_bytes(),
            reference.as_bytes(),
            version.as_bytes(),
            self.path.as_bytes(),
            &skip,
            group.as_bytes(),
        ];
        // What came later has no part unless it is asked for, so that keys stay as they were.
        if self.submodules {
            parts.push(b"submodules");
        }
        if let Some(verify) = &self.verify {
            let secret = [&verify.keys.namespace, &verify.keys.name];
            parts.extend([b"verify".as_slice(), verify.mode.as_str().as_bytes()]);
            parts.extend(secret.map(|text| text.as_bytes()));
        }
        names::short_hex(&parts)
    }

    /// The key of this want as a member of `group`. Who wants it doesn't count.
    #[must_use]
    pub fn key(&self, group: &str) -> String {
        self.digest(group)
    }
}

/// Turns what one HelmRelease wants of one source at one ref into wants that
/// move together. The group is named by its members, so that HelmReleases
/// with the same wishes share wants, and a HelmRelease that also wants a
/// values file never holds back one that doesn't.
#[must_use]
pub fn group(members: BTreeSet<WantSpec>) -> Vec<Want> {
    let digests: Vec<String> = members.iter().map(|member| member.digest("")).collect();
    let parts: Vec<&[u8]> = digests.iter().map(String::as_bytes).collect();
    let group = names::short_hex(&parts);
    members
        .into_iter()
        .map(|spec| Want {
            key: spec.key(&group),
            spec,
            group: group.clone(),
            rejected: BTreeSet::new(),
            prefer: Prefer::default(),
            keys_id: None,
            used_by: Vec::new(),
        })
        .collect()
}

impl Document for Request {
    const KIND: &'static str = "request";

    fn schema(&self) -> &str {
        &self.schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::CredentialRef;
    use crate::verify::VerifyMode;

    fn chart(path: &str) -> WantSpec {
        WantSpec {
            kind: WantKind::Chart,
            reference: Some("main".into()),
            version: None,
            path: path.into(),
            skip_dependencies: false,
            submodules: false,
            verify: None,
        }
    }

    #[test]
    fn same_wishes_share_a_want_and_others_do_not() {
        let file = WantSpec {
            kind: WantKind::File,
            ..chart("env/prod.yaml")
        };
        let alone = group([chart("a")].into());
        let again = group([chart("a")].into());
        let with_file = group([chart("a"), file].into());
        assert_eq!(alone, again);
        assert_eq!(with_file.len(), 2);
        assert_eq!(with_file[0].group, with_file[1].group);
        assert!(with_file.iter().all(|want| want.key != alone[0].key));
    }

    #[test]
    fn every_part_of_a_wish_counts() {
        let base = chart("a");
        let verified = |mode, namespace: &str, name: &str| WantSpec {
            verify: Some(Verify {
                mode,
                keys: CredentialRef {
                    namespace: namespace.into(),
                    name: name.into(),
                },
            }),
            ..base.clone()
        };
        let others = [
            WantSpec {
                kind: WantKind::File,
                ..base.clone()
            },
            WantSpec {
                reference: None,
                ..base.clone()
            },
            WantSpec {
                reference: Some(String::new()),
                ..base.clone()
            },
            WantSpec {
                version: Some("main".into()),
                reference: None,
                ..base.clone()
            },
            WantSpec {
                path: "b".into(),
                ..base.clone()
            },
            WantSpec {
                skip_dependencies: true,
                ..base.clone()
            },
            WantSpec {
                submodules: true,
                ..base.clone()
            },
            verified(VerifyMode::Head, "demo", "keys"),
            verified(VerifyMode::Tag, "demo", "keys"),
            verified(VerifyMode::Head, "other", "keys"),
            verified(VerifyMode::Head, "demo", "others"),
        ];
        let mut keys: BTreeSet<String> = others.iter().map(|other| other.key("")).collect();
        keys.insert(base.key(""));
        assert_eq!(keys.len(), 12);
    }

    /// A reconciler of another age asks for the same under the same key.
    #[test]
    fn keys_stay_what_they_are() {
        assert_eq!(
            chart("charts/api").key(""),
            "82acb803ceb44f69039087c4089f6960"
        );
    }

    #[test]
    fn a_hand_written_request_needs_little() {
        let text = r#"{"schema": "tandem.request/v1", "source": {"kind": "git", "url": "file:///r.git"},
            "wants": [{"key": "web", "kind": "chart", "ref": "main", "path": "charts/web"},
                      {"key": "odd", "kind": "image", "path": "x", "later": true}]}"#;
        let request: Request = serde_json::from_str(text).unwrap();
        assert_eq!(request.interval_seconds, 300);
        assert_eq!(request.wants[1].spec.kind, WantKind::Other("image".into()));
    }
}
