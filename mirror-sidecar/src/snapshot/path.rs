//! Paths as people write them, and paths within a repository.

use thiserror::Error;

/// A path that can't be one within a repository.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PathError {
    /// It leads out of the repository.
    #[error("the path {0:?} leads out of the repository")]
    Outside(String),
    /// Empty, too long, or with characters that no path has.
    #[error("the path {0:?} is none: {1}")]
    Malformed(String, &'static str),
}

/// The parts of a path from the root of a repository. `.`, `/`, `./x`, `/x`
/// and `x/` all mean what one would think; no parts at all is the root.
///
/// # Errors
/// If it leads out of the repository or can't be a path.
pub(super) fn parts(path: &str) -> Result<Vec<String>, PathError> {
    let shown = || {
        path.chars()
            .filter(|c| !c.is_control())
            .take(200)
            .collect::<String>()
    };
    if path.is_empty() {
        return Err(PathError::Malformed(
            shown(),
            "it is empty; write `.` for the root",
        ));
    }
    if path.len() > 1024 {
        return Err(PathError::Malformed(
            shown(),
            "it is longer than 1,024 bytes",
        ));
    }
    if path.chars().any(char::is_control) {
        return Err(PathError::Malformed(shown(), "it holds control characters"));
    }
    let mut parts: Vec<String> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.pop().is_none() {
                    return Err(PathError::Outside(shown()));
                }
            }
            other => parts.push(other.to_owned()),
        }
    }
    Ok(parts)
}

/// Parts as people write them.
#[must_use]
pub(super) fn shown(parts: &[String]) -> String {
    if parts.is_empty() {
        ".".to_owned()
    } else {
        parts.join("/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_path_is_that_path() {
        for (path, expected) in [
            (".", "."),
            ("/", "."),
            ("./", "."),
            ("charts/app", "charts/app"),
            ("/charts/app/", "charts/app"),
            ("./charts//app/.", "charts/app"),
            ("charts/../app", "app"),
            ("a b/ü", "a b/ü"),
        ] {
            assert_eq!(shown(&parts(path).unwrap()), expected, "{path}");
        }
    }

    #[test]
    fn what_leads_out_is_refused() {
        for path in ["..", "../x", "a/../../x", "/.."] {
            assert!(matches!(parts(path), Err(PathError::Outside(_))), "{path}");
        }
        for path in ["", "a\nb", &"x".repeat(2000)] {
            assert!(
                matches!(parts(path), Err(PathError::Malformed(..))),
                "{path}"
            );
        }
    }
}
