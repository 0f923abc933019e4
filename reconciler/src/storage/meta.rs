//! What the metadata of a release record tells without decoding it.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::crd::Target;
use crate::identity::{IDENTITY_LABEL, Stamp};

/// Status of a revision, as Helm's `status` label gives it.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum RecordState {
    /// An install is under way, or was.
    PendingInstall,
    /// An upgrade is under way, or was.
    PendingUpgrade,
    /// A rollback is under way, or was.
    PendingRollback,
    /// In the cluster.
    Deployed,
    /// An operation failed.
    Failed,
    /// An uninstall is under way, or was.
    Uninstalling,
    /// Uninstalled, the history kept.
    Uninstalled,
    /// A newer revision took its place.
    Superseded,
    /// Helm itself doesn't know.
    Unknown,
    /// A status that no supported helm writes.
    Other(String),
}

impl RecordState {
    /// Reads Helm's word for a status.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            "pending-install" => Self::PendingInstall,
            "pending-upgrade" => Self::PendingUpgrade,
            "pending-rollback" => Self::PendingRollback,
            "deployed" => Self::Deployed,
            "failed" => Self::Failed,
            "uninstalling" => Self::Uninstalling,
            "uninstalled" => Self::Uninstalled,
            "superseded" => Self::Superseded,
            "unknown" => Self::Unknown,
            other => Self::Other(other.to_owned()),
        }
    }

    /// Helm's word for this status.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::PendingInstall => "pending-install",
            Self::PendingUpgrade => "pending-upgrade",
            Self::PendingRollback => "pending-rollback",
            Self::Deployed => "deployed",
            Self::Failed => "failed",
            Self::Uninstalling => "uninstalling",
            Self::Uninstalled => "uninstalled",
            Self::Superseded => "superseded",
            Self::Unknown => "unknown",
            Self::Other(text) => text,
        }
    }

    /// Whether an operation that makes this revision is under way, or died.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        matches!(
            self,
            Self::PendingInstall | Self::PendingUpgrade | Self::PendingRollback
        )
    }

    /// Whether no operation is under way on this revision.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        !self.is_pending() && *self != Self::Uninstalling
    }
}

impl std::fmt::Display for RecordState {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// One revision, from the metadata of its Secret.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RecordMeta {
    /// Revision of the release, from 1.
    pub revision: i64,
    /// Status of the revision.
    pub state: RecordState,
    /// What our label on it says.
    pub stamp: Stamp,
    /// When anybody wrote it last, by the API server's clock: the newest time of its
    /// managed fields. Helm's own time labels are inherited or vanish.
    pub touched: Timestamp,
    /// When it was created, by the API server's clock.
    pub created: Timestamp,
    /// Version of the Secret, for writes that must not trample.
    pub resource_version: String,
}

/// A Secret that says it is a release record but isn't.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "Secret {namespace}/{name} is labelled as a Helm release record but {what}; repair or \
     delete it"
)]
pub struct MetaError {
    /// Namespace of the Secret.
    pub namespace: String,
    /// Name of the Secret.
    pub name: String,
    /// What is wrong.
    pub what: &'static str,
}

impl RecordMeta {
    /// Reads one record's metadata, with the release that it belongs to.
    ///
    /// # Errors
    /// If a label, name or time that every record has is missing or malformed.
    pub fn read(metadata: &ObjectMeta) -> Result<(Target, Self), MetaError> {
        let secret = metadata.name.clone().unwrap_or_default();
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let wrong = |what| MetaError {
            namespace: namespace.clone(),
            name: secret.clone(),
            what,
        };
        let label = |key: &str| metadata.labels.as_ref().and_then(|labels| labels.get(key));

        let name = label("name")
            .ok_or_else(|| wrong("has no label \"name\""))?
            .clone();
        let state = label("status").ok_or_else(|| wrong("has no label \"status\""))?;
        let revision = label("version")
            .and_then(|version| version.parse::<i64>().ok())
            .filter(|revision| *revision > 0)
            .ok_or_else(|| wrong("its label \"version\" is not a revision"))?;
        if secret != secret_name(&name, revision) {
            return Err(wrong(
                "its name doesn't match its labels \"name\" and \"version\"",
            ));
        }
        let created = metadata
            .creation_timestamp
            .as_ref()
            .ok_or_else(|| wrong("has no creation time"))?
            .0;
        let touched = metadata
            .managed_fields
            .iter()
            .flatten()
            .filter_map(|entry| entry.time.as_ref().map(|time| time.0))
            .fold(created, Timestamp::max);
        let meta = Self {
            revision,
            state: RecordState::parse(state),
            stamp: Stamp::parse(label(IDENTITY_LABEL).map(String::as_str)),
            touched,
            created,
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
        };
        Ok((Target { namespace, name }, meta))
    }
}

/// Name of the Secret that records this revision.
#[must_use]
pub(super) fn secret_name(release: &str, revision: i64) -> String {
    format!("sh.helm.release.v1.{release}.v{revision}")
}

/// All records of one release, oldest revision first.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct History(Vec<RecordMeta>);

impl History {
    /// Records in any order.
    #[must_use]
    pub fn new(mut records: Vec<RecordMeta>) -> Self {
        records.sort_by_key(|record| record.revision);
        Self(records)
    }

    /// All records, oldest revision first.
    #[must_use]
    pub fn records(&self) -> &[RecordMeta] {
        &self.0
    }

    /// The newest revision, the only one whose state counts.
    #[must_use]
    pub fn last(&self) -> Option<&RecordMeta> {
        self.0.last()
    }

    /// The record before the newest one; revisions in between may have been pruned.
    #[must_use]
    pub fn before_last(&self) -> Option<&RecordMeta> {
        self.0.iter().rev().nth(1)
    }

    /// Whether anything of this release may ever have been in the cluster and good. Only a
    /// complete history of nothing but failed and pending installs says no.
    #[must_use]
    pub fn ever_deployed(&self) -> bool {
        let complete = self.0.first().is_some_and(|first| first.revision == 1);
        let all_failed = self.0.iter().all(|record| {
            matches!(
                record.state,
                RecordState::PendingInstall | RecordState::Failed
            )
        });
        !(complete && all_failed)
    }

    /// Whether any revision is marked deployed.
    #[must_use]
    pub fn any_deployed(&self) -> bool {
        self.0
            .iter()
            .any(|record| record.state == RecordState::Deployed)
    }
}
