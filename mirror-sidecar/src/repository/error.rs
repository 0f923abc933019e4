//! Why a Helm repository gives nothing.

use tandem_shared::manifest::Reason;
use tandem_shared::publish::PublishError;
use thiserror::Error;

use crate::archive::ArchiveError;
use crate::oci::OciError;
use crate::snapshot::SnapshotError;
use crate::web::WebError;

/// Why a Helm repository, or a chart of it, can't be had. Free of secrets.
#[derive(Debug, Error)]
pub enum RepositoryError {
    /// Nothing came.
    #[error(transparent)]
    Web(#[from] WebError),
    /// What came is no index.
    #[error(
        "what came is no index of a Helm repository: {0}; see what is behind the URL with index.yaml at its end"
    )]
    NotAnIndex(String),
    /// The index has more than is read.
    #[error("the index lists more than {0} versions of the charts that are asked for")]
    TooManyVersions(usize),
    /// The same, in bytes.
    #[error("the index says more than {0} bytes of the charts that are asked for")]
    TooMuch(usize),
    /// The index on the volume isn't what it was when it came.
    #[error("the index on the volume isn't what came")]
    Changed,
    /// No URL.
    #[error("the index says {0:?} for the archive's URL, which is none")]
    NoUrl(String),
    /// The archive lies in a registry, as the index says.
    #[error("the archive lies in a registry: {0}")]
    InRegistry(Box<OciError>),
    /// In the clear, and nothing to check it by.
    #[error(
        "the index leads from https to {0}, which would be in the clear, and has no digest to check the archive by; that isn't followed"
    )]
    Downgrade(String),
    /// The archive is another one.
    #[error(
        "the archive isn't the one that the index lists: its SHA-256 is {found}, and the index says {listed}; publish it under another version, or make the index anew"
    )]
    DigestMismatch {
        /// What the index says.
        listed: String,
        /// What came.
        found: String,
    },
    /// It is no chart.
    #[error("the archive can't be used: {0}")]
    Archive(#[from] ArchiveError),
    /// It is another chart.
    #[error(
        "the archive holds the chart {found:?} {version}, where the index says {listed:?} {listed_version}"
    )]
    OtherChart {
        /// Name in `Chart.yaml`.
        found: String,
        /// Version in `Chart.yaml`.
        version: String,
        /// Name in the index.
        listed: String,
        /// Version in the index.
        listed_version: String,
    },
    /// The volume refuses.
    #[error(transparent)]
    Volume(#[from] PublishError),
    /// So much lies on the volume that nothing more may be fetched.
    #[error("{}", crate::check::FULL)]
    Full,
    /// The artifact can't be made.
    #[error(transparent)]
    Artifact(#[from] SnapshotError),
    /// At a place that isn't the repository's own.
    #[error("{0}: {1}")]
    At(String, Box<Self>),
}

impl RepositoryError {
    /// The word for machines.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Web(error) => error.reason(),
            Self::NotAnIndex(_) => Reason::InvalidFile,
            Self::TooManyVersions(_) | Self::TooMuch(_) => Reason::TooLarge,
            Self::Changed | Self::Volume(_) | Self::Full => Reason::Volume,
            Self::Artifact(error) => error.reason(),
            Self::NoUrl(_) => Reason::InvalidUrl,
            Self::InRegistry(error) => error.reason(),
            Self::Downgrade(_) => Reason::Remote,
            Self::DigestMismatch { .. } => Reason::DigestMismatch,
            Self::Archive(error) => error.reason(),
            Self::OtherChart { .. } => Reason::InvalidChart,
            Self::At(_, error) => error.reason(),
        }
    }

    /// Whether the same may well go better in a moment, without anybody mending anything.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Web(error) => matches!(
                error.reason(),
                Reason::Unreachable | Reason::UnknownHost | Reason::Timeout | Reason::Remote
            ),
            Self::Changed | Self::Volume(_) | Self::Full => true,
            Self::Artifact(error) => error.may_pass(),
            Self::InRegistry(error) => error.may_pass(),
            // The index may be ahead of the archives, for a moment.
            Self::DigestMismatch { .. } => true,
            Self::At(_, error) => error.may_pass(),
            _ => false,
        }
    }
}
