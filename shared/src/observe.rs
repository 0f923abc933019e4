//! How a file of the other role is read: bounded, whole, of a known version,
//! and about what its name says. Nothing on the volume is believed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::layout;
use crate::manifest::Manifest;
use crate::request::Request;
use crate::source::{Source, SourceName};
use crate::version::{self, Document, VersionError};

/// Bytes of a JSON file, at most. 16 MiB hold some 20,000 wants.
const DOCUMENT_BYTES: u64 = 16 * 1024 * 1024;

/// Why a file isn't read.
#[derive(Debug, Error)]
pub enum ObserveError {
    /// There is none.
    #[error("{} doesn't exist", .0.display())]
    Missing(PathBuf),
    /// The system refuses.
    #[error("can't read {}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It is no regular file: a link, a pipe, a folder.
    #[error("{} is no regular file (links are never followed on the volume); remove it", .0.display())]
    NotAFile(PathBuf),
    /// It is too large to be ours.
    #[error("{} has {size} bytes, more than the {DOCUMENT_BYTES} that are read; remove it or split what it asks for", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
    },
    /// It isn't the JSON that belongs there.
    #[error("{} isn't valid: {source}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Where in the text, and why.
        source: serde_json::Error,
    },
    /// It is of another version.
    #[error("{} isn't read: {source}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Which one was found.
        source: VersionError,
    },
    /// It speaks of another source than its name says.
    #[error("{} speaks of the source {found}, its name says {expected}; remove it or rename it", path.display())]
    OtherSource {
        /// The file.
        path: PathBuf,
        /// What its content amounts to.
        found: String,
        /// What its name says.
        expected: String,
    },
}

/// A file that was read: its content, and the digest of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed<T> {
    /// What it says.
    pub document: T,
    /// SHA-256 of its bytes, in hex.
    pub digest: String,
}

#[derive(Deserialize)]
struct Header {
    schema: String,
}

/// Opens a regular file for reading. Never follows a link and never waits for
/// a pipe's other end.
///
/// # Errors
/// If it isn't there, isn't a regular file, or can't be read.
pub fn open(path: &Path) -> Result<File, ObserveError> {
    let flags =
        rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC;
    let io = |source| ObserveError::Io {
        path: path.to_owned(),
        source,
    };
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .map_err(|error| match rustix::io::Errno::from_io_error(&error) {
            Some(rustix::io::Errno::NOENT) => ObserveError::Missing(path.to_owned()),
            Some(rustix::io::Errno::LOOP) => ObserveError::NotAFile(path.to_owned()),
            _ => io(error),
        })?;
    if file.metadata().map_err(io)?.is_file() {
        Ok(file)
    } else {
        Err(ObserveError::NotAFile(path.to_owned()))
    }
}

/// Reads one document.
///
/// # Errors
/// Says which file, and why not.
pub fn load<T: Document + DeserializeOwned>(path: &Path) -> Result<Observed<T>, ObserveError> {
    let file = open(path)?;
    let mut bytes = Vec::new();
    let read = file.take(DOCUMENT_BYTES + 1).read_to_end(&mut bytes);
    let size = read.map_err(|source| ObserveError::Io {
        path: path.to_owned(),
        source,
    })? as u64;
    if size > DOCUMENT_BYTES {
        return Err(ObserveError::TooLarge {
            path: path.to_owned(),
            size,
        });
    }
    let invalid = |source| ObserveError::Invalid {
        path: path.to_owned(),
        source,
    };
    // The version first: a later one need not have the shape that we know.
    let header: Header = serde_json::from_slice(&bytes).map_err(invalid)?;
    version::check::<T>(&header.schema).map_err(|source| ObserveError::Version {
        path: path.to_owned(),
        source,
    })?;
    let document = serde_json::from_slice(&bytes).map_err(invalid)?;
    Ok(Observed {
        document,
        digest: data_encoding::HEXLOWER.encode(&<sha2::Sha256 as sha2::Digest>::digest(&bytes)),
    })
}

/// Reads the request that is named after `name`, and makes sure that it speaks
/// of that source.
///
/// # Errors
/// As [`load`], and for another source.
pub fn request(path: &Path, name: &SourceName) -> Result<Observed<Request>, ObserveError> {
    let observed: Observed<Request> = load(path)?;
    expect(path, name, observed.document.source.name().as_str())?;
    Ok(observed)
}

/// Reads the manifest of `source`, and makes sure that it speaks of it.
///
/// # Errors
/// As [`load`], and for another source.
pub fn manifest(path: &Path, source: &Source) -> Result<Observed<Manifest>, ObserveError> {
    let observed: Observed<Manifest> = load(path)?;
    expect(path, &source.name(), &observed.document.name)?;
    if observed.document.source == source.redacted() {
        return Ok(observed);
    }
    let found = format!(
        "{} {}",
        observed.document.source.kind.as_str(),
        observed.document.source.url
    );
    Err(ObserveError::OtherSource {
        path: path.to_owned(),
        found,
        expected: source.redacted().url,
    })
}

fn expect(path: &Path, expected: &SourceName, found: &str) -> Result<(), ObserveError> {
    if found == expected.as_str() {
        return Ok(());
    }
    let found = found
        .chars()
        .filter(|c| !c.is_control())
        .take(120)
        .collect();
    Err(ObserveError::OtherSource {
        path: path.to_owned(),
        found,
        expected: expected.to_string(),
    })
}

/// What lies in a folder of requests or manifests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The sources that have a file there, sorted.
    pub sources: Vec<SourceName>,
    /// JSON files whose names are none of a source: somebody's, to be told about.
    pub strays: Vec<PathBuf>,
}

/// Lists a folder of requests or manifests.
///
/// # Errors
/// If the folder can't be listed.
pub fn list(folder: &Path) -> Result<Listing, ObserveError> {
    let io = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => ObserveError::Missing(folder.to_owned()),
        _ => ObserveError::Io {
            path: folder.to_owned(),
            source,
        },
    };
    let mut listing = Listing::default();
    for entry in fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        match layout::source_of(&path) {
            Some(name) => listing.sources.push(name),
            None if path
                .extension()
                .is_some_and(|extension| extension == "json") =>
            {
                listing.strays.push(path)
            }
            None => {}
        }
    }
    listing.sources.sort();
    listing.strays.sort();
    Ok(listing)
}
