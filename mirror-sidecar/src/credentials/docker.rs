//! Docker's configuration, as pull secrets hold it (`kubernetes.io/dockerconfigjson`):
//! which of its entries is for a repository, and what it says. Pure functions.

use std::collections::BTreeMap;
use std::fmt;

use data_encoding::{BASE64, BASE64_NOPAD};
use secrecy::SecretString;
use serde::Deserialize;
use tandem_shared::credentials::Values;
use thiserror::Error;

/// Keys of a Secret that hold such a configuration; of the last one only what is within
/// `auths` of the others.
const KEYS: [&str; 3] = [".dockerconfigjson", "config.json", ".dockercfg"];
/// All names of the registry that docker asks unless told otherwise.
const HUB: [&str; 3] = ["docker.io", "index.docker.io", "registry-1.docker.io"];

/// Why a configuration gives no credential. Free of secrets.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DockerError {
    /// It can't be read.
    #[error(
        "the credential's key `{0}` is no docker configuration in JSON; make it with `kubectl create secret docker-registry`"
    )]
    Unreadable(&'static str),
    /// It has nothing for this repository.
    #[error("the credential's key `{key}` has no entry for {repository}, but for: {others}")]
    NoEntry {
        /// Of the Secret.
        key: &'static str,
        /// The repository, with its registry.
        repository: String,
        /// What there is.
        others: String,
    },
    /// The entry is empty, as docker leaves it where it keeps passwords elsewhere.
    #[error(
        "the entry {entry:?} of the credential's key `{key}` holds no `auth`; docker keeps it in another program, which isn't here: make the Secret with `kubectl create secret docker-registry`"
    )]
    Empty {
        /// Of the Secret.
        key: &'static str,
        /// Which one.
        entry: String,
    },
    /// `auth` is no user and password.
    #[error(
        "`auth` of the entry {entry:?} of the credential's key `{key}` isn't base64 of user:password"
    )]
    Auth {
        /// Of the Secret.
        key: &'static str,
        /// Which one.
        entry: String,
    },
}

/// What an entry says.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// User and password.
    pub basic: Option<(String, SecretString)>,
    /// A token for the registry itself.
    pub bearer: Option<SecretString>,
    /// A token for the server of tokens.
    pub identity: Option<SecretString>,
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
    registrytoken: Option<String>,
}

/// A configuration: what opens which repositories.
pub struct Keyring {
    key: &'static str,
    entries: BTreeMap<String, Entry>,
}

/// The configuration among `values`, if there is one.
///
/// # Errors
/// If it can't be read.
pub(super) fn read(values: &Values) -> Result<Option<Keyring>, DockerError> {
    let Some((key, content)) = KEYS
        .into_iter()
        .find_map(|key| Some((key, values.get(key)?)))
    else {
        return Ok(None);
    };
    // What serde says may repeat what it read.
    let unreadable = |_| DockerError::Unreadable(key);
    let entries = match key {
        ".dockercfg" => serde_json::from_slice(content).map_err(unreadable)?,
        _ => {
            let config: Config = serde_json::from_slice(content).map_err(unreadable)?;
            config.auths
        }
    };
    Ok(Some(Keyring { key, entries }))
}

impl Keyring {
    /// What it has for the repository `path` of the registry at `host` (with its port): the
    /// entry with the longest path that the repository is, or lies below.
    ///
    /// # Errors
    /// If it has nothing for that, or what it has is of no use.
    pub(super) fn find(&self, host: &str, path: &str) -> Result<Found, DockerError> {
        let best = self
            .entries
            .iter()
            .filter_map(|(name, entry)| Some((rank(name, host, path)?, name, entry)))
            .max_by_key(|(rank, ..)| *rank);
        if let Some((_, name, entry)) = best {
            return open(self.key, name, entry);
        }
        let mut others: Vec<&str> = self.entries.keys().map(String::as_str).take(5).collect();
        if others.is_empty() {
            others.push("none at all");
        }
        let others = others.join(", ");
        Err(DockerError::NoEntry {
            key: self.key,
            repository: format!("{host}/{path}"),
            others: others
                .chars()
                .filter(|c| !c.is_control())
                .take(300)
                .collect(),
        })
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").finish_non_exhaustive()
    }
}

/// How well an entry's name fits: the one with the longest path counts, and of those the
/// one whose host is written out. `None` if it is for another place.
fn rank(name: &str, host: &str, path: &str) -> Option<(usize, bool)> {
    let name = name.split_once("://").map_or(name, |(_, rest)| rest);
    let (entry, below) = name.split_once('/').unwrap_or((name, ""));
    let entry = entry.to_ascii_lowercase();
    // Docker's own entry is `https://index.docker.io/v1/`.
    let below = match below.trim_matches('/') {
        "v1" | "v2" => "",
        below => below,
    };
    let hub = HUB.contains(&entry.as_str()) && HUB.contains(&host);
    let exact = hub || entry == host;
    if !exact && !globbed(&entry, host) {
        return None;
    }
    let rest = path.strip_prefix(below)?;
    let whole = below.is_empty() || rest.is_empty() || rest.starts_with('/');
    whole.then_some((below.len(), exact))
}

/// Whether `pattern`, with at most one `*` in each part of a name, is for `host`.
fn globbed(pattern: &str, host: &str) -> bool {
    let parts = pattern.split('.').count() == host.split('.').count();
    let fits = |(pattern, part): (&str, &str)| match pattern.split_once('*') {
        None => pattern == part,
        Some((before, after)) => {
            part.len() >= before.len() + after.len()
                && part.starts_with(before)
                && part.ends_with(after)
        }
    };
    parts && pattern.split('.').zip(host.split('.')).all(fits)
}

fn open(key: &'static str, name: &str, entry: &Entry) -> Result<Found, DockerError> {
    let shown = || name.chars().filter(|c| !c.is_control()).take(200).collect();
    let full = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let mut found = Found {
        basic: None,
        bearer: full(&entry.registrytoken).map(SecretString::from),
        identity: full(&entry.identitytoken).map(SecretString::from),
    };
    if let Some(auth) = full(&entry.auth) {
        let pair = decode(&auth).ok_or_else(|| DockerError::Auth {
            key,
            entry: shown(),
        })?;
        found.basic = Some(pair);
    } else if let (Some(user), Some(password)) = (full(&entry.username), full(&entry.password)) {
        found.basic = Some((user, SecretString::from(password)));
    }
    if found.basic.is_none() && found.bearer.is_none() && found.identity.is_none() {
        return Err(DockerError::Empty {
            key,
            entry: shown(),
        });
    }
    Ok(found)
}

fn decode(auth: &str) -> Option<(String, SecretString)> {
    let auth = auth.trim();
    let bytes = BASE64
        .decode(auth.as_bytes())
        .or_else(|_| BASE64_NOPAD.decode(auth.as_bytes()))
        .ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (user, password) = text.split_once(':')?;
    // Docker of old filled it up.
    let password = password.trim_end_matches('\0');
    (!user.is_empty()).then(|| (user.to_owned(), SecretString::from(password.to_owned())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use secrecy::ExposeSecret;
    use serde_json::{Value, json};

    use super::*;

    fn values(key: &str, content: &Value) -> Values {
        Values::from([(key.to_owned(), content.to_string().into_bytes())])
    }

    fn find(values: &Values, host: &str, path: &str) -> Result<Option<Found>, DockerError> {
        let keyring = read(values)?;
        keyring.map(|keyring| keyring.find(host, path)).transpose()
    }

    fn user(auths: &Value, host: &str, path: &str) -> Option<String> {
        let values = values(".dockerconfigjson", &json!({"auths": auths}));
        let found = find(&values, host, path).ok()??;
        found.basic.map(|(user, _)| user)
    }

    fn login(user: &str) -> Value {
        json!({"username": user, "password": "s3cret"})
    }

    #[test]
    fn the_entry_of_the_registry_is_taken_and_no_other() {
        let auths = json!({
            "h.test": login("host"),
            "h.test/team": login("team"),
            "https://h.test/team/charts/": login("charts"),
            "h.test/team/charts/web": login("web"),
            "*.test/team/charts/web/deep": login("deep"),
            "h.test:8443": login("port"),
            "*.g.test": login("glob"),
            "a.g.test": login("exact"),
            "https://index.docker.io/v1/": login("hub"),
        });
        for (host, path, expected) in [
            ("h.test", "", Some("host")),
            ("h.test", "teams", Some("host")),
            ("h.test", "team", Some("team")),
            ("h.test", "team/x", Some("team")),
            ("h.test", "team/charts/x", Some("charts")),
            ("h.test", "team/charts/web", Some("web")),
            ("h.test", "team/charts/web2", Some("charts")),
            ("h.test", "team/charts/web/deep", Some("deep")),
            ("h.test:8443", "team", Some("port")),
            ("h.test:8444", "", None),
            ("x.h.test", "", None),
            ("est", "", None),
            ("b.g.test", "", Some("glob")),
            ("a.g.test", "", Some("exact")),
            ("a.b.g.test", "", None),
            ("docker.io", "library", Some("hub")),
            ("registry-1.docker.io", "", Some("hub")),
            ("evil.docker.io", "", None),
        ] {
            assert_eq!(
                user(&auths, host, path).as_deref(),
                expected,
                "{host}/{path}"
            );
        }
        assert!(globbed("app*x.k8s.io", "app1x.k8s.io") && !globbed("ab*b.io", "ab.io"));
    }

    #[test]
    fn entries_of_every_shape() {
        let of = |entry: Value| {
            let values = values(
                "config.json",
                &json!({"auths": {"h": entry}, "credsStore": "x"}),
            );
            find(&values, "h", "").map(Option::unwrap)
        };
        let pair = |found: &Found| {
            let (user, password) = found.basic.as_ref().unwrap();
            (user.clone(), password.expose_secret().to_owned())
        };
        let auth = |text: &str| BASE64.encode(text.as_bytes());
        let expected = ("me".to_owned(), "p:w".to_owned());
        assert_eq!(
            pair(&of(json!({"auth": auth("me:p:w")})).unwrap()),
            expected
        );
        assert_eq!(
            pair(&of(json!({"auth": auth("me:p:w\0\0"), "username": "x"})).unwrap()),
            expected
        );
        let unfilled = auth("me:p:w").trim_end_matches('=').to_owned();
        assert_eq!(pair(&of(json!({"auth": unfilled})).unwrap()), expected);
        assert_eq!(
            pair(&of(json!({"username": "me", "password": "p:w"})).unwrap()),
            expected
        );
        let token = of(json!({"auth": auth("0:"), "identitytoken": "t"})).unwrap();
        assert_eq!(token.identity.unwrap().expose_secret(), "t");
        let token = of(json!({"registrytoken": "t"})).unwrap();
        assert_eq!(token.bearer.unwrap().expose_secret(), "t");
        for empty in [json!({}), json!({"auth": ""}), json!({"username": "me"})] {
            assert!(matches!(of(empty), Err(DockerError::Empty { .. })));
        }
        for bad in ["secret!", &auth("secret"), &auth(":secret")] {
            let error = of(json!({"auth": bad})).unwrap_err();
            assert!(matches!(error, DockerError::Auth { .. }), "{error:?}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        let old = values(".dockercfg", &json!({"h": login("me")}));
        assert!(find(&old, "h", "").unwrap().is_some());
        assert!(find(&Values::new(), "h", "").unwrap().is_none());
    }

    #[test]
    fn what_is_wrong_is_told_without_what_is_secret() {
        let values = values(
            ".dockerconfigjson",
            &json!({"auths": {"other.test": login("me")}}),
        );
        let told = find(&values, "h", "charts/web").unwrap_err().to_string();
        let shown = format!("{:?}", read(&values).unwrap());
        assert!(!shown.contains("s3cret"), "{shown}");
        assert!(
            told.contains("for h/charts/web,") && told.contains("other.test"),
            "{told}"
        );
        assert!(!told.contains("s3cret"), "{told}");
        for bad in [
            "s3cret",
            r#"{"auths": "s3cret"}"#,
            r#"{"auths": {"h": "s3cret"}}"#,
        ] {
            let values = Values::from([(".dockerconfigjson".to_owned(), bad.as_bytes().to_vec())]);
            let told = find(&values, "h", "").unwrap_err();
            assert_eq!(told, DockerError::Unreadable(".dockerconfigjson"));
            assert!(!told.to_string().contains("s3cret"), "{told}");
        }
    }
}
