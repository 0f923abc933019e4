//! Opens artifacts into private folders, for as long as they are used.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tandem_shared::artifact::{self, Digest, ExtractError, Limits};
use tandem_shared::layout::Served;
use tempfile::TempDir;
use thiserror::Error;

/// Values files that are kept in memory, and the bytes of the largest such. They are read
/// again at every look at their HelmReleases, and rarely change.
const KEPT: usize = 64;
const KEPT_BYTES: usize = 64 * 1024;

/// Why an artifact can't be used.
#[derive(Debug, Error)]
pub enum ArtifactError {
    /// It can't be opened.
    #[error("{source}")]
    Extract {
        /// Which.
        digest: Digest,
        /// Why.
        source: Box<ExtractError>,
    },
    /// There is no room for it, or it can't be read back.
    #[error("can't open an artifact below {}: {source}", folder.display())]
    Io {
        /// The private folder.
        folder: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The thread that opened it is gone.
    #[error("the thread that opened an artifact ended: {0}")]
    Thread(#[from] tokio::task::JoinError),
}

impl ArtifactError {
    /// The artifact that isn't what its name says, if that is what is wrong.
    #[must_use]
    pub fn rejected(&self) -> Option<&Digest> {
        match self {
            Self::Extract { digest, source } if source.is_rejection() => Some(digest),
            _ => None,
        }
    }
}

/// A chart that was opened; its folder goes when this is dropped.
#[derive(Debug)]
pub struct Opened(TempDir);

impl Opened {
    /// The folder that holds `Chart.yaml`.
    #[must_use]
    pub fn chart(&self) -> PathBuf {
        chart_in(self.0.path())
    }
}

/// What it is called is the sidecar's business.
fn only_file(folder: &Path) -> std::io::Result<Vec<u8>> {
    let mut entries = std::fs::read_dir(folder)?;
    match (entries.next().transpose()?, entries.next()) {
        (Some(file), None) => std::fs::read(file.path()),
        _ => Err(std::io::Error::other("it doesn't hold just one file")),
    }
}

fn chart_in(folder: &Path) -> PathBuf {
    folder.join("chart")
}

/// Opens artifacts of one volume.
#[derive(Clone)]
pub struct Artifacts {
    served: Served,
    work: PathBuf,
    files: Arc<Mutex<HashMap<Digest, Vec<u8>>>>,
}

impl Artifacts {
    /// Opens what lies on `served` below the private folder `work`.
    #[must_use]
    pub fn new(served: Served, work: PathBuf) -> Self {
        Self {
            served,
            work,
            files: Arc::default(),
        }
    }

    /// Opens a chart.
    ///
    /// # Errors
    /// If it isn't there, or isn't what its name says.
    pub async fn chart(&self, digest: &Digest) -> Result<Opened, ArtifactError> {
        let this = self.clone();
        let digest = digest.clone();
        tokio::task::spawn_blocking(move || this.open(&digest, Limits::default()).map(Opened))
            .await?
    }

    /// The content of a values file, the one file in its artifact.
    ///
    /// # Errors
    /// As [`Self::chart`], or if there isn't just one file in it.
    pub async fn file(&self, digest: &Digest) -> Result<Vec<u8>, ArtifactError> {
        if let Some(known) = self.known().get(digest) {
            return Ok(known.clone());
        }
        let this = self.clone();
        let wanted = digest.clone();
        let content = tokio::task::spawn_blocking(move || {
            let opened = this.open(&wanted, Limits::FILE)?;
            let folder = chart_in(opened.path());
            only_file(&folder).map_err(|source| ArtifactError::Io { folder, source })
        })
        .await??;
        if content.len() <= KEPT_BYTES {
            let mut known = self.known();
            if known.len() >= KEPT {
                known.clear();
            }
            known.insert(digest.clone(), content.clone());
        }
        Ok(content)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<Digest, Vec<u8>>> {
        // Whatever a panicking thread left in it is whole.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, digest: &Digest, limits: Limits) -> Result<TempDir, ArtifactError> {
        let folder = tempfile::Builder::new()
            .prefix("artifact-")
            .tempdir_in(&self.work)
            .map_err(|source| ArtifactError::Io {
                folder: self.work.clone(),
                source,
            })?;
        artifact::extract(
            &self.served.artifact(digest),
            digest,
            &chart_in(folder.path()),
            limits,
        )
        .map_err(|source| ArtifactError::Extract {
            digest: digest.clone(),
            source: Box::new(source),
        })?;
        Ok(folder)
    }
}
