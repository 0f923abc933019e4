//! Credentials, on a volume of their own, in memory.
//!
//! The reconciler copies what a HelmRelease's Secret holds into
//! `<credentials>/<id>/<key>`; the sidecar reads it there. The id is an HMAC
//! under a random key that lives on the same volume: a plain digest would show
//! which namespaces share a password, and let anybody who sees it try
//! passwords offline. A changed Secret has another id, so a rotation is a
//! changed request and needs no restart.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use thiserror::Error;

use crate::observe::{self, ObserveError};
use crate::publish::{self, Audience, PublishError};
use crate::source::CredentialRef;

/// Bytes of one secret value, at most (a Secret holds 1 MiB in all).
const VALUE_BYTES: u64 = 1024 * 1024;
/// The HMAC key's file. No id has this form, so it is never taken for a folder.
const KEY_FILE: &str = "id.key";

/// Why a credential isn't to be had.
#[derive(Debug, Error)]
pub enum CredentialError {
    /// There is no such folder (yet).
    #[error(
        "the credential {0} isn't on the credentials volume; the reconciler writes it there when it next looks at the Secret"
    )]
    Missing(String),
    /// An id or key that is no file name.
    #[error("`{0}` can't name a credential or a key of one")]
    Name(String),
    /// A file can't be written.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// A file can't be read.
    #[error(transparent)]
    Observe(#[from] ObserveError),
    /// The volume refuses.
    #[error("can't read {}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// The keys and values of one credential, as the Secret holds them.
pub type Values = BTreeMap<String, Vec<u8>>;

/// The writing side. One per reconciler.
pub struct Store {
    root: PathBuf,
    key: Vec<u8>,
}

impl Store {
    /// Opens the volume, making its key if it is new (or was emptied by a
    /// reboot of the node).
    ///
    /// # Errors
    /// If the volume can't be read or written.
    pub fn open(root: &Path) -> Result<Self, CredentialError> {
        publish::folder(root, Audience::Group)?;
        publish::sweep(root)?;
        let path = root.join(KEY_FILE);
        let key = match read(&path) {
            Err(CredentialError::Observe(ObserveError::Missing(_))) => {
                let key: [u8; 32] = rand::random();
                publish::bytes(&path, &key, Audience::Owner)?;
                key.to_vec()
            }
            other => other?,
        };
        Ok(Self {
            root: root.to_owned(),
            key,
        })
    }

    /// The id of a credential with this content. Any change gives another one.
    #[must_use]
    pub fn id(&self, secret: &CredentialRef, values: &Values) -> String {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.key) else {
            // HMAC takes keys of any length; the type can't say so.
            return String::new();
        };
        let mut part = |bytes: &[u8]| {
            mac.update(&(bytes.len() as u64).to_be_bytes());
            mac.update(bytes);
        };
        part(secret.namespace.as_bytes());
        part(secret.name.as_bytes());
        for (key, value) in values {
            part(key.as_bytes());
            part(value);
        }
        let mut id = data_encoding::HEXLOWER.encode(&mac.finalize().into_bytes());
        id.truncate(32);
        id
    }

    /// Writes a credential, and gives its id. Written once, it isn't touched again.
    ///
    /// # Errors
    /// If a key is no file name, or the volume refuses.
    pub fn put(&self, secret: &CredentialRef, values: &Values) -> Result<String, CredentialError> {
        let id = self.id(secret, values);
        let folder = self.root.join(&id);
        if folder.is_dir() {
            return Ok(id);
        }
        // Built aside and renamed: the sidecar never sees half a credential.
        let staged = self.root.join(format!("{}{id}", publish::TEMPORARY_PREFIX));
        publish::remove_folder(&staged)?;
        publish::folder(&staged, Audience::Group)?;
        for (key, value) in values {
            publish::bytes(&staged.join(file_name(key)?), value, Audience::Group)?;
        }
        publish::swap_folder(&staged, &folder)?;
        Ok(id)
    }

    /// Removes every credential that `keep` doesn't name.
    ///
    /// # Errors
    /// If the volume refuses.
    pub fn retain(&self, keep: impl Fn(&str) -> bool) -> Result<(), CredentialError> {
        let io = |source| CredentialError::Io {
            path: self.root.clone(),
            source,
        };
        for entry in fs::read_dir(&self.root).map_err(io)? {
            let entry = entry.map_err(io)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if is_id(&name) && !keep(&name) {
                publish::remove_folder(&entry.path())?;
            }
        }
        Ok(())
    }
}

/// Reads a credential. The reading side needs nothing but the volume.
///
/// # Errors
/// If the id is none, nothing is there, or it can't be read.
pub fn load(root: &Path, id: &str) -> Result<Values, CredentialError> {
    if !is_id(id) {
        return Err(CredentialError::Name(
            id.chars().filter(|c| !c.is_control()).take(80).collect(),
        ));
    }
    let folder = root.join(id);
    let io = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => CredentialError::Missing(id.to_owned()),
        _ => CredentialError::Io {
            path: folder.clone(),
            source,
        },
    };
    let mut values = Values::new();
    for entry in fs::read_dir(&folder).map_err(io)? {
        let entry = entry.map_err(io)?;
        values.insert(
            entry.file_name().to_string_lossy().into_owned(),
            read(&entry.path())?,
        );
    }
    Ok(values)
}

/// Where the file of one key of a credential lies, for a program that wants a
/// file (ssh and its identity).
///
/// # Errors
/// If id or key can't be a file name.
pub fn file(root: &Path, id: &str, key: &str) -> Result<PathBuf, CredentialError> {
    if is_id(id) {
        Ok(root.join(id).join(file_name(key)?))
    } else {
        Err(CredentialError::Name(id.to_owned()))
    }
}

fn is_id(text: &str) -> bool {
    text.len() == 32
        && text
            .bytes()
            .all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c))
}

/// A Secret's key may hold letters, digits, `-`, `_` and `.`; it is a file
/// name (`.dockerconfigjson`, too) unless it is one of the two folders, or
/// what a file is called before it is whole.
fn file_name(key: &str) -> Result<&str, CredentialError> {
    let sound = !key.is_empty()
        && key.len() <= 253
        && key != "."
        && !key.starts_with("..")
        && !key.starts_with(publish::TEMPORARY_PREFIX)
        && key
            .bytes()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.'));
    if sound {
        Ok(key)
    } else {
        Err(CredentialError::Name(
            key.chars().filter(|c| !c.is_control()).take(80).collect(),
        ))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, CredentialError> {
    let mut bytes = Vec::new();
    let read = observe::open(path)?
        .take(VALUE_BYTES)
        .read_to_end(&mut bytes);
    read.map_err(|source| CredentialError::Io {
        path: path.to_owned(),
        source,
    })?;
    Ok(bytes)
}
