//! Packing a tree into an artifact.

use std::collections::BTreeMap;
use std::io::{self, Write};

use sha2::{Digest as _, Sha256};
use tar::{EntryType, Header};
use thiserror::Error;

use super::{Digest, Limits, is_sound_path};

/// Why a tree can't be packed.
#[derive(Debug, Error)]
pub enum PackError {
    /// A path that may not stand in an artifact.
    #[error(
        "the path `{0}` can't be packed; it has an empty part, `.`, `..`, control characters, or is too long"
    )]
    Path(String),
    /// Two entries want one path, or a file stands where a folder is needed.
    #[error("two files want the path `{0}`")]
    Clash(String),
    /// More than is allowed.
    #[error("there are more than {entries} files or {bytes} bytes in it")]
    TooLarge {
        /// Bytes allowed.
        bytes: u64,
        /// Entries allowed.
        entries: usize,
    },
    /// The disk refuses.
    #[error("can't write the artifact: {0}")]
    Io(#[from] io::Error),
}

/// Collects the files of a tree, then packs them in order.
#[derive(Debug)]
pub struct Packer {
    limits: Limits,
    bytes: u64,
    files: BTreeMap<String, Vec<u8>>,
}

impl Packer {
    /// An empty tree.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            bytes: 0,
            files: BTreeMap::new(),
        }
    }

    /// Adds a regular file.
    ///
    /// # Errors
    /// If the path isn't sound, is taken, or a limit is passed.
    pub fn file(&mut self, path: &str, content: Vec<u8>) -> Result<(), PackError> {
        if !is_sound_path(path) {
            return Err(PackError::Path(
                path.chars().filter(|c| !c.is_control()).take(200).collect(),
            ));
        }
        self.bytes = self.bytes.saturating_add(content.len() as u64);
        if self.bytes > self.limits.bytes || self.files.len() >= self.limits.entries {
            return Err(PackError::TooLarge {
                bytes: self.limits.bytes,
                entries: self.limits.entries,
            });
        }
        match self.files.insert(path.to_owned(), content) {
            None => Ok(()),
            Some(_) => Err(PackError::Clash(path.to_owned())),
        }
    }

    /// The content of a file that was added.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&[u8]> {
        self.files.get(path).map(Vec::as_slice)
    }

    /// Packs what was added into `out` and names it.
    ///
    /// # Errors
    /// If a file stands where a folder is needed, or `out` refuses.
    pub fn pack(self, out: impl Write) -> Result<(Digest, u64), PackError> {
        // Folders are what the files' paths imply: git knows no empty ones.
        let mut entries: BTreeMap<&str, Option<&[u8]>> = BTreeMap::new();
        for (path, content) in &self.files {
            entries.insert(path, Some(content));
            for (at, _) in path.match_indices('/') {
                if entries.insert(&path[..at], None).flatten().is_some() {
                    return Err(PackError::Clash(path[..at].to_owned()));
                }
            }
        }
        let mut builder = tar::Builder::new(Hashing {
            out,
            hasher: Sha256::new(),
            written: 0,
        });
        for (path, content) in entries {
            let mut header = Header::new_gnu();
            header.set_mtime(0);
            header.set_uid(0);
            header.set_gid(0);
            match content {
                Some(content) => {
                    header.set_entry_type(EntryType::Regular);
                    header.set_mode(0o644);
                    header.set_size(content.len() as u64);
                    builder.append_data(&mut header, path, content)?;
                }
                None => {
                    header.set_entry_type(EntryType::Directory);
                    header.set_mode(0o755);
                    header.set_size(0);
                    builder.append_data(&mut header, format!("{path}/"), io::empty())?;
                }
            }
        }
        let mut hashing = builder.into_inner()?;
        hashing.flush()?;
        Ok((Digest::of(&hashing.hasher.finalize()), hashing.written))
    }
}

struct Hashing<W> {
    out: W,
    hasher: Sha256,
    written: u64,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
