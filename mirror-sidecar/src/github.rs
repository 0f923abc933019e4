//! Tokens of GitHub Apps: passwords for an hour, given for a signed statement
//! of who asks. They are kept in memory alone, and asked for anew before they end.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use secrecy::SecretString;
use serde::Deserialize;
use tandem_shared::manifest::Reason;
use thiserror::Error;

use crate::address::Scheme;
use crate::credentials::{Access, App};
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

/// A token, and for how long it is good.
fn ask(
    web: &Web,
    app: &App,
    access: &Access,
    allowed: &BTreeSet<Scheme>,
) -> Result<(SecretString, Duration), TokenError> {
    let failed = |reason, why: String, advice| TokenError {
        app: app.id.clone(),
        why,
        advice,
        reason,
    };
    let now = tandem_shared::clock::now();
    let statement = app
        .statement(now.as_second())
        .map_err(|error| failed(Reason::Internal, error.to_string(), ""))?;
    let authorization = SecretString::from(format!("Bearer {statement}"));
    let form = SecretString::default();
    // Of the credential only the authority that it trusts is meant for this, too.
    let trusting = Access {
        ca: access.ca.clone(),
        ..Access::default()
    };
    let asked = Asked {
        method: Method::Form(&form),
        accept: Some("application/vnd.github+json"),
        authorization: Some(&authorization),
        ..Asked::plain(&app.endpoint, &trusting, allowed, TIMEOUT, BYTES)
    };
    let mut body = Vec::new();
    match web.get(asked, &mut body) {
        Ok(Answer::New(_)) => {}
        Ok(Answer::Unchanged) => body.clear(),
        Err(error) => {
            let (reason, advice) = advice(&error);
            return Err(failed(reason, format!("{}: {error}", app.endpoint), advice));
        }
    }
    let given: Option<Given> = serde_json::from_slice(&body).ok();
    let sound = |given: &Given| {
        !given.token.is_empty() && given.token.bytes().all(|c| c.is_ascii_graphic())
    };
    match given.filter(sound) {
        Some(given) => {
            let life = Duration::try_from(given.expires_at.duration_since(now)).unwrap_or_default();
            Ok((SecretString::from(given.token), life.min(LONGEST)))
        }
        None => Err(failed(
            Reason::Remote,
            format!("{} answered with something else", app.endpoint),
            "; see githubAppBaseURL",
        )),
    }
}

fn advice(error: &WebError) -> (Reason, &'static str) {
    match error {
        WebError::Unauthorized(_) => (
            Reason::AuthenticationFailed,
            "; see githubAppID and githubAppPrivateKey, and that this machine's clock is right",
        ),
        WebError::Status(403 | 404 | 422) => (
            Reason::AuthenticationFailed,
            "; see githubAppInstallationID, and whether the App is still installed there",
        ),
        other => (other.reason(), ""),
    }
}
