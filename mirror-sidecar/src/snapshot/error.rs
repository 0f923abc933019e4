//! Why a chart or file can't be had at a commit.

use tandem_shared::artifact::{Limits, PackError};
use tandem_shared::manifest::Reason;
use tandem_shared::publish::PublishError;
use thiserror::Error;

use super::path::PathError;
use super::submodule::Absent;

/// Why a chart or file can't be had at a commit.
#[derive(Debug, Error)]
pub enum SnapshotError {
    /// The asked path is none.
    #[error("{0}")]
    Path(#[from] PathError),
    /// Nothing is there.
    #[error("there is no {what} {path:?} at this commit")]
    NotFound {
        /// `folder` or `file`.
        what: &'static str,
        /// The path.
        path: String,
    },
    /// The wrong thing is there.
    #[error("{path:?} is a {is}, where a {expected} is wanted")]
    WrongKind {
        /// The path.
        path: String,
        /// What is there.
        is: &'static str,
        /// What should be.
        expected: &'static str,
    },
    /// A link that leads out of the repository.
    #[error(
        "the link {link:?} leads to {target:?}, out of the repository; only links within it are followed"
    )]
    Escape {
        /// The link.
        link: String,
        /// Where it leads.
        target: String,
    },
    /// A link to nothing.
    #[error("the link {link:?} leads to {target:?}, where nothing is")]
    Dangling {
        /// The link.
        link: String,
        /// Where it leads.
        target: String,
    },
    /// Links in a circle.
    #[error("the link {0:?} leads in a circle")]
    Loop(String),
    /// Links to links to links.
    #[error(
        "its links lead through more than {0} folders; let them lead straight to what they mean"
    )]
    Maze(usize),
    /// A submodule where none is followed.
    #[error(
        "{asked:?} leads into {path:?}, which is a submodule; submodules are followed with chart.submodules: true"
    )]
    Submodule {
        /// The path or link that leads there.
        asked: String,
        /// The submodule.
        path: String,
    },
    /// A submodule that isn't held yet.
    #[error("the submodule {:?} has not been fetched", .0.path)]
    Absent(Box<Absent>),
    /// A submodule that can't be fetched.
    #[error("the submodule {path:?}{from} can't be had: {why}")]
    SubmoduleFailed {
        /// Where it is.
        path: String,
        /// ` (<URL>)`, as far as it is known, redacted.
        from: String,
        /// Why not. Free of secrets.
        why: String,
        /// The word for machines.
        reason: Reason,
    },
    /// More submodules than may be.
    #[error("{0}")]
    Submodules(String),
    /// A Git LFS pointer.
    #[error("{0:?} is a Git LFS pointer, not the file itself; keep chart files out of LFS")]
    LfsPointer(String),
    /// Too large.
    #[error("{path:?} is too large: {source}; see --max-chart-bytes and --max-chart-files")]
    TooLarge {
        /// The path.
        path: String,
        /// What is allowed.
        source: PackError,
    },
    /// A name that can't stand in an artifact.
    #[error("{0}")]
    Unpackable(PackError),
    /// No `Chart.yaml`.
    #[error("there is no Chart.yaml in {path:?}{hint}")]
    NoChart {
        /// The folder.
        path: String,
        /// A file that was perhaps meant to be one.
        hint: String,
    },
    /// A broken `Chart.yaml`.
    #[error("{path:?} is no valid chart file: {why}")]
    BadChart {
        /// The file.
        path: String,
        /// Why not.
        why: String,
    },
    /// A dependency that can't be had.
    #[error("the dependency {name:?} of the chart {chart:?} can't be had: {why}")]
    Dependency {
        /// Its name.
        name: String,
        /// The chart that wants it.
        chart: String,
        /// Why not.
        why: String,
    },
    /// A dependency that can't be downloaded.
    #[error("the dependency {name:?} of the chart {chart:?} can't be had: {why}")]
    Download {
        /// Its name.
        name: String,
        /// The chart that wants it.
        chart: String,
        /// What was asked for where, and why it isn't there.
        why: String,
        /// Whether it may be had at another time.
        passing: bool,
    },
    /// A kind of want that this version doesn't know.
    #[error(
        "this version knows no wants of kind {0:?}, only chart and file; update mirror-sidecar"
    )]
    Kind(String),
    /// An object of the mirror can't be read.
    #[error("the local mirror is broken: {0}")]
    Corrupt(String),
    /// The volume refuses.
    #[error(transparent)]
    Volume(#[from] PublishError),
    /// The volume refuses while an artifact is being written.
    #[error("can't write an artifact: {0}; free space on the volume or give it more")]
    Write(std::io::Error),
}

impl SnapshotError {
    /// The word for machines.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Path(_) => Reason::InvalidPath,
            Self::NotFound { .. } => Reason::PathNotFound,
            Self::WrongKind { expected, .. } if *expected == "chart folder" => Reason::InvalidChart,
            Self::WrongKind { .. } => Reason::PathNotFound,
            Self::Escape { .. } | Self::Dangling { .. } | Self::Loop(_) | Self::Maze(_) => {
                Reason::InvalidLink
            }
            Self::Submodule { .. } => Reason::PathNotFound,
            Self::Absent(_) => Reason::RefNotFound,
            Self::SubmoduleFailed { reason, .. } => reason.clone(),
            Self::Submodules(_) => Reason::TooLarge,
            Self::LfsPointer(_) => Reason::LfsPointer,
            Self::TooLarge { .. } => Reason::TooLarge,
            Self::Unpackable(_) => Reason::InvalidPath,
            Self::NoChart { .. } | Self::BadChart { .. } => Reason::InvalidChart,
            Self::Dependency { .. } | Self::Download { .. } => Reason::DependencyFailed,
            Self::Kind(_) => Reason::Unsupported,
            Self::Corrupt(_) => Reason::MirrorCorrupt,
            Self::Volume(_) | Self::Write(_) => Reason::Volume,
        }
    }

    pub(crate) fn too_large(path: &str, limits: Limits) -> Self {
        let source = PackError::TooLarge {
            bytes: limits.bytes,
            entries: limits.entries,
        };
        Self::TooLarge {
            path: path.to_owned(),
            source,
        }
    }

    /// Whether the same commit may give something else the next time.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Absent(_)
                | Self::SubmoduleFailed { .. }
                | Self::Corrupt(_)
                | Self::Volume(_)
                | Self::Write(_)
                | Self::Download { passing: true, .. }
        )
    }
}

impl From<git2::Error> for SnapshotError {
    fn from(error: git2::Error) -> Self {
        Self::Corrupt(error.message().to_owned())
    }
}

impl From<PackError> for SnapshotError {
    fn from(error: PackError) -> Self {
        match error {
            error @ PackError::TooLarge { .. } => Self::TooLarge {
                path: ".".to_owned(),
                source: error,
            },
            PackError::Io(source) => Self::Write(source),
            other => Self::Unpackable(other),
        }
    }
}
