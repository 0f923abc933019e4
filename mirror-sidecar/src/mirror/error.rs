//! What goes wrong with a mirror.

use std::path::PathBuf;

use tandem_shared::child::ChildError;
use tandem_shared::lock::LockError;
use tandem_shared::manifest::Reason;
use tandem_shared::publish::PublishError;
use thiserror::Error;

use super::classify::Meaning;

/// What goes wrong with a mirror.
#[derive(Debug, Error)]
pub enum MirrorError {
    /// git said so.
    #[error("{message}")]
    Git {
        /// One word for machines.
        reason: Reason,
        /// What it means for what we try next.
        meaning: Meaning,
        /// For people, free of secrets.
        message: String,
    },
    /// The remote said what we can't read.
    #[error("the remote's list of refs can't be read: {0:?}")]
    Listing(String),
    /// A repository of the other object format.
    #[error(
        "the repository uses SHA-256 object ids, which this version can't read; serve it with SHA-1 ids"
    )]
    Sha256,
    /// git can't be run.
    #[error("{0}; see --git")]
    Child(#[from] ChildError),
    /// The mirror's lock can't be had.
    #[error("{0}")]
    Lock(#[from] LockError),
    /// The volume refuses.
    #[error(transparent)]
    Volume(#[from] PublishError),
    /// The mirror is broken.
    #[error("the local mirror is broken: {0}")]
    Corrupt(String),
    /// There is no such commit.
    #[error("{0}")]
    NoCommit(String),
    /// A `.gitmodules` that can't be read.
    #[error("{0}")]
    Gitmodules(String),
    /// A short id stands for several.
    #[error("the commit id {short} stands for {count} commits: write more digits of it")]
    Ambiguous {
        /// The short id.
        short: String,
        /// How many there are.
        count: usize,
    },
    /// A leftover can't be looked at.
    #[error("can't read {}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}

impl MirrorError {
    /// The word for machines.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Git { reason, .. } => reason.clone(),
            Self::Listing(_) | Self::Gitmodules(_) => Reason::Remote,
            Self::Sha256 => Reason::Unsupported,
            Self::Child(_) | Self::Lock(LockError::Held { .. }) => Reason::Internal,
            Self::Lock(LockError::Io { .. }) | Self::Volume(_) | Self::Io { .. } => Reason::Volume,
            Self::Corrupt(_) => Reason::MirrorCorrupt,
            Self::NoCommit(_) => Reason::RefNotFound,
            Self::Ambiguous { .. } => Reason::RefAmbiguous,
        }
    }

    /// Whether the remote was reached, and what it gave or refused is the matter: others of
    /// its refs may be better. One that is slow may be so at one of them.
    #[must_use]
    pub(super) fn is_of_what_came(&self) -> bool {
        let Self::Git { reason, .. } = self else {
            return matches!(self, Self::NoCommit(_));
        };
        matches!(
            reason,
            Reason::Remote | Reason::RefNotFound | Reason::Timeout
        )
    }

    /// Whether it is this side's fault, so that nothing else will do, either.
    #[must_use]
    pub(super) fn is_local(&self) -> bool {
        self.is_corrupt()
            || matches!(
                self.reason(),
                Reason::Volume | Reason::Internal | Reason::MirrorCorrupt
            )
    }

    /// Whether the mirror has to be made anew.
    #[must_use]
    pub fn is_corrupt(&self) -> bool {
        matches!(
            self,
            Self::Corrupt(_)
                | Self::Git {
                    meaning: Meaning::Corrupt,
                    ..
                }
        )
    }

    /// The same once more, for something else that it is about.
    pub(super) fn repeated(&self) -> Self {
        Self::Git {
            reason: self.reason(),
            meaning: match self {
                Self::Git { meaning, .. } => *meaning,
                _ => Meaning::Failure,
            },
            message: self.to_string(),
        }
    }

    pub(crate) fn means(&self, wanted: Meaning) -> bool {
        matches!(self, Self::Git { meaning, .. } if *meaning == wanted)
    }
}

impl From<git2::Error> for MirrorError {
    fn from(error: git2::Error) -> Self {
        Self::Corrupt(error.message().to_owned())
    }
}
