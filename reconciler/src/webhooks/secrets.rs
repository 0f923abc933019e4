//! The secrets that deliveries are signed with.

use std::io::Read;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretSlice};
use thiserror::Error;

/// Largest file that is read.
const MOST_BYTES: u64 = 64 * 1024;
/// Fewest characters of a secret: a stray line of the file must be nobody's key.
const FEWEST: usize = 8;
/// Most secrets in it.
const MOST: usize = 16;

/// Why there is no secret.
#[derive(Debug, Error)]
pub(super) enum SecretsError {
    /// None was asked for.
    #[error("no secret is set for webhooks; start the reconciler with --webhook-secret-file")]
    Unset,
    /// The file can't be read.
    #[error("the file of --webhook-secret-file, {}, can't be read: {why}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// There is nothing in it.
    #[error("there is no secret in the file of --webhook-secret-file; write one on a line")]
    Empty,
    /// There is too much in it.
    #[error(
        "there are more than {MOST} lines in the file of --webhook-secret-file; a line is a secret"
    )]
    TooMany,
    /// A line that is none.
    #[error(
        "line {0} of the file of --webhook-secret-file has less than {FEWEST} characters; a line is a secret, best one that `openssl rand -hex 32` made"
    )]
    Short(usize),
}

/// Secrets, any of which is good.
#[derive(Debug)]
pub(super) struct Secrets(Vec<SecretSlice<u8>>);

impl Secrets {
    /// Reads a file. It is read for every delivery: whatever it is changed to counts at once.
    ///
    /// # Errors
    /// If there is none in it.
    pub(super) fn load(path: Option<&Path>) -> Result<Self, SecretsError> {
        let path = path.ok_or(SecretsError::Unset)?;
        let unreadable = |why: String| SecretsError::Unreadable {
            path: path.to_owned(),
            why,
        };
        // Kubernetes mounts a Secret's keys as links.
        let file = std::fs::File::open(path).map_err(|error| unreadable(error.to_string()))?;
        let mut text = Vec::new();
        file.take(MOST_BYTES + 1)
            .read_to_end(&mut text)
            .map_err(|error| unreadable(error.to_string()))?;
        let text = SecretSlice::from(text);
        let text = text.expose_secret();
        if text.len() as u64 > MOST_BYTES {
            return Err(unreadable(format!("it is larger than {MOST_BYTES} bytes")));
        }
        Self::parse(text)
    }

    /// One secret on each line; more than one while a new one is brought in.
    ///
    /// # Errors
    /// If there is none, if there are too many, or if one is too short.
    pub(super) fn parse(text: &[u8]) -> Result<Self, SecretsError> {
        let lines = text.split(|byte| *byte == b'\n');
        let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let is_short = |line: &&[u8]| !line.is_empty() && line.len() < FEWEST;
        if let Some(at) = lines.clone().position(|line| is_short(&line)) {
            return Err(SecretsError::Short(at + 1));
        }
        let secrets: Vec<SecretSlice<u8>> = lines
            .filter(|line| !line.is_empty())
            .take(MOST + 1)
            .map(|line| SecretSlice::from(line.to_vec()))
            .collect();
        match secrets.len() {
            0 => Err(SecretsError::Empty),
            1..=MOST => Ok(Self(secrets)),
            _ => Err(SecretsError::TooMany),
        }
    }

    /// Each of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(ExposeSecret::expose_secret)
    }
}

#[cfg(test)]
mod tests {
    // A secret of a test is no file of the volume.
    #![allow(clippy::unwrap_used, clippy::disallowed_methods)]

    use super::*;

    #[test]
    fn a_line_is_a_secret() {
        for (text, expected) in [
            ("the one of May", vec!["the one of May"]),
            ("the one\t\n", vec!["the one\t"]),
            ("long one\r\n\n other 1 \n", vec!["long one", " other 1 "]),
        ] {
            let secrets = Secrets::parse(text.as_bytes()).unwrap();
            let expected: Vec<&[u8]> = expected.iter().map(|text| text.as_bytes()).collect();
            assert_eq!(secrets.iter().collect::<Vec<_>>(), expected, "{text:?}");
            assert!(!format!("{secrets:?}").contains("one"));
        }
        for (text, why) in [
            ("", "no secret"),
            ("\n\r\n", "no secret"),
            ("long enough\n}\n", "line 2 "),
        ] {
            let refused = Secrets::parse(text.as_bytes()).unwrap_err();
            assert!(refused.to_string().contains(why), "{refused}");
        }
        assert!(matches!(
            Secrets::parse("long enough\n".repeat(MOST + 1).as_bytes()),
            Err(SecretsError::TooMany)
        ));
    }

    #[test]
    fn the_file_is_read_anew_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let load = || Secrets::load(Some(&path));
        assert!(matches!(load(), Err(SecretsError::Unreadable { .. })));
        for secret in ["the first", "the second"] {
            std::fs::write(&path, secret).unwrap();
            assert_eq!(load().unwrap().iter().next(), Some(secret.as_bytes()));
        }
        std::fs::write(&path, "x".repeat(70_000)).unwrap();
        assert!(load().unwrap_err().to_string().contains("larger"));
        assert!(Secrets::load(Some(folder.path())).is_err());
        assert!(matches!(Secrets::load(None), Err(SecretsError::Unset)));
    }
}
