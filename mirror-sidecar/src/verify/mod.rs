//! Whether what is to be signed is, and by whom. Pure: what was signed, the
//! signature and the keys go in; who signed, or what is wrong, comes out.
//!
//! No clock has a part in it: a key has to be good at the time at which it
//! signed, so that the same commit and keys give the same answer for ever.

mod keys;
mod openpgp;
mod ssh;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use thiserror::Error;

pub use keys::{Keys, KeysError};

/// Bytes of a commit or tag object, at most.
pub const OBJECT: usize = 1024 * 1024;
/// Bytes of a signature, at most. Real ones have a few hundred.
pub const SIGNATURE: usize = 64 * 1024;

/// Why nobody whose key is known vouches for something. Reads after its name: "the commit …".
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SignatureError {
    /// There is no signature.
    #[error("isn't signed")]
    None,
    /// It is one of another kind.
    #[error("is signed in a way that isn't verified here; sign with OpenPGP or an ssh key")]
    Foreign,
    /// There is one that can't be read.
    #[error("has a signature that can't be read: {0}")]
    Unreadable(String),
    /// The key isn't among ours.
    #[error("is signed by {0}, which is none of the keys")]
    Unknown(String),
    /// What was signed is something else.
    #[error("has a bad signature: {0} signed something else")]
    Bad(String),
    /// The signature is of no worth today.
    #[error("has a signature of {key} that proves too little: {why}")]
    Weak {
        /// Whose.
        key: String,
        /// Why.
        why: String,
    },
    /// The key was given up.
    #[error("is signed by {0}, which is revoked")]
    Revoked(String),
    /// The key wasn't good any more.
    #[error("is signed by {key}, which had expired by then ({at})")]
    Expired {
        /// Whose.
        key: String,
        /// Since when.
        at: String,
    },
    /// The key can't vouch for anything.
    #[error("is signed by {key}, which may not sign: {why}")]
    Unfit {
        /// Whose.
        key: String,
        /// Why.
        why: &'static str,
    },
}

/// Who of `keys` signed `payload` by `signature`: `openpgp <fingerprint>`, or
/// `ssh SHA256:<digest>`.
///
/// # Errors
/// If none of them did, or not in a way that counts.
pub fn verify(payload: &[u8], signature: &[u8], keys: &Keys) -> Result<String, SignatureError> {
    if signature.len() > SIGNATURE {
        let why = format!("it has more than {} KiB", SIGNATURE / 1024);
        return Err(SignatureError::Unreadable(why));
    }
    let text = std::str::from_utf8(signature)
        .map_err(|_| SignatureError::Unreadable("it isn't text".to_owned()))?
        .trim();
    match Armor::of(text.as_bytes()) {
        Some(Armor::OpenPgp) => openpgp::verify(payload, text, &keys.openpgp),
        Some(Armor::Ssh) => ssh::verify(payload, text, &keys.ssh),
        Some(Armor::Other) => Err(SignatureError::Foreign),
        None if text.is_empty() => Err(SignatureError::None),
        None => Err(SignatureError::Unreadable(
            "it begins with no line that says what it is".to_owned(),
        )),
    }
}

/// What a line says that a signature begins after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Armor {
    OpenPgp,
    Ssh,
    /// X.509, as `gpgsm` makes it.
    Other,
}

impl Armor {
    fn of(text: &[u8]) -> Option<Self> {
        let lines = [
            (&b"-----BEGIN PGP SIGNATURE-----"[..], Self::OpenPgp),
            (b"-----BEGIN PGP MESSAGE-----", Self::OpenPgp),
            (b"-----BEGIN SSH SIGNATURE-----", Self::Ssh),
            (b"-----BEGIN SIGNED MESSAGE-----", Self::Other),
        ];
        let found = lines.into_iter().find(|(line, _)| text.starts_with(line));
        found.map(|(_, armor)| armor)
    }
}

/// An annotated tag, as git stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagObject<'a> {
    /// What it calls itself.
    pub name: &'a [u8],
    /// What is signed.
    pub payload: &'a [u8],
    /// The signature at its end; empty if there is none.
    pub signature: &'a [u8],
}

impl<'a> TagObject<'a> {
    /// Takes a tag apart. Git appends the signature to the message, so that it begins with
    /// the last line that could begin one.
    #[must_use]
    pub fn read(raw: &'a [u8]) -> Self {
        let mut begins = raw.len();
        let mut at = 0;
        for line in raw.split_inclusive(|byte| *byte == b'\n') {
            if Armor::of(line).is_some() {
                begins = at;
            }
            at += line.len();
        }
        let header = raw.split(|byte| *byte == b'\n');
        let mut header = header.take_while(|line| !line.is_empty());
        let name = header.find_map(|line| line.strip_prefix(b"tag "));
        let (payload, signature) = raw.split_at(begins);
        Self {
            name: name.unwrap_or_default(),
            payload,
            signature,
        }
    }
}
