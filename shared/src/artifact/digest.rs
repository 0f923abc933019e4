//! The name of an artifact.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The version of the packing rules that this build writes.
const RULES: &str = "t1";

/// `t1:<64 hex>`: packing rules and SHA-256 of an artifact's bytes.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String", transform = pattern)]
pub struct Digest {
    rules: String,
    hex: String,
}

fn pattern(schema: &mut schemars::Schema) {
    schema.insert("pattern".to_owned(), "^t[0-9]{1,4}:[0-9a-f]{64}$".into());
}

/// A text that is no digest.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is no artifact digest; one looks like t1:<64 lower-case hex digits>")]
pub struct DigestError(String);

impl Digest {
    /// The digest of an artifact whose bytes hash to `sha256`.
    pub(crate) fn of(sha256: &[u8]) -> Self {
        Self {
            rules: RULES.to_owned(),
            hex: data_encoding::HEXLOWER.encode(sha256),
        }
    }

    /// The SHA-256 in hex.
    #[must_use]
    pub fn hex(&self) -> &str {
        &self.hex
    }

    /// `t1-<hex>.tar`.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("{}-{}.tar", self.rules, self.hex)
    }

    /// Reads a digest back from an artifact's file name.
    #[must_use]
    pub fn from_file_name(name: &str) -> Option<Self> {
        name.strip_suffix(".tar")?
            .replacen('-', ":", 1)
            .parse()
            .ok()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.rules, self.hex)
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let error = || DigestError(text.chars().filter(|c| !c.is_control()).take(80).collect());
        let (rules, hex) = text.split_once(':').ok_or_else(error)?;
        let number = rules.strip_prefix('t').ok_or_else(error)?;
        let sound = (1..=4).contains(&number.len())
            && number.bytes().all(|c| c.is_ascii_digit())
            && hex.len() == 64
            && hex
                .bytes()
                .all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c));
        if !sound {
            return Err(error());
        }
        Ok(Self {
            rules: rules.to_owned(),
            hex: hex.to_owned(),
        })
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Self, DigestError> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}
