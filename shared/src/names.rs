//! How things from outside become file names.
//!
//! Nothing from outside (a URL, a ref, a path, an object name) is ever a file
//! name by itself. A source is `<slug>-<32 hex>`, readable in front and
//! unambiguous behind; an object is `<namespace>.<name>`, cut when it is long.

use sha2::{Digest, Sha256};

/// Bytes of the readable part of a source name, at most.
const SLUG_BYTES: usize = 64;
/// Bytes of an object name that are kept before a digest replaces the rest.
const OBJECT_BYTES: usize = 180;

/// Lower-case hex of the SHA-256 of `parts`, each preceded by its length, so
/// that no two lists of parts run together.
#[must_use]
pub fn sha256_hex(parts: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    data_encoding::HEXLOWER.encode(&hasher.finalize())
}

/// The first 32 hex characters (128 bits) of [`sha256_hex`].
#[must_use]
pub fn short_hex(parts: &[&[u8]]) -> String {
    let mut hex = sha256_hex(parts);
    hex.truncate(32);
    hex
}

/// A readable file-name part made of `text`: lower case letters, digits, dots
/// and single dashes, at most 64 bytes, never empty, never starting with a dot.
#[must_use]
pub fn slug(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        let c = c.to_ascii_lowercase();
        if c.is_ascii_alphanumeric() || (c == '.' && !out.is_empty() && !out.ends_with(['.', '-']))
        {
            out.push(c);
        } else if !out.is_empty() && !out.ends_with(['-', '.']) {
            out.push('-');
        }
        if out.len() >= SLUG_BYTES {
            break;
        }
    }
    let trimmed = out.trim_end_matches(['-', '.']);
    if trimmed.is_empty() {
        "source".to_owned()
    } else {
        trimmed.to_owned()
    }
}

/// The file-name stem of a namespaced object: `<namespace>.<name>`.
///
/// A namespace holds no dot, so the first dot always ends it and two objects
/// never share a stem. A stem over 180 bytes keeps its beginning and ends with
/// 32 hex characters of its digest (the API takes names of 253 characters, a
/// file system 255 bytes with suffix).
#[must_use]
pub fn object_name(namespace: &str, name: &str) -> String {
    let whole = format!("{namespace}.{name}");
    if whole.len() <= OBJECT_BYTES {
        return whole;
    }
    let mut cut = OBJECT_BYTES;
    while !whole.is_char_boundary(cut) {
        cut -= 1;
    }
    format!(
        "{}-{}",
        &whole[..cut],
        short_hex(&[namespace.as_bytes(), name.as_bytes()])
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_readable_and_safe() {
        assert_eq!(slug("github.com/Org/Re_po.git"), "github.com-org-re-po.git");
        assert_eq!(slug("../../etc/passwd"), "etc-passwd");
        assert_eq!(slug("…"), "source");
        assert!(slug(&"a/".repeat(100)).len() <= SLUG_BYTES);
    }

    #[test]
    fn parts_do_not_run_together() {
        assert_ne!(sha256_hex(&[b"a-b", b"c"]), sha256_hex(&[b"a", b"b-c"]));
    }

    #[test]
    fn long_objects_are_cut_and_stay_apart() {
        let a = object_name("demo", &"a".repeat(250));
        let b = object_name("demo", &format!("{}b", "a".repeat(249)));
        assert_ne!(a, b);
        assert!(a.len() <= 220, "{}", a.len());
        assert_eq!(object_name("demo", "web"), "demo.web");
        assert_ne!(
            object_name("a", "b.c"),
            object_name("a.b", "c").replace("a.b", "a-b")
        );
    }
}
