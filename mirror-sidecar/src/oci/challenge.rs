//! How a registry says that it wants to know who asks. Pure functions.

use http_auth::parser::ChallengeParser;
use url::Url;

use super::OciError;

/// What a registry wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// A token that another place gives out.
    Token {
        /// The place.
        realm: Url,
        /// How the registry is called there.
        service: Option<String>,
    },
    /// A user and password.
    Basic,
}

/// Which of the ways in the `WWW-Authenticate` headers of a registry at `base` is gone.
///
/// # Errors
/// If there is none that can be gone, or it leads to where no credential may go.
pub(super) fn choose(headers: &[String], base: &str) -> Result<Challenge, OciError> {
    let mut basic = false;
    for header in headers {
        for challenge in ChallengeParser::new(header) {
            // What follows a mistake can't be told from it.
            let Ok(challenge) = challenge else { break };
            let parameter = |name: &str| {
                let mut all = challenge.params.iter();
                let (_, value) = all.find(|(key, _)| key.eq_ignore_ascii_case(name))?;
                Some(value.to_unescaped())
            };
            if challenge.scheme.eq_ignore_ascii_case("bearer") {
                return Ok(Challenge::Token {
                    realm: realm(&parameter("realm").unwrap_or_default(), base)?,
                    service: parameter("service"),
                });
            }
            basic |= challenge.scheme.eq_ignore_ascii_case("basic");
        }
    }
    if basic {
        Ok(Challenge::Basic)
    } else {
        Err(OciError::Challenge)
    }
}

/// The place that gives out tokens: any host, but never more in the clear than the
/// registry is itself.
fn realm(text: &str, base: &str) -> Result<Url, OciError> {
    let refused = |why| {
        let shown = tandem_shared::source::redact_url(text);
        OciError::Realm(
            shown
                .chars()
                .filter(|c| !c.is_control())
                .take(200)
                .collect(),
            why,
        )
    };
    let mut url = Url::parse(text).map_err(|_| refused("it is no URL"))?;
    match url.scheme() {
        "https" => {}
        "http" if base.starts_with("http:") => {}
        "http" => return Err(refused("it is in the clear, and the registry isn't")),
        _ => return Err(refused("it is no web address")),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused("it says as whom to ask"));
    }
    url.set_fragment(None);
    Ok(url)
}

/// What has to be asked to get a token that may pull from `repository`, and no more.
#[must_use]
pub(super) fn question(realm: &Url, service: Option<&str>, repository: &str) -> Url {
    let mut url = realm.clone();
    let mut query = url.query_pairs_mut();
    if let Some(service) = service {
        query.append_pair("service", service);
    }
    query.append_pair("scope", &scope(repository));
    drop(query);
    url
}

/// The right to pull from `repository`.
#[must_use]
pub(super) fn scope(repository: &str) -> String {
    format!("repository:{repository}:pull")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn of(headers: &[&str]) -> Result<Challenge, OciError> {
        let headers: Vec<String> = headers.iter().map(|&header| header.to_owned()).collect();
        choose(&headers, "https://h.test")
    }

    fn token(realm: &str, service: Option<&str>) -> Challenge {
        Challenge::Token {
            realm: Url::parse(realm).unwrap(),
            service: service.map(ToOwned::to_owned),
        }
    }

    #[test]
    fn challenges_as_registries_write_them() {
        for (headers, expected) in [
            (
                &[
                    r#"Bearer realm="https://auth.test/token",service="reg",scope="repository:a:pull,push""#,
                ][..],
                token("https://auth.test/token", Some("reg")),
            ),
            (
                &[r#"bearer Realm="https://auth.test/t?x=1""#],
                token("https://auth.test/t?x=1", None),
            ),
            (&[r#"Basic realm="Registry \"one\"""#], Challenge::Basic),
            // A token is never less than a password.
            (
                &[r#"Basic realm="x", Bearer realm="https://auth.test/""#],
                token("https://auth.test/", None),
            ),
            (
                &[
                    "Negotiate",
                    r#"Basic realm="x""#,
                    r#"Bearer realm="https://auth.test/""#,
                ],
                token("https://auth.test/", None),
            ),
        ] {
            assert_eq!(of(headers).unwrap(), expected, "{headers:?}");
        }
        for none in [
            &[][..],
            &[""],
            &["Negotiate"],
            &["\"=,"],
            &["Digest realm=\"x\""],
        ] {
            assert!(matches!(of(none), Err(OciError::Challenge)), "{none:?}");
        }
    }

    #[test]
    fn a_token_is_never_asked_for_where_a_password_may_not_go() {
        for realm in [
            "",
            "/token",
            "http://auth.test/token",
            "file:///etc/passwd",
            "https://me:secret@auth.test/token",
            "ftp://auth.test/",
        ] {
            let error = of(&[&format!("Bearer realm=\"{realm}\"")]).unwrap_err();
            assert!(matches!(error, OciError::Realm(..)), "{realm}: {error:?}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        let plain = ["Bearer realm=\"http://auth.test/t\"".to_owned()];
        choose(&plain, "http://h.test").unwrap();
        choose(&plain, "https://h.test").unwrap_err();
    }

    #[test]
    fn a_question_keeps_what_the_realm_has() {
        let realm = Url::parse("https://auth.test/t?account=x").unwrap();
        let url = question(&realm, Some("a service"), "charts/web");
        let expected = "https://auth.test/t?account=x&service=a+service&scope=repository%3Acharts%2Fweb%3Apull";
        assert_eq!(url.as_str(), expected);
    }
}
