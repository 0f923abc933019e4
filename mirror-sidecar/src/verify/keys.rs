//! The public keys of a Secret, read.

use pgp::composed::SignedPublicKey;
use ssh_key::PublicKey;
use tandem_shared::credentials::Values;
use tandem_shared::verify::{KeyFormat, public_keys};
use thiserror::Error;

use super::{openpgp, ssh};

/// Keys of one set, at most.
pub(super) const KEYS: usize = 1000;

/// What is wrong with a set of keys. Reads after the name of its Secret.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeysError {
    /// It isn't one.
    #[error(transparent)]
    Secret(#[from] tandem_shared::verify::KeysError),
    /// One of its values isn't what its name says.
    #[error("`{name}` can't be read as {what}: {why}")]
    Value {
        /// The key of the Secret.
        name: String,
        /// What it should hold.
        what: &'static str,
        /// What is wrong.
        why: String,
    },
}

/// Keys that may vouch for something.
#[derive(Debug, Default)]
pub struct Keys {
    pub(super) openpgp: Vec<SignedPublicKey>,
    pub(super) ssh: Vec<PublicKey>,
}

impl Keys {
    /// Reads all of them.
    ///
    /// # Errors
    /// Names the value that can't be read: who forgets one key out of many would be told
    /// that a good signature is somebody else's.
    pub fn read(values: Values) -> Result<Self, KeysError> {
        let mut keys = Self::default();
        for (name, value) in public_keys(values)? {
            let (what, read) = match KeyFormat::of(&name) {
                Some(KeyFormat::OpenPgp) => {
                    let read = openpgp::read(&value);
                    let what = "armored OpenPGP public keys (gpg --export --armor)";
                    (what, read.map(|read| keys.openpgp.extend(read)))
                }
                Some(KeyFormat::Ssh) => {
                    let read = ssh::read(&value);
                    let what = "OpenSSH public keys, one a line (`ssh-ed25519 AAAA… name`)";
                    (what, read.map(|read| keys.ssh.extend(read)))
                }
                None => continue,
            };
            read.map_err(|why| KeysError::Value { name, what, why })?;
        }
        Ok(keys)
    }
}
