//! Which repositories dependencies may come from. Pure functions.

use std::collections::BTreeSet;

use secrecy::SecretString;
use tandem_shared::source::redact_url;
use url::Url;

use crate::address::{Scheme, decode};
use crate::web;

/// Where a dependency comes from.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Its URL without a login, and without a slash at its end: with one, helm 4 takes two
    /// spellings for one repository and then misses the second.
    pub url: String,
    /// Its host, without port and brackets.
    pub name: String,
    /// The same with the port if it isn't the usual one, as registries are known by.
    pub host: String,
    /// Whether it is a registry.
    pub oci: bool,
    /// Whether that registry is asked in the clear.
    pub plain: bool,
    /// The login that stood in the URL.
    pub login: Option<(String, SecretString)>,
}

/// Reads the repository of a dependency. Registries in `plain` are asked in the clear.
///
/// # Errors
/// Says why nothing is asked there, without what is secret in it.
pub(super) fn parse(
    repository: &str,
    allowed: &BTreeSet<Scheme>,
    plain: &BTreeSet<String>,
) -> Result<Place, String> {
    let shown: String = redact_url(repository)
        .chars()
        .filter(|c| !c.is_control())
        .take(200)
        .collect();
    if repository.starts_with('@') || repository.starts_with("alias:") {
        return Err(format!(
            "{shown:?} is a name from somebody's own helm settings, which nobody else has; write the repository's URL"
        ));
    }
    let odd = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '\\' | '"');
    let url = Url::parse(repository)
        .ok()
        .filter(|url| url.has_host() && !repository.chars().any(odd));
    let Some(mut url) = url else {
        return Err(format!(
            "{shown:?} is no URL of a repository; write https://… or oci://…"
        ));
    };
    let port = url.port().map_or(String::new(), |port| format!(":{port}"));
    let name = url.host_str().unwrap_or_default().to_owned();
    let host = format!("{name}{port}");
    let oci = url.scheme() == "oci";
    let plain = oci && plain.contains(&host.to_ascii_lowercase());
    let scheme = match url.scheme() {
        "oci" if plain => Scheme::Http,
        "https" | "oci" => Scheme::Https,
        "http" => Scheme::Http,
        other => {
            return Err(format!(
                "repositories at {other}:// aren't asked; write https://… or oci://…, or commit what helm puts into charts/"
            ));
        }
    };
    if !allowed.contains(&scheme) {
        return Err(format!(
            "{shown:?} would be asked over {}, which --schemes leaves out",
            scheme.as_str()
        ));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(format!(
            "{shown:?} has a query or a fragment, which no repository has"
        ));
    }
    // Numbers are only read as addresses where the scheme is one of the web's.
    let web = format!("https{}", url.as_str().trim_start_matches(url.scheme()));
    if let Ok(web) = Url::parse(&web) {
        web::literal(&web).map_err(|error| error.to_string())?;
    }
    let login = (!url.username().is_empty() || url.password().is_some()).then(|| {
        let password = decode(url.password().unwrap_or_default());
        (decode(url.username()), SecretString::from(password))
    });
    let _ = url.set_username("");
    let _ = url.set_password(None);
    Ok(Place {
        name: name.trim_matches(['[', ']']).to_owned(),
        host,
        url: url.as_str().trim_end_matches('/').to_owned(),
        oci,
        plain,
        login,
    })
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn web() -> BTreeSet<Scheme> {
        [Scheme::Http, Scheme::Https].into()
    }

    fn parse(repository: &str, allowed: &BTreeSet<Scheme>) -> Result<Place, String> {
        super::parse(repository, allowed, &["plain.test:5000".to_owned()].into())
    }

    #[test]
    fn a_login_is_taken_out_and_a_slash_at_the_end_too() {
        let place = parse("https://me:p%40ss@h.test:8443/charts/", &web()).unwrap();
        assert_eq!(place.url, "https://h.test:8443/charts");
        assert_eq!((place.host.as_str(), place.oci), ("h.test:8443", false));
        let (user, password) = place.login.unwrap();
        assert_eq!((user.as_str(), password.expose_secret()), ("me", "p@ss"));
        let place = parse("oci://r.test/charts", &web()).unwrap();
        assert_eq!((place.host.as_str(), place.oci), ("r.test", true));
    }

    #[test]
    fn a_registry_is_asked_in_the_clear_if_it_is_named_so_and_http_is_accepted() {
        for (repository, plain) in [
            ("oci://plain.test:5000/charts", true),
            ("oci://Plain.test:5000/charts", true),
            ("oci://plain.test/charts", false),
            ("oci://plain.test:5001/charts", false),
            ("oci://r.test/plain.test:5000", false),
            ("https://plain.test:5000/charts", false),
        ] {
            let place = parse(repository, &web()).unwrap();
            assert_eq!(place.plain, plain, "{repository}");
        }
        let error = parse("oci://plain.test:5000/charts", &[Scheme::Https].into()).unwrap_err();
        assert!(error.contains("over http,"), "{error}");
    }

    #[test]
    fn what_is_not_asked_is_said_without_secrets() {
        for (repository, said) in [
            ("@stable", "write the repository's URL"),
            ("alias:stable", "write the repository's URL"),
            ("stable", "is no URL"),
            ("https://", "is no URL"),
            ("https://h/a b", "is no URL"),
            ("https://h/\"x", "is no URL"),
            ("s3://bucket/charts", "aren't asked"),
            ("https://me:secret@h/x?y", "has a query"),
            ("http://169.254.169.254/charts", "never asked"),
            ("http://2852039166/charts", "never asked"),
            ("oci://169.254.169.254/charts", "never asked"),
            ("oci://0xa9fea9fe/charts", "never asked"),
        ] {
            let error = parse(repository, &web()).unwrap_err();
            assert!(
                error.contains(said) && !error.contains("secret"),
                "{repository}: {error}"
            );
        }
        let only = [Scheme::Https].into();
        let error = parse("http://h/charts", &only).unwrap_err();
        assert!(error.contains("--schemes"), "{error}");
        assert!(parse("oci://h/charts", &only).is_ok());
    }
}
