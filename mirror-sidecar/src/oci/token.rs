//! Tokens of registries: asked for where the registry says, for pulling alone, and kept in
//! memory as long as they are good.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use url::Url;
use url::form_urlencoded::Serializer;

use super::OciError;
use super::challenge;

/// Bytes of an answer, at most.
pub(super) const BYTES: u64 = 256 * 1024;
/// How long a token is good whose server doesn't say, as the specification has it.
const USUAL: u64 = 60;
/// No longer than this is any believed to be good, in seconds.
const LONGEST: u64 = 3600;
/// Before its end, a token is no longer used: clocks differ, and answers take time. Of one
/// that is good for a moment only, that is half of it.
const MARGIN: Duration = Duration::from_secs(10);

/// Values of the `Authorization` header that a registry takes, by repository.
#[derive(Debug, Default)]
pub struct Tokens {
    held: BTreeMap<String, Held>,
}

#[derive(Debug)]
struct Held {
    header: SecretString,
    until: Option<Instant>,
}

impl Tokens {
    /// What is to be said when something of `repository` is asked for.
    #[must_use]
    pub fn of(&self, repository: &str, now: Instant) -> Option<&SecretString> {
        let held = self.held.get(repository)?;
        let good = held.until.is_none_or(|until| now < until);
        good.then_some(&held.header)
    }

    /// Keeps it until then; for as long as it is taken if that isn't known.
    pub fn keep(&mut self, repository: &str, header: String, until: Option<Instant>) {
        let header = SecretString::from(header);
        self.held
            .insert(repository.to_owned(), Held { header, until });
    }

    /// Drops what isn't taken.
    pub fn forget(&mut self, repository: &str) {
        self.held.remove(repository);
    }

    /// Drops what is good no longer, or for none of the repositories that are asked for.
    pub fn tidy(&mut self, used: &BTreeSet<String>, now: Instant) {
        self.held.retain(|repository, held| {
            used.contains(repository) && held.until.is_none_or(|until| now < until)
        });
    }
}

/// The form that asks for a token by an identity token.
pub(super) fn form(
    identity: &SecretString,
    service: Option<&str>,
    repository: &str,
) -> SecretString {
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", "refresh_token");
    form.append_pair("client_id", "tandem-mirror-sidecar");
    form.append_pair("service", service.unwrap_or_default());
    form.append_pair("scope", &challenge::scope(repository));
    form.append_pair("refresh_token", identity.expose_secret());
    SecretString::from(form.finish())
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    access_token: Option<String>,
    #[serde(default)]
    expires_in: Option<u64>,
}

/// Reads the answer of the server of tokens at `realm`: the header's value, and how long
/// it may be used.
///
/// # Errors
/// If there is no token in it. Nothing of it is in the message.
pub(super) fn read(answer: &[u8], realm: &Url) -> Result<(String, Duration), OciError> {
    let none = |why: &str| {
        let place = realm.origin().ascii_serialization();
        OciError::NoToken(place, why.to_owned())
    };
    // What serde says repeats what it read.
    let answer: Answer =
        serde_json::from_slice(answer).map_err(|_| none("it isn't JSON as it should be"))?;
    let token = answer.token.or(answer.access_token).unwrap_or_default();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(none("there is no token in it"));
    }
    let lifetime = Duration::from_secs(answer.expires_in.unwrap_or(USUAL).min(LONGEST));
    let usable = lifetime - MARGIN.min(lifetime / 2);
    Ok((format!("Bearer {token}"), usable))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn realm() -> Url {
        Url::parse("https://auth.test/t?secret").unwrap()
    }

    #[test]
    fn answers_of_servers_of_tokens() {
        for (answer, seconds) in [
            (r#"{"token":"t.1","expires_in":300}"#, 290),
            (r#"{"access_token":"t.1","issued_at":"now"}"#, 50),
            (
                r#"{"token":"t.1","access_token":"other","expires_in":6}"#,
                3,
            ),
            (r#"{"token":"t.1","expires_in":999999999}"#, 3590),
        ] {
            let (header, lifetime) = read(answer.as_bytes(), &realm()).unwrap();
            assert_eq!(
                (header.as_str(), lifetime.as_secs()),
                ("Bearer t.1", seconds)
            );
        }
        for bad in [
            "",
            "<html>",
            "{}",
            r#"{"token":""}"#,
            r#"{"token":"secret\r\nx: y"}"#,
            r#"{"token":["secret"]}"#,
        ] {
            let error = read(bad.as_bytes(), &realm()).unwrap_err().to_string();
            assert!(error.contains("https://auth.test"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_token_is_used_for_its_repository_as_long_as_it_is_good() {
        let now = Instant::now();
        let later = now + Duration::from_secs(50);
        let mut tokens = Tokens::default();
        tokens.keep("a", "Bearer a".to_owned(), Some(later));
        tokens.keep("b", "Basic b".to_owned(), None);
        let of = |tokens: &Tokens, name: &str, at: Instant| {
            tokens
                .of(name, at)
                .map(|header| header.expose_secret().to_owned())
        };
        assert_eq!(of(&tokens, "a", now).as_deref(), Some("Bearer a"));
        assert_eq!(of(&tokens, "a", later), None);
        assert_eq!(of(&tokens, "c", now), None);
        assert_eq!(of(&tokens, "b", later).as_deref(), Some("Basic b"));
        assert!(!format!("{tokens:?}").contains("Bearer"));
        let both = ["a".to_owned(), "b".to_owned()].into();
        tokens.tidy(&both, now);
        assert_eq!(tokens.held.len(), 2);
        tokens.tidy(&both, later);
        assert_eq!(tokens.held.len(), 1);
        tokens.tidy(&["a".to_owned()].into(), now);
        assert_eq!(of(&tokens, "b", now), None);
        tokens.keep("a", "Bearer a".to_owned(), None);
        tokens.forget("a");
        assert_eq!(of(&tokens, "a", now), None);
    }

    #[test]
    fn a_form_holds_what_is_secret_as_a_form_does() {
        let identity = SecretString::from("a+b&c=é".to_owned());
        let form = form(&identity, Some("reg"), "charts/web");
        assert_eq!(
            form.expose_secret(),
            "grant_type=refresh_token&client_id=tandem-mirror-sidecar&service=reg&scope=repository%3Acharts%2Fweb%3Apull&refresh_token=a%2Bb%26c%3D%C3%A9"
        );
    }
}
