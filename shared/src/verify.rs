//! What has to be signed, and which parts of a Secret are keys to check that by.
//!
//! The keys travel over the credentials volume, as credentials do, so that a
//! changed Secret is another id. They are public; nothing else of the Secret
//! goes with them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::credentials::Values;
use crate::source::CredentialRef;

/// What has to be signed at a want's ref, and by whose keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verify {
    /// What has to be signed.
    #[serde(default)]
    pub mode: VerifyMode,
    /// The Secret that the keys come from. Part of the want's identity: one
    /// namespace's keys never vouch for another's wants.
    pub keys: CredentialRef,
}

/// What has to be signed.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum VerifyMode {
    /// The commit that the ref stands for.
    #[default]
    #[serde(rename = "HEAD")]
    Head,
    /// The annotated tag that the ref is.
    Tag,
    /// Both.
    #[serde(rename = "TagAndHEAD")]
    TagAndHead,
    /// A mode of a later version: that want alone fails, in words.
    #[serde(untagged)]
    Other(String),
}

impl VerifyMode {
    /// The word that stands in the files.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Head => "HEAD",
            Self::Tag => "Tag",
            Self::TagAndHead => "TagAndHEAD",
            Self::Other(word) => word,
        }
    }

    /// Whether the tag has to be signed.
    #[must_use]
    pub fn tag(&self) -> bool {
        matches!(self, Self::Tag | Self::TagAndHead)
    }

    /// Whether the commit has to be signed.
    #[must_use]
    pub fn commit(&self) -> bool {
        matches!(self, Self::Head | Self::TagAndHead)
    }
}

/// Who signed, as far as that was looked at. Each is `openpgp <fingerprint>`, of the primary
/// key, or `ssh SHA256:<digest>`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verified {
    /// The commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

impl Verified {
    /// Whether this is all that `mode` asks for. Nothing is enough for a mode that this
    /// version doesn't know.
    #[must_use]
    pub fn satisfies(&self, mode: &VerifyMode) -> bool {
        let known = mode.tag() || mode.commit();
        known && (!mode.tag() || self.tag.is_some()) && (!mode.commit() || self.commit.is_some())
    }
}

impl std::fmt::Display for Verified {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.commit, &self.tag) {
            (Some(commit), Some(tag)) if commit == tag => f.write_str(commit),
            (Some(commit), Some(tag)) => write!(f, "{commit} (the commit), {tag} (the tag)"),
            (Some(one), None) | (None, Some(one)) => f.write_str(one),
            (None, None) => f.write_str("nobody"),
        }
    }
}

/// What a key of a Secret holds, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFormat {
    /// Armored OpenPGP public keys (`*.asc`).
    OpenPgp,
    /// OpenSSH public keys, one a line (`*.pub`, `*.sshpub`).
    Ssh,
}

impl KeyFormat {
    /// What the value under `name` is taken for, if for anything.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        match name.rsplit_once('.')?.1 {
            "asc" => Some(Self::OpenPgp),
            "pub" | "sshpub" => Some(Self::Ssh),
            _ => None,
        }
    }
}

/// Why a Secret has no keys to check signatures by.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeysError {
    /// A private key.
    #[error(
        "`{0}` holds a private key, which is used for nothing here and isn't passed on: replace it by the public one, and consider it known to whoever may read the Secret"
    )]
    Private(String),
    /// No value is named as one of keys.
    #[error(
        "it holds no public keys: `*.asc` for armored OpenPGP keys (gpg --export --armor), `*.pub` or `*.sshpub` for OpenSSH ones"
    )]
    None,
}

/// The values of a Secret that are public keys; all others are left out.
///
/// # Errors
/// If there are none, or one of them is a private key.
pub fn public_keys(values: Values) -> Result<Values, KeysError> {
    let keys: Values = values
        .into_iter()
        .filter(|(name, _)| KeyFormat::of(name).is_some())
        .collect();
    if let Some((name, _)) = keys.iter().find(|(_, value)| is_private(value)) {
        return Err(KeysError::Private(name.clone()));
    }
    if keys.is_empty() {
        return Err(KeysError::None);
    }
    Ok(keys)
}

/// Every form of a private key that people have at hand says so in a line of its own.
fn is_private(value: &[u8]) -> bool {
    let text = String::from_utf8_lossy(value).to_ascii_uppercase();
    text.contains("PRIVATE KEY") || text.contains("PUTTY-USER-KEY-FILE")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn values(all: &[(&str, &str)]) -> Values {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), value.as_bytes().to_vec());
        all.iter().map(owned).collect()
    }

    #[test]
    fn only_public_keys_go_on() {
        let secret = values(&[
            ("ada.asc", "-----BEGIN PGP PUBLIC KEY BLOCK-----"),
            ("bob.pub", "ssh-ed25519 AAAA bob"),
            ("eve.sshpub", "ssh-ed25519 AAAA eve"),
            ("identity", "-----BEGIN OPENSSH PRIVATE KEY-----"),
            ("password", "s3cret"),
        ]);
        let keys = public_keys(secret).unwrap();
        let names: Vec<&str> = keys.keys().map(String::as_str).collect();
        assert_eq!(names, ["ada.asc", "bob.pub", "eve.sshpub"]);
        let none = public_keys(values(&[("asc", "x"), ("password", "s3cret")]));
        assert_eq!(none, Err(KeysError::None));
    }

    #[test]
    fn a_private_key_is_refused_by_name() {
        for private in [
            "-----BEGIN PGP PRIVATE KEY BLOCK-----\n",
            "ssh-ed25519 AAAA x\n-----BEGIN OPENSSH PRIVATE KEY-----\n",
            "-----BEGIN RSA PRIVATE KEY-----\n",
            "PuTTY-User-Key-File-3: ssh-ed25519\n",
        ] {
            let secret = values(&[("ada.pub", "ssh-ed25519 AAAA"), ("bob.asc", private)]);
            let error = public_keys(secret).unwrap_err();
            assert_eq!(error, KeysError::Private("bob.asc".into()), "{private}");
            assert!(!error.to_string().contains("BEGIN"));
        }
    }

    #[test]
    fn modes_read_as_they_are_written_and_unknown_ones_are_kept() {
        for (mode, word) in [
            (VerifyMode::Head, "HEAD"),
            (VerifyMode::Tag, "Tag"),
            (VerifyMode::TagAndHead, "TagAndHEAD"),
            (VerifyMode::Other("Later".into()), "Later"),
        ] {
            let text = serde_json::to_string(&mode).unwrap();
            assert_eq!(text, format!("\"{word}\""));
            assert_eq!(mode.as_str(), word);
            assert_eq!(serde_json::from_str::<VerifyMode>(&text).unwrap(), mode);
        }
    }

    #[test]
    fn what_was_not_looked_at_satisfies_nobody() {
        let signed = |commit: bool, tag: bool| Verified {
            commit: commit.then(|| "c".to_owned()),
            tag: tag.then(|| "t".to_owned()),
        };
        let table = [
            (VerifyMode::Head, [false, true, false, true]),
            (VerifyMode::Tag, [false, false, true, true]),
            (VerifyMode::TagAndHead, [false, false, false, true]),
            (VerifyMode::Other("Later".into()), [false; 4]),
        ];
        let all = [(false, false), (true, false), (false, true), (true, true)];
        for (mode, expected) in table {
            let found = all.map(|(commit, tag)| signed(commit, tag).satisfies(&mode));
            assert_eq!(found, expected, "{mode:?}");
        }
    }
}
