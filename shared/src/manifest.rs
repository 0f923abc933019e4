//! `manifests/<source>.json`, the ref manifest: what the sidecar holds of one
//! source, and why something of it is missing.
//!
//! The sidecar writes it; the reconciler and people read it. One manifest is
//! one snapshot: every ref in it comes from the same exchange with the remote.
//! A failure never removes what was good: the last good result stays beside it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::artifact::Digest;
use crate::request::{Resolution, ResolvedDependency, WantSpec};
use crate::source::Source;
use crate::verify::Verified;
use crate::version::Document;

/// What the sidecar holds of one source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// `tandem.manifest/v1`.
    pub schema: String,
    /// The name of the source, which also names this file. Readers compare it
    /// with the identity that they expect.
    pub name: String,
    /// The source, its URL redacted.
    pub source: Source,
    /// Random, new whenever a manifest is begun afresh (a lost volume).
    pub epoch: String,
    /// Raised by every change of what follows; a mere check doesn't raise it.
    /// Compare (epoch, sequence) for equality only.
    pub sequence: u64,
    /// Which request this manifest answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_request: Option<ObservedRequest>,
    /// The last `refresh` token whose check has ended, well or badly.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub handled_refresh: String,
    /// How the source is.
    pub state: SourceState,
    /// When the remote last answered. A check that changed nothing else writes
    /// it at most every ten minutes, so it may be that much older than the truth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked_at: Option<Timestamp>,
    /// Seconds from one check of the source to the next, while none fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_seconds: Option<u64>,
    /// When anything below last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<Timestamp>,
    /// What the asked names stand for, by asked name (`HEAD` for no name).
    #[serde(default)]
    pub refs: BTreeMap<String, RefRecord>,
    /// What there is for each want, by its key.
    #[serde(default)]
    pub results: BTreeMap<String, WantResult>,
    /// What keeps the whole source from being checked, while it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// Which request a manifest answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedRequest {
    /// SHA-256, in hex, of the request file's bytes.
    pub digest: String,
    /// The credential id that the request named, so that the reconciler knows
    /// when an old one may go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_id: Option<String>,
    /// The ids of keys that its wants named, likewise.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub keys_ids: BTreeSet<String>,
}

/// How a source is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SourceState {
    /// Not yet checked.
    Pending,
    /// The last check went well (single wants may still have problems).
    Ready,
    /// The last check failed; what was good is still served.
    Failing,
    /// A state of a later version.
    #[serde(untagged)]
    Other(String),
}

/// What an asked ref name stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RefRecord {
    /// The full ref name (`refs/heads/main`), or `commit` for a commit id.
    pub full_name: String,
    /// The commit, 40 hex digits; of an annotated tag, the commit it points to.
    pub commit: String,
    /// The commit's committer date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub committed_at: Option<Timestamp>,
    /// The first line of the commit's message, at most 120 characters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subject: String,
}

/// What there is for one want. Neither part: it is being worked on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WantResult {
    /// What was asked for, so that this file explains itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<WantSpec>,
    /// The last good result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub good: Option<Good>,
    /// What is wrong now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// While something is wrong: when it is looked at again, at the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt: Option<Timestamp>,
}

/// A chart or file that can be had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Good {
    /// Git: the commit at which this content was first seen at the ref. Later
    /// commits that don't touch it don't change it; `refs` has the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Helm and OCI: the version that was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What the origin calls this content: of a Helm repository the SHA-256 of the archive,
    /// of a registry that of the manifest (`sha256:<hex>`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_digest: Option<String>,
    /// The artifact that holds it.
    pub artifact: Digest,
    /// Digests of the same content under other digest versions. Equal to any
    /// of them is equal to this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub same_as: Vec<Digest>,
    /// A chart's own name and version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart: Option<ChartName>,
    /// The dependencies that were resolved for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resolved: Vec<ResolvedDependency>,
    /// Names the chart that the remote ones were resolved for (its files, and what it asks
    /// for). They stay as they are for as long as it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_for: Option<String>,
    /// Who signed the newest commit, or the tag, that holds this content; of a want that asks
    /// for it, and nothing is served of it without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_by: Option<Verified>,
    /// Names everything that went in (tree ids, siblings, link targets,
    /// dependencies). Equal inputs need no export.
    pub inputs: String,
    /// Bytes of the artifact file.
    pub size: u64,
    /// When this content was first published.
    pub since: Timestamp,
}

impl Good {
    /// What the remote dependencies stand for, if there are any.
    #[must_use]
    pub fn resolution(&self) -> Option<Resolution> {
        let remote = |one: &&ResolvedDependency| one.digest.is_some();
        Some(Resolution {
            chart: self.resolved_for.clone()?,
            dependencies: self.resolved.iter().filter(remote).cloned().collect(),
        })
    }
}

/// A chart's name and version, as its `Chart.yaml` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChartName {
    /// `name`.
    pub name: String,
    /// `version`.
    pub version: String,
}

/// Why one want can't be had (or not in its newest form).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// One word for machines.
    pub reason: Reason,
    /// What was wrong, where, and what to do. Free of secrets.
    pub message: String,
    /// Since when.
    pub since: Timestamp,
    /// The commit at which it was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// What keeps a whole source from being checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// One word for machines.
    pub reason: Reason,
    /// What was wrong, where, and what to do. Free of secrets.
    pub message: String,
    /// When it began.
    pub since: Timestamp,
    /// Attempts that failed in a row.
    pub attempts: u32,
    /// When the next attempt is due.
    pub next_attempt: Timestamp,
}

/// Why something can't be had.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Reason {
    /// The address is none that is accepted.
    InvalidUrl,
    /// No address is known for the host's name.
    UnknownHost,
    /// The host can't be reached, or it ended the connection.
    Unreachable,
    /// The exchange took longer than it may.
    Timeout,
    /// The credential was refused, or one is needed.
    AuthenticationFailed,
    /// The host's key or certificate isn't trusted.
    HostNotTrusted,
    /// The request names a credential that isn't there (yet).
    CredentialMissing,
    /// There is no such repository.
    RepositoryNotFound,
    /// The ref doesn't exist (any more).
    RefNotFound,
    /// A short commit id stands for several commits.
    RefAmbiguous,
    /// The repository has no chart of that name.
    ChartNotFound,
    /// The chart has no version that fits (any more).
    VersionNotFound,
    /// What is asked for is no version, and no range of versions.
    InvalidVersion,
    /// What came is something else than the origin itself says that it is.
    DigestMismatch,
    /// The path doesn't exist at that commit, or there is nothing at the URL.
    PathNotFound,
    /// The path is none within the repository.
    InvalidPath,
    /// The folder is no chart: no `Chart.yaml`, or a broken one.
    InvalidChart,
    /// A link leads out of the repository, or in a circle.
    InvalidLink,
    /// A Git LFS pointer stands where a file should be.
    LfsPointer,
    /// What the URL gives is no plain text in UTF-8.
    InvalidFile,
    /// The tree has more bytes or files than are allowed.
    TooLarge,
    /// A dependency can't be had.
    DependencyFailed,
    /// What is to be signed isn't, or not by any of the keys.
    Unverified,
    /// Another want of the same group failed, so none of it moved.
    GroupHeldBack,
    /// This version can't serve such a want, or the request is of another version.
    Unsupported,
    /// The volume is read-only, full, or refuses access.
    Volume,
    /// The local mirror is broken; it is being rebuilt.
    MirrorCorrupt,
    /// The remote said something else, which the message repeats.
    Remote,
    /// A fault of the sidecar itself, which the message describes.
    Internal,
    /// A reason of a later version.
    #[serde(untagged)]
    Other(String),
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Other(word) => f.write_str(word),
            known => write!(f, "{known:?}"),
        }
    }
}

impl Document for Manifest {
    const KIND: &'static str = "manifest";

    fn schema(&self) -> &str {
        &self.schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_read_as_they_are_written() {
        for reason in [Reason::RefNotFound, Reason::Other("Later".into())] {
            let text = serde_json::to_string(&reason).unwrap();
            assert_eq!(text, format!("\"{reason}\""));
            assert_eq!(serde_json::from_str::<Reason>(&text).unwrap(), reason);
        }
    }
}
