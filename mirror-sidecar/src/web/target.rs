//! Which URLs are asked, and where their redirects may lead. Pure functions.

use std::collections::BTreeSet;
use std::str::FromStr;

use secrecy::SecretString;
use tandem_shared::source::redact_url;
use url::Url;

use super::WebError;
use crate::address::{Address, Scheme, decode};

/// Reads the URL of a file. User and password are taken out of it.
///
/// # Errors
/// Says why it isn't accepted, without what is secret in it.
pub fn parse(text: &str, allowed: &BTreeSet<Scheme>) -> Result<Address, WebError> {
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(malformed(text, "it holds blanks or control characters"));
    }
    if text.len() > 2048 {
        return Err(malformed(text, "it is longer than 2,048 bytes"));
    }
    let mut url = url(text)?;
    let scheme = scheme(&url, allowed)
        .ok_or_else(|| WebError::Scheme(redact_url(text), accepted(allowed)))?;
    let userinfo = (!url.username().is_empty() || url.password().is_some()).then(|| {
        let password = decode(url.password().unwrap_or_default());
        (decode(url.username()), SecretString::from(password))
    });
    without_login(&mut url);
    Ok(Address {
        scheme,
        origin: url.origin().ascii_serialization(),
        url: url.into(),
        folder: None,
        ssh: None,
        userinfo,
    })
}

/// The URL that `text` is.
///
/// # Errors
/// If it is none with a host.
pub(super) fn url(text: &str) -> Result<Url, WebError> {
    // Spelled otherwise it would be read otherwise when its password is cut out of it.
    let plain = text.split_once("://").map(|(_, rest)| rest);
    if text.contains('\\') || plain.is_none_or(|rest| rest.starts_with('/')) {
        return Err(malformed(text, "it is no URL, such as https://host/path"));
    }
    match Url::parse(text) {
        Ok(url) if url.has_host() => Ok(url),
        Ok(_) => Err(malformed(text, "it names no host")),
        Err(_) => Err(malformed(text, "it is no URL, such as https://host/path")),
    }
}

/// Where a redirect from `from` leads.
///
/// # Errors
/// If it leads nowhere, or to where nobody may be led.
pub(super) fn redirect(
    from: &Url,
    location: Option<&str>,
    allowed: &BTreeSet<Scheme>,
) -> Result<Url, WebError> {
    let to = location.and_then(|location| from.join(location).ok());
    let mut to = to.filter(Url::has_host).ok_or(WebError::Nowhere)?;
    // Nobody that is led to chooses as whom we ask.
    without_login(&mut to);
    to.set_fragment(None);
    let origin = to.origin().ascii_serialization();
    match scheme(&to, allowed) {
        Some(Scheme::Http) if from.scheme() == "https" => Err(WebError::Downgrade(origin)),
        Some(_) => Ok(to),
        None => Err(WebError::Elsewhere(
            to.scheme().to_owned(),
            accepted(allowed),
        )),
    }
}

fn scheme(url: &Url, allowed: &BTreeSet<Scheme>) -> Option<Scheme> {
    let scheme = Scheme::from_str(url.scheme()).ok()?;
    (scheme.is_http() && allowed.contains(&scheme)).then_some(scheme)
}

fn accepted(allowed: &BTreeSet<Scheme>) -> String {
    let words: Vec<&str> = allowed
        .iter()
        .filter(|scheme| scheme.is_http())
        .map(|scheme| scheme.as_str())
        .collect();
    match words.as_slice() {
        [] => "none; see --schemes".to_owned(),
        words => words.join(" and "),
    }
}

fn malformed(text: &str, why: &'static str) -> WebError {
    let shown = redact_url(text);
    WebError::Malformed(shown.chars().filter(|c| !c.is_control()).collect(), why)
}

fn without_login(url: &mut Url) {
    // They only fail where there is no host, and then there is no login either.
    let _ = url.set_username("");
    let _ = url.set_password(None);
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn all() -> BTreeSet<Scheme> {
        [Scheme::File, Scheme::Http, Scheme::Https].into()
    }

    #[test]
    fn a_login_is_taken_out_and_the_query_stays() {
        let address = parse("https://me:p%40ss@h.test:8443/v.yaml?token=t", &all()).unwrap();
        assert_eq!(address.url, "https://h.test:8443/v.yaml?token=t");
        assert_eq!(address.origin, "https://h.test:8443");
        let (user, password) = address.userinfo.unwrap();
        assert_eq!((user.as_str(), password.expose_secret()), ("me", "p@ss"));
        assert!(parse("https://h", &all()).unwrap().userinfo.is_none());
    }

    #[test]
    fn only_what_may_be_asked_is_accepted_and_no_refusal_shows_a_secret() {
        for bad in [
            "",
            "values.yaml",
            "file:///etc/passwd",
            "ftp://me:secret@h/v?secret",
            "gopher://h/secret?secret",
            "https://",
            "https:///v",
            "https:me:secret@h/v",
            "https:/me:secret@h/v",
            "https:\\\\me:secret@h/v",
            "https://h/v x?secret",
            "https://me:secret@h/\n?secret",
            "https://me:secret@[::1/?secret",
        ] {
            let error = parse(bad, &all()).unwrap_err().to_string();
            // The path may be shown, and is a secret in none of these.
            assert!(!error.contains("?secret"), "{bad}: {error}");
            assert!(!error.contains(":secret"), "{bad}: {error}");
        }
        let secure = [Scheme::Https].into();
        assert!(parse("http://h/v", &secure).is_err());
        assert!(parse("https://h/v", &secure).is_ok());
        let error = parse("https://h/v", &[Scheme::Ssh].into()).unwrap_err();
        assert!(error.to_string().contains("--schemes"), "{error}");
    }

    #[test]
    fn redirects_lead_up_and_never_down() {
        let (plain, secure) = (url("http://h/a/v").unwrap(), url("https://h/a/v").unwrap());
        for (from, location, to) in [
            (&plain, "w", Some("http://h/a/w")),
            (&plain, "https://o/w", Some("https://o/w")),
            (&secure, "//o/w", Some("https://o/w")),
            (&secure, "https://me:pw@o/w#part", Some("https://o/w")),
            (&secure, "http://h/w", None),
            (&plain, "file:///etc/passwd", None),
            (&plain, "ftp://h/w", None),
            (&plain, "data:text/plain,x", None),
        ] {
            let found = redirect(from, Some(location), &all()).ok();
            assert_eq!(found.as_ref().map(Url::as_str), to, "{from} {location}");
        }
        assert!(redirect(&plain, None, &all()).is_err());
        let only_plain = [Scheme::Http].into();
        assert!(redirect(&plain, Some("https://h/w"), &only_plain).is_err());
    }
}
