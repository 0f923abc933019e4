//! The index as it lies on the volume, and what it was when it came.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tandem_shared::layout::Served;
use tandem_shared::names;
use tandem_shared::observe;
use tandem_shared::publish::{self, Audience, Staged};
use tandem_shared::source::SourceName;

use super::index::drain;
use super::{Index, RepositoryError};
use crate::web::{Answer, Asked, Version, Web};

/// Bytes of the record, at most.
const RECORD: u64 = 64 * 1024;

/// What is held of one repository on the volume.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// What the index on the volume was when it came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Where it was asked for, as a digest: a query may be a token.
    place: String,
    /// How the server calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<Version>,
    /// Its SHA-256 in hex.
    sha256: String,
}

/// What came of asking for an index.
#[derive(Debug)]
pub enum Fetched {
    /// What is held is the newest; it may have another name now.
    Unchanged(Held),
    /// Another one came. It isn't believed yet.
    New(Arrived),
}

/// An index that came, and may take the place of the one that is held.
#[derive(Debug)]
pub struct Arrived {
    staged: Staged,
    held: Held,
}

impl Held {
    /// The `SHA-256` of the index in hex.
    #[must_use]
    pub fn sha256(&self) -> &str {
        &self.sha256
    }
}

impl Store {
    /// The place of one repository.
    #[must_use]
    pub fn of(served: &Served, source: &SourceName) -> Self {
        Self {
            folder: served.repository(source),
        }
    }

    fn index(&self) -> PathBuf {
        self.folder.join("index.yaml")
    }

    fn record(&self) -> PathBuf {
        self.folder.join("index.json")
    }

    /// What is held of the index at `url`, by a predecessor or by ourselves.
    #[must_use]
    pub fn held(&self, url: &str) -> Option<Held> {
        let mut text = Vec::new();
        let file = observe::open(&self.record()).ok()?;
        file.take(RECORD).read_to_end(&mut text).ok()?;
        let held: Held = serde_json::from_slice(&text).ok()?;
        (held.place == place_of(url) && self.index().is_file()).then_some(held)
    }

    /// Asks for the index, unless `held` is still the newest. `asked` names it.
    ///
    /// # Errors
    /// Says why there is none. What is held stays.
    pub fn fetch(
        &self,
        web: &Web,
        asked: Asked<'_>,
        held: Option<&Held>,
    ) -> Result<Fetched, RepositoryError> {
        if !self.folder.is_dir() {
            publish::folder(&self.folder, Audience::Owner)?;
        }
        let asked = Asked {
            held: held.and_then(|held| held.version.as_ref()),
            ..asked
        };
        let mut sink = Hashing::new(Late {
            folder: &self.folder,
            staged: None,
        });
        match web.get(asked, &mut sink)? {
            // Nobody says so who wasn't asked by what is held.
            Answer::Unchanged => held
                .map(|held| Fetched::Unchanged(held.clone()))
                .ok_or(RepositoryError::Changed),
            Answer::New(head) => {
                head.as_it_is()?;
                let (late, sha256) = sink.finish();
                let staged = late
                    .staged
                    .map_or_else(|| Staged::begin(&self.folder), Ok)?;
                let arrived = Held {
                    place: place_of(asked.url),
                    version: head.version,
                    sha256,
                };
                if held.is_some_and(|held| held.sha256 == arrived.sha256) {
                    // The same, under another name: nothing has to be read again.
                    self.write_record(&arrived)?;
                    return Ok(Fetched::Unchanged(arrived));
                }
                Ok(Fetched::New(Arrived {
                    staged,
                    held: arrived,
                }))
            }
        }
    }

    /// Reads an index that came; if it is one, it takes the place of the one that is held.
    ///
    /// # Errors
    /// If it is none, or the volume refuses. What is held stays.
    pub fn accept(
        &self,
        arrived: Arrived,
        names: BTreeSet<String>,
    ) -> Result<(Held, Index), RepositoryError> {
        let Arrived { staged, held } = arrived;
        let index = Index::read(BufReader::new(staged.reopen()?), names)?;
        staged.settle(Audience::Owner)?;
        // Without its record an index is nobody's; so the old record goes first.
        publish::remove(&self.record())?;
        staged.commit("index.yaml")?;
        self.write_record(&held)?;
        Ok((held, index))
    }

    /// Reads the index that is held.
    ///
    /// # Errors
    /// If it isn't there, or isn't what came.
    pub fn load(&self, held: &Held, names: BTreeSet<String>) -> Result<Index, RepositoryError> {
        let file = observe::open(&self.index()).map_err(|_| RepositoryError::Changed)?;
        let mut reader = BufReader::new(Hashing::new(file));
        let index = Index::read(&mut reader, names);
        drain(&mut reader).map_err(|_| RepositoryError::Changed)?;
        let (_, sha256) = reader.into_inner().finish();
        if sha256 == held.sha256 {
            index
        } else {
            Err(RepositoryError::Changed)
        }
    }

    fn write_record(&self, held: &Held) -> Result<(), RepositoryError> {
        let text = serde_json::to_vec_pretty(held)
            .map_err(|error| RepositoryError::NotAnIndex(error.to_string()))?;
        Ok(publish::bytes(&self.record(), &text, Audience::Owner)?)
    }
}

fn place_of(url: &str) -> String {
    names::sha256_hex(&[url.as_bytes()])
}

/// Hashes what goes through.
struct Hashing<T> {
    inner: T,
    hasher: Sha256,
}

impl<T> Hashing<T> {
    fn new(inner: T) -> Self {
        Self {
            inner,
            hasher: Sha256::new(),
        }
    }

    fn finish(self) -> (T, String) {
        let hex = data_encoding::HEXLOWER.encode(&self.hasher.finalize());
        (self.inner, hex)
    }
}

impl Read for Hashing<File> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        Ok(read)
    }
}

/// A file that is begun when the first of it comes: to be told that nothing changed writes
/// nothing.
struct Late<'a> {
    folder: &'a Path,
    staged: Option<Staged>,
}

impl Write for Late<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let staged = match self.staged.take() {
            Some(staged) => staged,
            None => Staged::begin(self.folder).map_err(io::Error::other)?,
        };
        self.staged.insert(staged).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.staged.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl<T: Write> Write for Hashing<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
