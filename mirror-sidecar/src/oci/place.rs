//! Which registry, repository and reference are meant. Pure functions.

use std::collections::BTreeSet;

use crate::address::{Address, Scheme};
use crate::range::{self, Range};
use crate::web;

use super::OciError;

/// Bytes of a repository's name, at most, as the distribution specification has it.
const NAME: usize = 255;

/// A registry, and the repositories in it below which a source's charts lie.
#[derive(Clone, Debug)]
pub struct Place {
    /// How it is reached, and who is said to ask: `https://host/path`.
    pub address: Address,
    /// The host and port, as they are written in the source's URL.
    pub host: String,
    /// `https://host:port`, where it really is.
    pub base: String,
    /// The first parts of the repositories' names; may be empty.
    pub path: String,
}

/// Reads `oci://host[:port][/path]`. Registries in `plain` are asked in the clear.
///
/// # Errors
/// Says why it isn't accepted, without what is secret in it.
pub fn parse(
    url: &str,
    allowed: &BTreeSet<Scheme>,
    plain: &BTreeSet<String>,
) -> Result<Place, OciError> {
    let shown = tandem_shared::source::redact_url(url);
    let malformed = |why| OciError::Url(shown.chars().filter(|c| !c.is_control()).collect(), why);
    let rest = url
        .get(..6)
        .filter(|scheme| scheme.eq_ignore_ascii_case("oci://"))
        .and_then(|_| url.get(6..))
        .ok_or_else(|| malformed("write oci://host/path"))?;
    if rest.contains(['?', '#']) {
        return Err(malformed(
            "it has a query or fragment, which no registry has",
        ));
    }
    let authority = rest.split('/').next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = host.to_ascii_lowercase();
    let scheme = if plain.contains(&host) {
        "http"
    } else {
        "https"
    };
    let address = web::parse(&format!("{scheme}://{rest}"), allowed)?;
    let path = rest[authority.len()..].trim_matches('/').to_owned();
    if !path.is_empty() && !is_name(&path) {
        return Err(malformed(NO_NAME));
    }
    let base = match host.as_str() {
        // The name under which everybody knows it serves web pages.
        "docker.io" | "index.docker.io" => "https://registry-1.docker.io".to_owned(),
        _ => address.origin.clone(),
    };
    Ok(Place {
        address,
        host,
        base,
        path,
    })
}

const NO_NAME: &str = "after the host there must be the name of a repository: small letters, digits, single `.`, `_` and `-` between them, and `/`";

impl Place {
    /// The repository of the chart `name`.
    ///
    /// # Errors
    /// If no repository can be called so.
    pub fn repository(&self, name: &str) -> Result<String, OciError> {
        let repository = match self.path.as_str() {
            "" => name.to_owned(),
            path => format!("{path}/{name}"),
        };
        if is_name(&repository) {
            Ok(repository)
        } else {
            Err(OciError::Name(
                name.chars().filter(|c| !c.is_control()).take(120).collect(),
            ))
        }
    }

    /// Whether the URL ends with the chart's name, so that it stands there twice.
    #[must_use]
    pub fn ends_with(&self, name: &str) -> bool {
        self.path.rsplit('/').next() == Some(name)
    }
}

/// Whether a repository may be called so: the grammar of the distribution specification.
fn is_name(text: &str) -> bool {
    text.len() <= NAME && text.split('/').all(is_part)
}

fn is_part(part: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let whole = part.starts_with(plain) && part.ends_with(plain);
    // Between two of the plain ones: `.`, `_`, `__`, or any number of dashes.
    let joints = part.split(plain).filter(|joint| !joint.is_empty());
    let sound =
        |joint: &str| matches!(joint, "." | "_" | "__") || joint.bytes().all(|byte| byte == b'-');
    whole && joints.into_iter().all(sound)
}

/// What `version` asks a repository for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// What a tag stands for now.
    Tag(String),
    /// One content, for ever; perhaps with the version that it should have.
    Digest {
        /// `sha256:<hex>`.
        digest: String,
        /// Its version.
        version: Option<String>,
    },
    /// The newest tag within a range.
    Range(String),
}

/// Reads a version: an exact one or any other tag, a range, a digest, or both a version
/// and a digest, with `@` between them. As with helm, what could be a version with parts
/// left out (`1.2`) is a tag.
///
/// # Errors
/// If it is none of them.
pub fn wish(version: &str) -> Result<Wish, OciError> {
    let version = version.trim();
    let unreadable = || {
        let shown = version.chars().filter(|c| !c.is_control()).take(120);
        OciError::Version(shown.collect())
    };
    if let Some((before, digest)) = version.split_once('@') {
        if !is_digest(digest) || !before.is_empty() && !is_exact(before) {
            return Err(unreadable());
        }
        return Ok(Wish::Digest {
            digest: digest.to_owned(),
            version: (!before.is_empty()).then(|| before.to_owned()),
        });
    }
    if is_digest(version) {
        return Ok(Wish::Digest {
            digest: version.to_owned(),
            version: None,
        });
    }
    if is_exact(version) {
        return Ok(Wish::Tag(tag_of(version)));
    }
    if Range::parse(version).is_ok() {
        return Ok(Wish::Range(version.to_owned()));
    }
    if is_tag(version) {
        return Ok(Wish::Tag(version.to_owned()));
    }
    Err(unreadable())
}

/// The tag under which helm pushes a version: no tag can have a `+` in it.
#[must_use]
pub fn tag_of(version: &str) -> String {
    version.replace('+', "_")
}

/// The version that a tag stands for, if it is one in full, as helm wants it.
#[must_use]
pub fn version_of(tag: &str) -> Option<semver::Version> {
    semver::Version::parse(&tag.replace('_', "+")).ok()
}

/// Whether it is a digest of the one kind that is taken.
#[must_use]
pub fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:").is_some_and(|hex| {
        let hex_digit = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        hex.len() == 64 && hex.bytes().all(hex_digit)
    })
}

/// One version, not a range, perhaps with parts left out.
fn is_exact(text: &str) -> bool {
    range::exact(text).is_some() && is_tag(&tag_of(text))
}

fn is_tag(text: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.len() <= 128
        && text.starts_with(word)
        && text.chars().all(|c| word(c) || c == '.' || c == '-')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parse_all(url: &str) -> Result<Place, OciError> {
        let plain = ["127.0.0.1:5000".to_owned(), "plain".to_owned()].into();
        parse(url, &[Scheme::Http, Scheme::Https].into(), &plain)
    }

    #[test]
    fn a_url_names_a_registry_and_a_place_in_it() {
        for (url, base, path) in [
            ("oci://h.test/charts", "https://h.test", "charts"),
            ("OCI://H.test:8443/a/b_c/", "https://h.test:8443", "a/b_c"),
            ("oci://h.test", "https://h.test", ""),
            ("oci://127.0.0.1:5000/c", "http://127.0.0.1:5000", "c"),
            ("oci://127.0.0.1:5001/c", "https://127.0.0.1:5001", "c"),
            ("oci://me:pw@Plain/c", "http://plain", "c"),
            ("oci://[::1]:5000/c", "https://[::1]:5000", "c"),
            (
                "oci://docker.io/bitnamicharts",
                "https://registry-1.docker.io",
                "bitnamicharts",
            ),
        ] {
            let place = parse_all(url).unwrap();
            assert_eq!((place.base.as_str(), place.path.as_str()), (base, path));
        }
        let place = parse_all("oci://me:pw@h.test/charts").unwrap();
        assert_eq!(place.host, "h.test");
        assert_eq!(place.address.userinfo.unwrap().0, "me");
        let only_plain = [Scheme::Http].into();
        assert!(parse("oci://h/c", &only_plain, &BTreeSet::new()).is_err());
        let only_secure = [Scheme::Https].into();
        assert!(parse("oci://h/c", &only_secure, &["h".to_owned()].into()).is_err());
    }

    #[test]
    fn what_no_registry_has_is_refused_and_shows_no_secret() {
        for bad in [
            "https://h/c",
            "oci:h/c",
            "oci://",
            "oci:///c",
            "oci://h/Charts",
            "oci://h/a//b",
            "oci://h/../b",
            "oci://h/a%2fb",
            "oci://h/a?x=secret",
            "oci://me:secret@h/a#b",
            "oci://me:secret@h/a b",
            "oci://me:secret@h/A",
            "oci://h\\c",
        ] {
            let error = parse_all(bad).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{bad}: {error}");
        }
    }

    #[test]
    fn a_repository_is_the_place_and_the_charts_name() {
        let place = parse_all("oci://h/a/charts").unwrap();
        assert_eq!(place.repository("web").unwrap(), "a/charts/web");
        assert!(place.ends_with("charts") && !place.ends_with("harts"));
        let root = parse_all("oci://h").unwrap();
        assert_eq!(root.repository("web-1.x__y").unwrap(), "web-1.x__y");
        for bad in [
            "", ".", "..", "Web", "a..b", "a___b", "-a", "a/", "a:b", "a@b", "é",
        ] {
            assert!(root.repository(bad).is_err(), "{bad}");
        }
        assert!(root.repository("a---b/c").is_ok());
        assert!(root.repository(&"a".repeat(256)).is_err());
    }

    #[test]
    fn a_version_is_a_tag_a_range_or_a_digest() {
        let tag = |text: &str| Wish::Tag(text.to_owned());
        let range = |text: &str| Wish::Range(text.to_owned());
        let hex = "a".repeat(64);
        for (version, expected) in [
            ("1.2.3", tag("1.2.3")),
            (" 1.2.3 ", tag("1.2.3")),
            ("1.2.3+b.1", tag("1.2.3_b.1")),
            ("v1.2.3-rc.1", tag("v1.2.3-rc.1")),
            ("1.2", tag("1.2")),
            ("latest", tag("latest")),
            ("main-0a1b", tag("main-0a1b")),
            ("^1.2", range("^1.2")),
            ("1.x", range("1.x")),
            ("*", range("*")),
            (">=1.0.0 <2.0.0", range(">=1.0.0 <2.0.0")),
            ("1.0 - 2.0", range("1.0 - 2.0")),
        ] {
            assert_eq!(wish(version).unwrap(), expected, "{version}");
        }
        let digest = format!("sha256:{hex}");
        for (text, version) in [
            (digest.clone(), None),
            (format!("@{digest}"), None),
            (format!("1.2.3@{digest}"), Some("1.2.3".to_owned())),
        ] {
            let digest = digest.clone();
            assert_eq!(wish(&text).unwrap(), Wish::Digest { digest, version });
        }
        for bad in [
            "a b",
            "-a",
            "sha256:abc",
            "latest@x",
            "^1@sha256:x",
            "a/b",
            "../x",
        ] {
            assert!(wish(bad).is_err(), "{bad}");
        }
        assert!(wish(&"a".repeat(129)).is_err());
    }

    #[test]
    fn versions_and_their_tags() {
        assert_eq!(tag_of("1.0.0+a"), "1.0.0_a");
        assert_eq!(version_of("1.0.0_a").unwrap().to_string(), "1.0.0+a");
        for other in ["1.0", "v1.0.0", "latest", "1.0.0+a+b"] {
            assert_eq!(version_of(other), None, "{other}");
        }
    }
}
