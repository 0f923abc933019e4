//! A GitHub App: who it is, and the statement by which it proves that.

use std::collections::BTreeSet;
use std::sync::Arc;

use data_encoding::BASE64URL_NOPAD;
use rustls::SignatureScheme;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::SigningKey;
use tandem_shared::credentials::Values;
use tandem_shared::source::redact_url;
use thiserror::Error;

use crate::address::{Address, Scheme};
use crate::web;

/// The keys of a credential, as Flux names them.
const ID: &str = "githubAppID";
const INSTALLATION: &str = "githubAppInstallationID";
const OWNER: &str = "githubAppInstallationOwner";
const KEY: &str = "githubAppPrivateKey";
const BASE: &str = "githubAppBaseURL";

/// Where github.com itself is asked.
const PUBLIC: &str = "https://api.github.com";
/// Seconds that a statement reaches back, for clocks that go wrong, and forth, at most ten
/// minutes.
const BACK: i64 = 60;
const FORTH: i64 = 540;

/// A GitHub App at one of its installations.
#[derive(Clone, Debug)]
pub struct App {
    /// Its id, or its client id.
    pub id: String,
    /// Where it is installed.
    pub installation: Installation,
    /// Where GitHub is asked, without a slash at its end.
    api: String,
    key: Arc<dyn SigningKey>,
}

/// One installation of an App.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Installation {
    /// The one with this id.
    Id(String),
    /// The one at this organization or user.
    Owner(String),
}

/// What is wrong with an App. Says where, never what is secret.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AppError {
    /// A key isn't there.
    #[error(
        "the credential of a GitHub App has no `{0}`; it needs githubAppID, githubAppInstallationID or githubAppInstallationOwner, and githubAppPrivateKey"
    )]
    Missing(&'static str),
    /// Two installations, which needn't be the same.
    #[error("the credential has `{INSTALLATION}` and `{OWNER}`; a GitHub App needs one of them")]
    Both,
    /// An id that is none.
    #[error("the value of the credential's key `{0}` is no id of GitHub")]
    Id(&'static str),
    /// A name that nobody has there.
    #[error(
        "the value of the credential's key `{OWNER}` is no name of an organization or user of GitHub"
    )]
    Owner,
    /// No RSA key.
    #[error(
        "the value of the credential's key `{KEY}` is no RSA private key in PEM without a passphrase, as GitHub gives them out"
    )]
    Key,
    /// An address that isn't accepted.
    #[error("the credential's key `{BASE}`: {0}")]
    Base(String),
    /// A token in the clear.
    #[error(
        "the token of a GitHub App isn't sent in the clear; write the repository's URL with https"
    )]
    Clear,
    /// Another host's token.
    #[error(
        "the credential is that of a GitHub App at {app}, and {asked} is another host; a token is given to its own host alone, see `{BASE}`"
    )]
    Elsewhere {
        /// The host of the App.
        app: String,
        /// The host that is asked.
        asked: String,
    },
}

impl App {
    /// The App that a credential holds, if it holds one, for the repository at `address`.
    ///
    /// # Errors
    /// If something is missing or wrong, or the repository is on another host.
    pub(super) fn of(
        values: &Values,
        address: &Address,
        allowed: &BTreeSet<Scheme>,
    ) -> Result<Option<Self>, AppError> {
        let text = |key| {
            let value = values.get(key).map(|value| String::from_utf8_lossy(value));
            value.map(|text| text.trim().to_owned())
        };
        if ![ID, INSTALLATION, OWNER, KEY]
            .iter()
            .any(|key| values.contains_key(*key))
        {
            return Ok(None);
        }
        let id = |key| {
            let id: String = text(key).ok_or(AppError::Missing(key))?;
            // It becomes a part of a path.
            let sound = !id.is_empty() && id.len() <= 100;
            match sound && id.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'.') {
                true => Ok(id),
                false => Err(AppError::Id(key)),
            }
        };
        let app = id(ID)?;
        let installation = match text(OWNER) {
            None => Installation::Id(id(INSTALLATION)?),
            Some(_) if values.contains_key(INSTALLATION) => return Err(AppError::Both),
            Some(owner) if is_owner(&owner) => Installation::Owner(owner),
            Some(_) => return Err(AppError::Owner),
        };
        let base = text(BASE)
            .filter(|base| !base.is_empty())
            .unwrap_or_else(|| PUBLIC.to_owned());
        let api = web::parse(&base, allowed).map_err(|error| AppError::Base(error.to_string()))?;
        if api.userinfo.is_some() || api.url.contains(['?', '#']) {
            let why = format!("{:?} must be a plain URL", redact_url(&base));
            return Err(AppError::Base(why));
        }
        let host = api.host().to_ascii_lowercase();
        // github.com and the clouds of enterprises have a name of its own for the API.
        let own = host.strip_prefix("api.").unwrap_or(&host);
        if !address.host().eq_ignore_ascii_case(own) && !address.host().eq_ignore_ascii_case(&host)
        {
            return Err(AppError::Elsewhere {
                app: own.to_owned(),
                asked: address.host().to_owned(),
            });
        }
        if api.scheme == Scheme::Https && address.scheme != Scheme::Https {
            return Err(AppError::Clear);
        }
        let pem = values.get(KEY).ok_or(AppError::Missing(KEY))?;
        let key = PrivateKeyDer::from_pem_slice(pem)
            .ok()
            .and_then(|der| any_supported_type(&der).ok())
            .filter(|key| key.choose_scheme(RS256).is_some())
            .ok_or(AppError::Key)?;
        Ok(Some(Self {
            id: app,
            installation,
            api: api.url.trim_end_matches('/').to_owned(),
            key,
        }))
    }

    /// Where a token for the installation with this id is asked for.
    #[must_use]
    pub fn tokens_at(&self, installation: &str) -> String {
        format!(
            "{}/app/installations/{installation}/access_tokens",
            self.api
        )
    }

    /// Where the installation of `owner` is asked for, in this order: as an organization, and
    /// as a user. Nothing in a name says which of them it is.
    #[must_use]
    pub fn installations_at(&self, owner: &str) -> [String; 2] {
        ["orgs", "users"].map(|kind| format!("{}/{kind}/{owner}/installation", self.api))
    }

    /// The statement (a JSON Web Token) that this is the App, as of `now` in seconds since
    /// 1970.
    ///
    /// # Errors
    /// If the key can't sign.
    pub fn statement(&self, now: i64) -> Result<String, rustls::Error> {
        let part = |value: serde_json::Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
        let said = format!(
            "{}.{}",
            part(serde_json::json!({"alg": "RS256", "typ": "JWT"})),
            part(serde_json::json!({"iat": now - BACK, "exp": now + FORTH, "iss": self.id})),
        );
        let signer = self.key.choose_scheme(RS256);
        let signer = signer.ok_or_else(|| rustls::Error::General("no RSA key".to_owned()))?;
        let signature = BASE64URL_NOPAD.encode(&signer.sign(said.as_bytes())?);
        Ok(format!("{said}.{signature}"))
    }
}

/// Whether an organization or user may have this name, which becomes a part of a path. Those
/// of an enterprise have an underscore.
fn is_owner(name: &str) -> bool {
    let sound = !name.is_empty() && name.len() <= 100;
    sound
        && name
            .bytes()
            .all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_')
}

/// The one kind of signature that GitHub takes.
const RS256: &[SignatureScheme] = &[SignatureScheme::RSA_PKCS1_SHA256];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::address;

    fn of(changes: &[(&str, Option<&str>)], url: &str) -> Result<Option<App>, AppError> {
        let allowed: BTreeSet<Scheme> = [Scheme::Https].into();
        // The repository's own address was looked at before.
        let all: BTreeSet<Scheme> = [Scheme::Http, Scheme::Https].into();
        let mut values = Values::from([
            (ID.to_owned(), b"12".to_vec()),
            (INSTALLATION.to_owned(), b"34\n".to_vec()),
            (KEY.to_owned(), b"s3cret".to_vec()),
        ]);
        for (key, value) in changes {
            match value {
                Some(value) => values.insert((*key).to_owned(), value.as_bytes().to_vec()),
                None => values.remove(*key),
            };
        }
        App::of(&values, &address::parse(url, &all, &[]).unwrap(), &allowed)
    }

    #[test]
    fn what_does_not_fit_is_told_by_its_key() {
        let github = "https://github.com/o/r.git";
        // Everything else is looked at before the key, which is none here.
        for (changes, url, expected) in [
            (vec![], github, AppError::Key),
            (vec![], "https://GitHub.com/o/r", AppError::Key),
            (vec![(BASE, Some(""))], github, AppError::Key),
            (
                vec![(BASE, Some("https://ghe.test:8443/api/v3/"))],
                "https://ghe.test/o/r",
                AppError::Key,
            ),
            (
                vec![(BASE, Some("https://api.acme.ghe.com"))],
                "https://acme.ghe.com/o/r",
                AppError::Key,
            ),
            (vec![], "http://github.com/o/r", AppError::Clear),
            (vec![(ID, None)], github, AppError::Missing(ID)),
            (
                vec![(INSTALLATION, None)],
                github,
                AppError::Missing(INSTALLATION),
            ),
            (vec![(KEY, None)], github, AppError::Missing(KEY)),
            (vec![(ID, Some(""))], github, AppError::Id(ID)),
            (
                vec![(INSTALLATION, Some("1/../2"))],
                github,
                AppError::Id(INSTALLATION),
            ),
            (
                vec![(INSTALLATION, None), (OWNER, Some("acme-corp_x\n"))],
                github,
                AppError::Key,
            ),
            (vec![(OWNER, Some("acme"))], github, AppError::Both),
            (
                vec![(INSTALLATION, None), (OWNER, Some("../app"))],
                github,
                AppError::Owner,
            ),
            (
                vec![(INSTALLATION, None), (OWNER, Some(""))],
                github,
                AppError::Owner,
            ),
            (
                vec![(ID, None), (INSTALLATION, None), (OWNER, Some("acme"))],
                github,
                AppError::Missing(ID),
            ),
        ] {
            assert_eq!(of(&changes, url).unwrap_err(), expected, "{changes:?}");
        }
        for (changes, url) in [
            (vec![], "https://evil.test/o/r"),
            (vec![], "https://github.com.evil.test/o/r"),
            (vec![], "https://gist.github.com/o/r"),
            (vec![(BASE, Some("https://ghe.test/api/v3"))], github),
        ] {
            let error = of(&changes, url).unwrap_err();
            assert!(matches!(error, AppError::Elsewhere { .. }), "{error}");
        }
        for base in [
            "http://github.com",
            "file:///etc/passwd",
            "https://me:s3cret@github.com",
            "https://github.com/?s3cret",
            "github.com",
        ] {
            let error = of(&[(BASE, Some(base))], github).unwrap_err();
            assert!(matches!(error, AppError::Base(_)), "{base}: {error}");
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
        let none = [(ID, None), (INSTALLATION, None), (KEY, None)];
        assert!(of(&none, github).unwrap().is_none());
    }
}
