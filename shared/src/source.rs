//! A chart source: what is mirrored, and with whose credential.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names;

/// What kind of place a source is. A value that this version doesn't know is
/// kept as it is, so that one strange file never stops the others.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// A git repository, over `file://`, `http(s)://`, `ssh://` or `host:path`.
    Git,
    /// A Helm repository with an `index.yaml`.
    Helm,
    /// An OCI registry.
    Oci,
    /// One file behind an `http://` or `https://` URL.
    Http,
    /// A kind of a later version.
    #[serde(untagged)]
    Other(String),
}

impl SourceKind {
    /// The word that stands in the files.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Git => "git",
            Self::Helm => "helm",
            Self::Oci => "oci",
            Self::Http => "http",
            Self::Other(word) => word,
        }
    }
}

/// The Kubernetes Secret that a source's credential comes from. Part of the
/// source's identity: two Secrets never share a mirror.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct CredentialRef {
    /// Namespace of the Secret.
    pub namespace: String,
    /// Name of the Secret.
    pub name: String,
}

/// One chart source. Its identity is kind, exact URL (never lower-cased: paths
/// are case-sensitive) and credential reference.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// What kind of place it is.
    pub kind: SourceKind,
    /// The address, without any password. Of a file behind a URL its query
    /// belongs to it, and may be a token: it stands here and nowhere else.
    pub url: String,
    /// Whose credential is used; absent for anonymous or operator-wide access.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<CredentialRef>,
}

/// The name of a source on the volume: `<slug>-<32 hex>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceName(String);

impl SourceName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads a name back from a file's stem. `None` if it can't be one; a
    /// name that parses says nothing about what is inside the file.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (slug, hex) = text.rsplit_once('-')?;
        let safe = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-' || c == b'.';
        let sound = !slug.is_empty()
            && !slug.starts_with('.')
            && slug.bytes().all(safe)
            && hex.len() == 32
            && hex
                .bytes()
                .all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c));
        sound.then(|| Self(text.to_owned()))
    }
}

impl std::fmt::Display for SourceName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Source {
    /// The name under which this source's files lie.
    #[must_use]
    pub fn name(&self) -> SourceName {
        let (namespace, name) = self
            .credential
            .as_ref()
            .map_or(("", ""), |c| (c.namespace.as_str(), c.name.as_str()));
        let hex = names::short_hex(&[
            self.kind.as_str().as_bytes(),
            self.url.as_bytes(),
            namespace.as_bytes(),
            name.as_bytes(),
        ]);
        let redacted = redact_url(&self.url);
        let readable = redacted
            .split_once("://")
            .map_or(redacted.as_str(), |(_, rest)| rest);
        SourceName(format!("{}-{hex}", names::slug(readable)))
    }

    /// This source as it may be shown: user name and password cut out of the URL.
    #[must_use]
    pub fn redacted(&self) -> Self {
        Self {
            url: redact_url(&self.url),
            ..self.clone()
        }
    }
}

/// `url` without user name, password, query and fragment: what may stand in a
/// manifest, a log, an event or an error. The user of an `ssh://` address or
/// of `user@host:path` stays: it is a login name and no secret.
#[must_use]
pub fn redact_url(url: &str) -> String {
    // Readers of web addresses forgive any number of slashes, in either direction.
    let web = ["http", "https"].into_iter().find_map(|scheme| {
        let head = url.get(..scheme.len())?;
        let rest = url[scheme.len()..].strip_prefix(':')?;
        let sloppy = head.eq_ignore_ascii_case(scheme);
        sloppy.then(|| (head, rest.trim_start_matches(['/', '\\'])))
    });
    let Some((scheme, rest)) = web.or_else(|| url.split_once("://")) else {
        // `user:password@host:path` is none of git's forms, but people write it.
        return match url.split_once('@') {
            Some((login, host)) if login.contains(':') && !login.contains('/') => {
                let user = login.split(':').next().unwrap_or_default();
                format!("{user}@{host}")
            }
            _ => url.to_owned(),
        };
    };
    let (authority, path) = rest
        .find(['/', '\\', '?', '#'])
        .map_or((rest, ""), |at| rest.split_at(at));
    // A password with a slash that nobody encoded: what stands before it is no host and port.
    let port = authority.split_once(':').map(|(_, port)| port);
    let port = port.filter(|_| !authority.contains(['@', '[']));
    let is_port = |port: &str| port.bytes().all(|c| c.is_ascii_digit());
    let (authority, path) = match rest.rfind('@') {
        Some(at) if at > authority.len() && port.is_some_and(|port| !is_port(port)) => {
            let rest = &rest[at + 1..];
            rest.find('/').map_or((rest, ""), |at| rest.split_at(at))
        }
        _ => (authority, path),
    };
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let authority = match authority.rsplit_once('@') {
        None => authority.to_owned(),
        Some((user, host)) if scheme.eq_ignore_ascii_case("ssh") => {
            format!("{}@{host}", user.split(':').next().unwrap_or_default())
        }
        Some((_, host)) => host.to_owned(),
    };
    format!("{scheme}://{authority}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(url: &str) -> Source {
        Source {
            kind: SourceKind::Git,
            url: url.to_owned(),
            credential: None,
        }
    }

    #[test]
    fn urls_lose_what_is_secret() {
        assert_eq!(redact_url("https://u:p@h/x.git?t=1#f"), "https://h/x.git");
        assert_eq!(redact_url("https://u:p%40@h:1/x"), "https://h:1/x");
        assert_eq!(redact_url("ssh://git:pw@h/x"), "ssh://git@h/x");
        assert_eq!(redact_url("git@h:x.git"), "git@h:x.git");
        assert_eq!(redact_url("git:pw@h:x.git"), "git@h:x.git");
        assert_eq!(redact_url("h:x/a:b@c.git"), "h:x/a:b@c.git");
        assert_eq!(redact_url("https://h"), "https://h");
        assert_eq!(redact_url("https://me:pa/ss@h/v"), "https://h/v");
        assert_eq!(redact_url("https://me:pa?ss@h/v"), "https://h/v");
        assert_eq!(redact_url("https://h/@group/x"), "https://h/@group/x");
        assert_eq!(
            redact_url("https://h:8443/@group/x"),
            "https://h:8443/@group/x"
        );
        assert_eq!(redact_url("https://u:p@h/@group/x"), "https://h/@group/x");
        assert_eq!(redact_url("https://[::1]:1/@x"), "https://[::1]:1/@x");
        for sloppy in ["https:", "https:/", "https:///", "https:\\\\"] {
            assert_eq!(redact_url(&format!("{sloppy}u:p@h/x?t")), "https://h/x");
        }
        assert_eq!(redact_url("https://u:p@h\\x@y?t"), "https://h\\x@y");
        assert_eq!(redact_url("file:///srv/r.git"), "file:///srv/r.git");
        assert_eq!(redact_url("https://u:p@h?secret"), "https://h");
    }

    #[test]
    fn identity_is_kind_url_and_credential() {
        let plain = git("https://h/Repo.git");
        let other_case = git("https://h/repo.git");
        let mut with = plain.clone();
        with.credential = Some(CredentialRef {
            namespace: "a".into(),
            name: "b-c".into(),
        });
        let mut with_other = plain.clone();
        with_other.credential = Some(CredentialRef {
            namespace: "a-b".into(),
            name: "c".into(),
        });
        let all = [&plain, &other_case, &with, &with_other].map(Source::name);
        for (i, a) in all.iter().enumerate() {
            assert!(a.as_str().starts_with("h-repo.git-"), "{a}");
            assert_eq!(SourceName::parse(a.as_str()).as_ref(), Some(a));
            assert!(all[..i].iter().all(|b| a != b));
        }
    }

    #[test]
    fn names_that_could_leave_the_folder_are_not_names() {
        for bad in [
            "",
            "x",
            "../a-0123456789abcdef0123456789abcdef",
            "a/b-0123456789abcdef0123456789abcdef",
            ".x-0123456789abcdef0123456789abcdef",
            "a-0123456789ABCDEF0123456789abcdef",
        ] {
            assert_eq!(SourceName::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_unknown_kind_is_kept() {
        let kind: SourceKind = serde_json::from_str("\"bucket\"").unwrap();
        assert_eq!(kind, SourceKind::Other("bucket".into()));
        assert_eq!(serde_json::to_string(&kind).unwrap(), "\"bucket\"");
    }
}
