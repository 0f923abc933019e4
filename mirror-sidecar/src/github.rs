//! Tokens of GitHub Apps: passwords for an hour, given for a signed statement
//! of who asks. They are kept in memory alone, and asked for anew before they end.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use secrecy::SecretString;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tandem_shared::manifest::Reason;
use thiserror::Error;

use crate::address::Scheme;
use crate::credentials::{Access, App, Installation};
use crate::web::{Answer, Asked, Method, Web, WebError};

/// The user that goes with a token.
const USER: &str = "x-access-token";
/// Bytes of an answer, at most. It names all that the token may do.
const BYTES: u64 = 1024 * 1024;
/// How long the answer is waited for.
const TIMEOUT: Duration = Duration::from_secs(30);
/// So long before its end a token isn't used any more: what is begun with it must end in time.
const MARGIN: Duration = Duration::from_secs(300);
/// No token is used for longer, whatever is said of it.
const LONGEST: Duration = Duration::from_secs(3600);

/// Why there is no token. Free of secrets.
#[derive(Debug, Error)]
#[error("no token for the GitHub App {app}: {why}{advice}")]
pub struct TokenError {
    app: String,
    why: String,
    advice: &'static str,
    /// The word for machines.
    pub reason: Reason,
}

/// Tokens by the id of the credential that they were given for. Another content of a Secret
/// is another id.
#[derive(Debug, Default)]
pub struct Tokens {
    held: Mutex<HashMap<String, Token>>,
}

#[derive(Debug)]
struct Token {
    password: SecretString,
    end: Instant,
}

impl Tokens {
    /// Gives `access` the password of its App, and says whether it was held from before.
    /// Blocks the thread where one has to be asked for.
    ///
    /// # Errors
    /// Says why there is none.
    pub fn provide(
        &self,
        web: &Web,
        id: &str,
        access: &mut Access,
        allowed: &BTreeSet<Scheme>,
    ) -> Result<bool, TokenError> {
        let Some(app) = &access.app else {
            return Ok(false);
        };
        let now = Instant::now();
        let held = self
            .held()
            .get(id)
            .filter(|token| token.end > now)
            .map(|token| token.password.clone());
        let is_held = held.is_some();
        let password = match held {
            Some(password) => password,
            None => {
                let (password, life) = ask(web, app, access, allowed)?;
                let end = now + life.saturating_sub(MARGIN.min(life / 2));
                let token = Token {
                    password: password.clone(),
                    end,
                };
                let mut held = self.held();
                held.retain(|_, token| token.end > now);
                held.insert(id.to_owned(), token);
                password
            }
        };
        access.basic = Some((USER.to_owned(), password));
        Ok(is_held)
    }

    /// Lets go of a token that wasn't taken: it may have been revoked.
    pub fn forget(&self, id: &str) {
        self.held().remove(id);
    }

    fn held(&self) -> MutexGuard<'_, HashMap<String, Token>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Deserialize)]
struct Given {
    token: String,
    expires_at: Timestamp,
}

#[derive(Deserialize)]
struct Found {
    id: u64,
}

/// A token, and for how long it is good.
fn ask(
    web: &Web,
    app: &App,
    access: &Access,
    allowed: &BTreeSet<Scheme>,
) -> Result<(SecretString, Duration), TokenError> {
    let now = tandem_shared::clock::now();
    let statement = app
        .statement(now.as_second())
        .map_err(|error| failed(app, Reason::Internal, error.to_string(), ""))?;
    let authorization = SecretString::from(format!("Bearer {statement}"));
    let api = Api {
        web,
        app,
        authorization: &authorization,
        // Of the credential only the authority that it trusts is meant for this, too.
        trusting: Access {
            ca: access.ca.clone(),
            ..Access::default()
        },
        allowed,
    };
    let endpoint = match &app.installation {
        Installation::Id(id) => app.tokens_at(id),
        // It is looked up for each token: an App that is installed anew has another id.
        Installation::Owner(owner) => app.tokens_at(&api.installation_of(owner)?),
    };
    let form = SecretString::default();
    let given: Given = api
        .ask(Method::Form(&form), &endpoint)
        .map_err(|error| error.told(app, &endpoint))?;
    if given.token.is_empty() || !given.token.bytes().all(|c| c.is_ascii_graphic()) {
        return Err(Trouble::Strange.told(app, &endpoint));
    }
    let life = Duration::try_from(given.expires_at.duration_since(now)).unwrap_or_default();
    Ok((SecretString::from(given.token), life.min(LONGEST)))
}

/// GitHub, as an App asks it.
struct Api<'a> {
    web: &'a Web,
    app: &'a App,
    authorization: &'a SecretString,
    trusting: Access,
    allowed: &'a BTreeSet<Scheme>,
}

impl Api<'_> {
    /// The id of the App's installation at an organization or user.
    fn installation_of(&self, owner: &str) -> Result<String, TokenError> {
        let [organization, user] = self.app.installations_at(owner);
        let found: Result<Found, Trouble> = self.ask(Method::Get, &organization);
        let (found, place) = match found {
            Err(Trouble::Web(WebError::Status(404))) => (self.ask(Method::Get, &user), user),
            found => (found, organization),
        };
        let found = found.map_err(|error| error.told(self.app, &place))?;
        Ok(found.id.to_string())
    }

    fn ask<T: DeserializeOwned>(&self, method: Method<'_>, place: &str) -> Result<T, Trouble> {
        let asked = Asked {
            method,
            accept: Some("application/vnd.github+json"),
            authorization: Some(self.authorization),
            ..Asked::plain(place, &self.trusting, self.allowed, TIMEOUT, BYTES)
        };
        let mut body = Vec::new();
        match self.web.get(asked, &mut body) {
            Ok(Answer::New(_)) => serde_json::from_slice(&body).map_err(|_| Trouble::Strange),
            // Nothing is ever said to be held.
            Ok(Answer::Unchanged) => Err(Trouble::Strange),
            Err(error) => Err(Trouble::Web(error)),
        }
    }
}

/// Why there is no answer of use.
enum Trouble {
    Web(WebError),
    Strange,
}

impl Trouble {
    fn told(self, app: &App, place: &str) -> TokenError {
        match self {
            Self::Strange => failed(
                app,
                Reason::Remote,
                format!("{place} answered with something else"),
                "; see githubAppBaseURL",
            ),
            Self::Web(error) => {
                let (reason, advice) = advice(&error, &app.installation);
                failed(app, reason, format!("{place}: {error}"), advice)
            }
        }
    }
}

fn failed(app: &App, reason: Reason, why: String, advice: &'static str) -> TokenError {
    TokenError {
        app: app.id.clone(),
        why,
        advice,
        reason,
    }
}

fn advice(error: &WebError, installation: &Installation) -> (Reason, &'static str) {
    match error {
        WebError::Unauthorized(_) => (
            Reason::AuthenticationFailed,
            "; see githubAppID and githubAppPrivateKey, and that this machine's clock is right",
        ),
        WebError::Status(403 | 404 | 422) => {
            let advice = match installation {
                Installation::Id(_) => {
                    "; see githubAppInstallationID, and whether the App is still installed there"
                }
                Installation::Owner(_) => {
                    "; see githubAppInstallationOwner, and whether the App is installed there"
                }
            };
            (Reason::AuthenticationFailed, advice)
        }
        other => (other.reason(), ""),
    }
}
