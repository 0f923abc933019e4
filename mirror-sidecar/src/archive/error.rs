//! Why an archive is no chart.

use std::io;

use tandem_shared::artifact::{Limits, PackError};
use tandem_shared::manifest::Reason;
use tar::EntryType;
use thiserror::Error;

use super::bounded::Exceeded;
use crate::snapshot::SnapshotError;

/// Why an archive is no chart.
#[derive(Debug, Error)]
pub enum ArchiveError {
    /// Something else, such as a page that asks for a login.
    #[error("it is no packed chart (a .tgz): it begins with {0:?}")]
    NotGzip(String),
    /// It can't be read to its end.
    #[error("the archive is broken: {0}")]
    Broken(String),
    /// An entry with a path that none may have.
    #[error("the entry {path:?} {why}; pack the chart anew with `helm package`")]
    Path {
        /// Its path.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An entry that is neither file nor folder.
    #[error("the entry {path:?} is {kind}, where only files and folders may be")]
    Kind {
        /// Its path.
        path: String,
        /// What it is.
        kind: &'static str,
    },
    /// Too much.
    #[error(
        "it unpacks to more than {} bytes or {} files; see --max-chart-bytes and --max-chart-files",
        .0.bytes,
        .0.entries
    )]
    TooLarge(Limits),
    /// No `Chart.yaml`.
    #[error("there is no Chart.yaml in the folder that it holds ({0} files)")]
    NoChart(usize),
    /// A broken `Chart.yaml`.
    #[error(transparent)]
    Chart(SnapshotError),
    /// A file where a folder is needed.
    #[error(transparent)]
    Pack(PackError),
}

impl ArchiveError {
    /// The word for machines.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::NotGzip(_) | Self::Broken(_) | Self::NoChart(_) => Reason::InvalidChart,
            Self::Path { .. } => Reason::InvalidPath,
            Self::Kind { .. } => Reason::InvalidLink,
            Self::TooLarge(_) => Reason::TooLarge,
            Self::Chart(error) => error.reason(),
            Self::Pack(_) => Reason::InvalidPath,
        }
    }

    pub(super) fn not_gzip(begin: &[u8]) -> Self {
        let text = String::from_utf8_lossy(begin.get(..40).unwrap_or(begin)).into_owned();
        Self::NotGzip(text.chars().filter(|c| !c.is_control()).collect())
    }

    pub(super) fn broken(error: io::Error) -> Self {
        Self::Broken(shown(&error.to_string()))
    }

    pub(super) fn reading(error: io::Error, limits: Limits) -> Self {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
        while let Some(one) = cause {
            let io = one.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            if one.is::<Exceeded>() || io.is_some_and(|inner| inner.is::<Exceeded>()) {
                return Self::TooLarge(limits);
            }
            cause = one.source();
        }
        Self::broken(error)
    }

    pub(super) fn path(path: &str, why: &'static str) -> Self {
        let path = shown(path);
        Self::Path { path, why }
    }

    pub(super) fn kind(path: &str, kind: EntryType) -> Self {
        let kind = match kind {
            EntryType::Symlink => "a symbolic link",
            EntryType::Link => "a hard link",
            EntryType::Char | EntryType::Block => "a device",
            EntryType::Fifo => "a pipe",
            _ => "of an unknown kind",
        };
        let path = shown(path);
        Self::Kind { path, kind }
    }
}

impl From<PackError> for ArchiveError {
    fn from(error: PackError) -> Self {
        match error {
            PackError::TooLarge { bytes, entries } => Self::TooLarge(Limits { bytes, entries }),
            other => Self::Pack(other),
        }
    }
}

fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}
