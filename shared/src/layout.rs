//! Where every file lies.
//!
//! ```text
//! <volume>/wanted/        reconciler writes, sidecar reads
//!   contract.json  locks/  requests/<source>.json  releases/<namespace>.<name>.json
//! <volume>/served/        sidecar writes, reconciler reads
//!   contract.json  locks/  manifests/<source>.json  artifacts/<digest>.tar  mirrors/<source>.git/
//!   repositories/<source>/index.yaml  archives/<sha256>.tgz  staging/
//! <credentials>/<id>/     reconciler writes, sidecar reads; in memory
//! ```

use std::path::{Path, PathBuf};

use crate::artifact::Digest;
use crate::names::object_name;
use crate::source::SourceName;

/// The reconciler's mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    root: PathBuf,
}

/// The sidecar's mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    root: PathBuf,
}

/// Both mounts of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// What is wanted.
    pub wanted: Wanted,
    /// What is served.
    pub served: Served,
}

impl Volume {
    /// The two mounts as folders of `root`, as in a pod and on a plain machine.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        Self {
            wanted: Wanted {
                root: root.join("wanted"),
            },
            served: Served {
                root: root.join("served"),
            },
        }
    }
}

impl Wanted {
    /// The mount itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// `contract.json`.
    #[must_use]
    pub fn contract(&self) -> PathBuf {
        self.root.join("contract.json")
    }

    /// The folder of requests.
    #[must_use]
    pub fn requests(&self) -> PathBuf {
        self.root.join("requests")
    }

    /// The request for one source.
    #[must_use]
    pub fn request(&self, source: &SourceName) -> PathBuf {
        self.requests().join(format!("{source}.json"))
    }

    /// The folder of decisions.
    #[must_use]
    pub fn releases(&self) -> PathBuf {
        self.root.join("releases")
    }

    /// The last decision about one HelmRelease.
    #[must_use]
    pub fn release(&self, namespace: &str, name: &str) -> PathBuf {
        self.releases()
            .join(format!("{}.json", object_name(namespace, name)))
    }

    /// The lock of the one live reconciler.
    #[must_use]
    pub fn role_lock(&self) -> PathBuf {
        self.locks().join("reconciler.lock")
    }

    /// The lock of an operation on one Helm release, by the namespace that it
    /// is in and its name.
    #[must_use]
    pub fn release_lock(&self, namespace: &str, release: &str) -> PathBuf {
        self.locks()
            .join(format!("release-{}.lock", object_name(namespace, release)))
    }

    /// Every folder that its writer makes at its start.
    #[must_use]
    pub fn folders(&self) -> Vec<PathBuf> {
        vec![
            self.root.clone(),
            self.locks(),
            self.requests(),
            self.releases(),
        ]
    }

    fn locks(&self) -> PathBuf {
        self.root.join("locks")
    }
}

impl Served {
    /// The mount itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// `contract.json`.
    #[must_use]
    pub fn contract(&self) -> PathBuf {
        self.root.join("contract.json")
    }

    /// The folder of ref manifests.
    #[must_use]
    pub fn manifests(&self) -> PathBuf {
        self.root.join("manifests")
    }

    /// The ref manifest of one source.
    #[must_use]
    pub fn manifest(&self, source: &SourceName) -> PathBuf {
        self.manifests().join(format!("{source}.json"))
    }

    /// The folder of artifacts.
    #[must_use]
    pub fn artifacts(&self) -> PathBuf {
        self.root.join("artifacts")
    }

    /// One artifact. The `:` of its digest is a `-` in the file's name.
    #[must_use]
    pub fn artifact(&self, digest: &Digest) -> PathBuf {
        self.artifacts().join(digest.file_name())
    }

    /// The folder of mirrors, private to the sidecar.
    #[must_use]
    pub fn mirrors(&self) -> PathBuf {
        self.root.join("mirrors")
    }

    /// The bare repository of one source.
    #[must_use]
    pub fn mirror(&self, source: &SourceName) -> PathBuf {
        self.mirrors().join(format!("{source}.git"))
    }

    /// Where a mirror is built anew before it takes the old one's place.
    #[must_use]
    pub fn mirror_aside(&self, source: &SourceName) -> PathBuf {
        self.mirrors().join(format!("{source}.new"))
    }

    /// The folder of what is held of Helm repositories, private to the sidecar.
    #[must_use]
    pub fn repositories(&self) -> PathBuf {
        self.root.join("repositories")
    }

    /// The folder of what is held of one Helm repository.
    #[must_use]
    pub fn repository(&self, source: &SourceName) -> PathBuf {
        self.repositories().join(source.as_str())
    }

    /// The folder of downloaded archives of dependencies, private to the sidecar.
    #[must_use]
    pub fn archives(&self) -> PathBuf {
        self.root.join("archives")
    }

    /// The archive whose content has this SHA-256, in hex.
    #[must_use]
    pub fn archive(&self, sha256: &str) -> PathBuf {
        self.archives().join(format!("{sha256}.tgz"))
    }

    /// Where helm works on dependencies, private to the sidecar. Nothing in it outlives its
    /// work, or the next start.
    #[must_use]
    pub fn staging(&self) -> PathBuf {
        self.root.join("staging")
    }

    /// The lock of the one live sidecar.
    #[must_use]
    pub fn role_lock(&self) -> PathBuf {
        self.locks().join("mirror-sidecar.lock")
    }

    /// The lock of a mirror against two writers.
    #[must_use]
    pub fn mirror_lock(&self, source: &SourceName) -> PathBuf {
        self.locks().join(format!("mirror-{source}.lock"))
    }

    /// Every folder that its writer makes at its start.
    #[must_use]
    pub fn folders(&self) -> Vec<PathBuf> {
        vec![
            self.root.clone(),
            self.locks(),
            self.manifests(),
            self.artifacts(),
            self.mirrors(),
            self.repositories(),
            self.archives(),
            self.staging(),
        ]
    }

    /// Whether a folder is of no concern to the other role.
    #[must_use]
    pub fn is_private(&self, folder: &Path) -> bool {
        let private = [
            self.mirrors(),
            self.repositories(),
            self.archives(),
            self.staging(),
        ];
        private.iter().any(|private| folder.starts_with(private))
    }

    fn locks(&self) -> PathBuf {
        self.root.join("locks")
    }
}

/// The source that a file of `requests/` or `manifests/` is named after;
/// `None` for anything else, such as a half-written temporary file.
#[must_use]
pub fn source_of(file: &Path) -> Option<SourceName> {
    SourceName::parse(file.file_name()?.to_str()?.strip_suffix(".json")?)
}
