//! Opening an artifact: hashed while it is extracted, believed only then.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use sha2::{Digest as _, Sha256};
use tar::{Archive, EntryType};
use thiserror::Error;

use super::{Digest, Limits, is_sound_path};
use crate::observe::{self, ObserveError};
use crate::publish;

/// Why an artifact isn't opened.
#[derive(Debug, Error)]
pub enum ExtractError {
    /// The file can't be read; it may have been replaced a moment ago.
    #[error(transparent)]
    Unreadable(#[from] ObserveError),
    /// Its bytes are other than its name says.
    #[error("the artifact {} isn't what its name says: its digest is {found}", path.display())]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// What its bytes amount to.
        found: Digest,
    },
    /// It holds what no artifact holds.
    #[error("the artifact {} holds {what}; nothing of it is used", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// What was found in it.
        what: String,
    },
    /// The private folder refuses.
    #[error("can't extract into {}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl ExtractError {
    /// Whether the file itself is at fault, so that the sidecar has to build
    /// it anew.
    #[must_use]
    pub fn is_rejection(&self) -> bool {
        matches!(self, Self::Mismatch { .. } | Self::Refused { .. })
    }
}

/// Extracts the artifact at `path` into `folder`, which must not exist yet and
/// must lie where nobody else can write. Files get time zero, so that what is
/// made of them doesn't depend on the hour.
///
/// # Errors
/// Whatever is wrong with the artifact; `folder` is then gone again.
pub fn extract(
    path: &Path,
    digest: &Digest,
    folder: &Path,
    limits: Limits,
) -> Result<(), ExtractError> {
    let file = observe::open(path)?;
    let io = |source| ExtractError::Io {
        path: folder.to_owned(),
        source,
    };
    DirBuilder::new().mode(0o700).create(folder).map_err(io)?;
    let result = extract_into(file, path, digest, folder, limits);
    if result.is_err() {
        // The error that is under way says more than one of this removal.
        let _ = publish::remove_folder(folder);
    }
    result
}

fn extract_into(
    file: File,
    path: &Path,
    digest: &Digest,
    folder: &Path,
    limits: Limits,
) -> Result<(), ExtractError> {
    let io = |source| ExtractError::Io {
        path: folder.to_owned(),
        source,
    };
    let refuse = |what: String| ExtractError::Refused {
        path: path.to_owned(),
        what,
    };
    let mut archive = Archive::new(Hashing {
        file,
        hasher: Sha256::new(),
    });
    let mut made = Made {
        folder,
        folders: BTreeSet::new(),
        left: limits.bytes,
    };
    let malformed = |error: io::Error| refuse(format!("no readable tar ({error})"));
    for (count, entry) in archive.entries().map_err(malformed)?.enumerate() {
        let mut entry = entry.map_err(malformed)?;
        if count >= limits.entries {
            return Err(refuse(format!("more than {} entries", limits.entries)));
        }
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let sound = name.strip_suffix('/').unwrap_or(&name).to_owned();
        if !is_sound_path(&sound) {
            return Err(refuse(format!("the path {sound:?}")));
        }
        match entry.header().entry_type() {
            EntryType::Directory => made.folder(&sound).map_err(io)?,
            EntryType::Regular => {
                if entry.size() > made.left {
                    return Err(refuse(format!("more than {} bytes", limits.bytes)));
                }
                made.left -= entry.size();
                made.file(&sound, &mut entry).map_err(io)?;
            }
            other => {
                return Err(refuse(format!(
                    "{sound:?}, which is neither file nor folder ({other:?})"
                )));
            }
        }
    }
    // To the last byte: what stands behind the end counts as well.
    let mut hashing = archive.into_inner();
    io::copy(&mut (&mut hashing).take(limits.bytes), &mut io::sink()).map_err(io)?;
    let found = Digest::of(&hashing.hasher.finalize());
    if found.hex() == digest.hex() {
        Ok(())
    } else {
        Err(ExtractError::Mismatch {
            path: path.to_owned(),
            found,
        })
    }
}

struct Made<'a> {
    folder: &'a Path,
    folders: BTreeSet<String>,
    left: u64,
}

impl Made<'_> {
    fn folder(&mut self, path: &str) -> io::Result<()> {
        let ends = path
            .match_indices('/')
            .map(|(at, _)| at)
            .chain([path.len()]);
        for end in ends {
            if self.folders.insert(path[..end].to_owned()) {
                DirBuilder::new()
                    .mode(0o700)
                    .create(self.folder.join(&path[..end]))?;
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &str, content: &mut impl Read) -> io::Result<()> {
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.folder(parent)?;
        }
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(self.folder.join(path))?;
        io::copy(content, &mut file)?;
        file.flush()?;
        file.set_modified(UNIX_EPOCH)
    }
}

struct Hashing {
    file: File,
    hasher: Sha256,
}

impl Read for Hashing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        Ok(read)
    }
}
