//! Version rules of the contract.
//!
//! Every file names its schema, `tandem.<kind>/v<major>`. Within a major
//! version files only gain optional fields, and readers read over what they
//! don't know. Another major version is refused, in words, and never
//! overwritten or removed by the reader.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The major version that this build writes and reads.
pub const MAJOR: u32 = 1;

/// A file of the contract.
pub trait Document {
    /// What the file is: `request`, `manifest`, `release`, `contract`.
    const KIND: &'static str;

    /// The schema that the file itself names.
    fn schema(&self) -> &str;

    /// The schema that this build writes.
    #[must_use]
    fn current_schema() -> String {
        format!("tandem.{}/v{MAJOR}", Self::KIND)
    }
}

/// Why a file isn't read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum VersionError {
    /// The schema is of another kind of file, or no schema of ours.
    #[error(
        "its schema is `{found}`, where `{expected}` belongs; remove the file if it is a stray one"
    )]
    Foreign {
        /// What the file says.
        found: String,
        /// What belongs there.
        expected: String,
    },
    /// The schema is ours, of a major version that this build doesn't know.
    #[error(
        "its schema is `{found}`, this build reads `{expected}` only; run both containers at versions that share a contract"
    )]
    Unknown {
        /// What the file says.
        found: String,
        /// What this build reads.
        expected: String,
    },
}

/// Whether a file that names `schema` may be read as a `T`.
///
/// # Errors
/// Says which schema was found and which is read.
pub fn check<T: Document>(schema: &str) -> Result<(), VersionError> {
    let expected = T::current_schema();
    if schema == expected {
        return Ok(());
    }
    let found = schema
        .chars()
        .filter(|c| !c.is_control())
        .take(80)
        .collect();
    let ours = schema
        .strip_prefix("tandem.")
        .and_then(|rest| rest.strip_prefix(T::KIND))
        .and_then(|rest| rest.strip_prefix("/v"))
        .is_some_and(|major| !major.is_empty() && major.bytes().all(|c| c.is_ascii_digit()));
    Err(if ours {
        VersionError::Unknown { found, expected }
    } else {
        VersionError::Foreign { found, expected }
    })
}

/// `contract.json` of a mount: who writes there, and in which version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Contract {
    /// `tandem.contract/v1`.
    pub schema: String,
    /// The program that writes this mount: `reconciler` or `mirror-sidecar`.
    pub writer: String,
    /// Its version.
    pub version: String,
    /// When it last started.
    pub started_at: Timestamp,
}

impl Document for Contract {
    const KIND: &'static str = "contract";

    fn schema(&self) -> &str {
        &self.schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_major_is_refused_in_words() {
        assert_eq!(check::<Contract>("tandem.contract/v1"), Ok(()));
        let error = check::<Contract>("tandem.contract/v2").unwrap_err();
        assert!(matches!(error, VersionError::Unknown { .. }));
        assert!(
            error.to_string().contains("`tandem.contract/v2`"),
            "{error}"
        );
        for foreign in [
            "",
            "tandem.manifest/v1",
            "tandem.contract/vx",
            "tandem.contract/v",
            "tandem.contractor/v1",
        ] {
            assert!(
                matches!(
                    check::<Contract>(foreign),
                    Err(VersionError::Foreign { .. })
                ),
                "{foreign}"
            );
        }
    }
}
