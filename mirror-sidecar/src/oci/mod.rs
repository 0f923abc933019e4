//! Charts in OCI registries, as helm pushes them: tags, manifests and blobs over HTTP.
//!
//! It speaks the distribution specification through [`crate::web`], so that all its guards
//! hold here, too. A credential goes to the registry and to the server of tokens that the
//! registry itself names, and nowhere else; what comes is believed only by its digest.

mod challenge;
mod error;
mod manifest;
pub mod place;
mod tags;
mod token;

use std::collections::BTreeSet;
use std::io::Write;
use std::time::{Duration, Instant};

use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest as _, Sha256};
use url::Url;

use crate::address::Scheme;
use crate::credentials::Access;
use crate::range::Range;
use crate::web::{self, Answer, Asked, Head, Method, Web, WebError};
use challenge::Challenge;
pub use error::{OciError, Reach};
pub use manifest::Blob;
pub use place::{Place, Wish};
use tags::Sample;
pub use token::Tokens;

/// Bytes of an answer that is only looked at for what is said of it.
const NOTHING: u64 = 0;

/// One registry, for as long as one look at it lasts.
#[derive(Debug)]
pub struct Registry<'a> {
    /// The HTTP client.
    pub web: &'a Web,
    /// Where it is.
    pub place: &'a Place,
    /// Whom to trust. It proves nothing by itself.
    pub trust: &'a Access,
    /// The proof of who asks.
    pub proof: &'a Access,
    /// Schemes that redirects may lead to.
    pub allowed: &'a BTreeSet<Scheme>,
    /// For each exchange, and for a list of tags all in all.
    pub timeout: Duration,
    /// What was given out before.
    pub tokens: &'a mut Tokens,
}

/// A manifest, and its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// `sha256:<hex>`.
    pub digest: String,
    /// The chart's archive.
    pub archive: Blob,
}

/// What there is to choose from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The newest within the range, what is held, and the newest of all: each if it is there.
    pub versions: Vec<semver::Version>,
    /// How many tags there are.
    pub tags: usize,
}

impl Registry<'_> {
    /// The digest that `tag` stands for now: one small question.
    ///
    /// # Errors
    /// If there is no such tag, or it isn't to be had.
    pub fn digest(&mut self, repository: &str, tag: &str) -> Result<String, OciError> {
        let url = self.url(repository, "manifests", tag)?;
        let shown = self.shown(repository);
        let what = || match tag.split('.').count() {
            1 | 2 if tag.starts_with(|c: char| c.is_ascii_digit()) => {
                format!("tag {tag:?} in {shown} (for a range write {tag}.x)")
            }
            _ => format!("tag {tag:?} in {shown}"),
        };
        let accept = Some(manifest::ACCEPT);
        let asked = (Method::Head, accept, NOTHING);
        let head = self.ask(repository, &url, asked, &mut std::io::sink(), &what)?;
        match head.header("docker-content-digest") {
            Some(digest) if place::is_digest(digest) => Ok(digest.to_owned()),
            // The specification leaves it to the registry to say.
            _ => {
                let asked = (Method::Get, accept, manifest::BYTES);
                let mut content = Vec::new();
                self.ask(repository, &url, asked, &mut content, &what)?;
                Ok(digest_of(&content))
            }
        }
    }

    /// The manifest that has this digest.
    ///
    /// # Errors
    /// If there is none, it has another one, or it is none of a chart.
    pub fn manifest(&mut self, repository: &str, digest: &str) -> Result<Manifest, OciError> {
        let url = self.url(repository, "manifests", digest)?;
        let shown = self.shown(repository);
        let what = || format!("manifest {digest} in {shown}");
        let asked = (Method::Get, Some(manifest::ACCEPT), manifest::BYTES);
        let mut content = Vec::new();
        self.ask(repository, &url, asked, &mut content, &what)?;
        let found = digest_of(&content);
        if found != digest {
            let asked = digest.to_owned();
            return Err(OciError::Digest { asked, found });
        }
        Ok(Manifest {
            digest: found,
            archive: manifest::chart(&content)?,
        })
    }

    /// A blob, of at most `limit` bytes.
    ///
    /// # Errors
    /// If there is none, it is larger, or isn't what its digest says.
    pub fn blob(&mut self, repository: &str, blob: &Blob, limit: u64) -> Result<Vec<u8>, OciError> {
        let url = self.url(repository, "blobs", &blob.digest)?;
        let what = || {
            format!(
                "blob {} in {repository}, which the chart's manifest names",
                blob.digest
            )
        };
        if blob.size > limit {
            return Err(WebError::TooLarge(limit).into());
        }
        let mut content = Vec::new();
        let asked = (Method::Get, None, limit);
        self.ask(repository, &url, asked, &mut content, &what)?;
        let found = digest_of(&content);
        if found == blob.digest {
            Ok(content)
        } else {
            let asked = blob.digest.clone();
            Err(OciError::Digest { asked, found })
        }
    }

    /// Looks through all tags of a repository for what `range` takes, and for `held`.
    ///
    /// # Errors
    /// If the tags aren't to be had.
    pub fn versions(
        &mut self,
        repository: &str,
        range: &Range,
        held: Option<&str>,
    ) -> Result<Versions, OciError> {
        let first = format!("list?n={}", tags::TAGS);
        let mut url = self.url(repository, "tags", &first)?;
        let shown = self.shown(repository);
        let what = || format!("repository {shown}");
        let mut sample = Sample::of(range, held);
        let (mut count, mut left) = (0, tags::ALL);
        let end = Instant::now() + self.timeout;
        for _ in 0..tags::PAGES {
            let limit = tags::BYTES.min(left);
            let timeout = end.saturating_duration_since(Instant::now());
            let endless = |within: String| OciError::Endless {
                tags: count,
                within,
            };
            let too_late = || endless(format!("{} s", self.timeout.as_secs_f32()));
            if timeout.is_zero() {
                return Err(too_late());
            }
            let mut hurried = Registry {
                timeout,
                tokens: self.tokens,
                ..*self
            };
            let mut page = Vec::new();
            let asked = (Method::Get, None, limit);
            let head = match hurried.ask(repository, &url, asked, &mut page, &what) {
                Err(OciError::NotFound(_)) => return Err(OciError::NoRepository(shown)),
                Err(OciError::Web(WebError::Timeout(_))) if count > 0 => return Err(too_late()),
                Err(OciError::Web(WebError::TooLarge(_))) if limit < tags::BYTES => {
                    return Err(endless(format!("{} MiB", tags::ALL >> 20)));
                }
                answer => answer?,
            };
            left = left.saturating_sub(page.len() as u64);
            count += tags::read(&page, &mut |tag| {
                if let Some(version) = place::version_of(tag) {
                    sample.see(&version);
                }
            })?;
            match tags::next(head.header("link"), &url)? {
                Some(next) => url = next,
                None => {
                    return Ok(Versions {
                        versions: sample.versions(),
                        tags: count,
                    });
                }
            }
        }
        Err(OciError::Endless {
            tags: count,
            within: format!("{} pages", tags::PAGES),
        })
    }

    /// A repository, and what may be wrong with its name.
    fn shown(&self, repository: &str) -> String {
        let name = repository.rsplit('/').next().unwrap_or_default();
        match self.place.ends_with(name) {
            true => format!(
                "{repository} (the URL ends with {name} already, and the chart's name is added to it)"
            ),
            false => repository.to_owned(),
        }
    }

    fn url(&self, repository: &str, kind: &str, rest: &str) -> Result<Url, OciError> {
        let text = format!("{}/v2/{repository}/{kind}/{rest}", self.place.base);
        // Its parts were looked at before, so this is only for the type.
        Url::parse(&text).map_err(|_| OciError::Url(self.place.host.clone(), "it is no address"))
    }

    /// Asks, and once more with a proof of who asks if the registry wants one.
    fn ask(
        &mut self,
        repository: &str,
        url: &Url,
        how: (Method<'_>, Option<&str>, u64),
        sink: &mut dyn Write,
        what: &dyn Fn() -> String,
    ) -> Result<Head, OciError> {
        let (method, accept, limit) = how;
        let mut proven = false;
        loop {
            let known = self.tokens.of(repository, Instant::now());
            let asked = Asked {
                method,
                accept,
                authorization: known,
                ..Asked::plain(url.as_str(), self.trust, self.allowed, self.timeout, limit)
            };
            let code = match self.web.get(asked, sink) {
                Ok(Answer::New(head)) => return Ok(head),
                // Nothing is ever said to be held.
                Ok(Answer::Unchanged) => 304,
                Err(WebError::Unauthorized(challenges)) if !proven => {
                    self.tokens.forget(repository);
                    self.prove(repository, &challenges)?;
                    proven = true;
                    continue;
                }
                Err(WebError::Unauthorized(challenges)) => {
                    self.tokens.forget(repository);
                    if self.proof.basic.is_some() && self.is_basic(&challenges) {
                        return Err(OciError::Login(self.place.host.clone()));
                    }
                    401
                }
                Err(WebError::Status(code)) => code,
                Err(error) => return Err(error.into()),
            };
            return Err(match code {
                404 => OciError::NotFound(what()),
                401 | 403 => OciError::Denied(what(), code, self.need()),
                code => WebError::Status(code).into(),
            });
        }
    }

    /// What it takes to be let in.
    fn need(&self) -> &'static str {
        match anonymous(self.proof) {
            true => "a credential",
            false => "another credential than the one that was given",
        }
    }

    /// Whom to trust where tokens are given out. A client certificate is for the registry.
    fn trust_at(&self, realm: &Url) -> Access {
        let own = Url::parse(&self.place.base).is_ok_and(|base| base.origin() == realm.origin());
        Access {
            ca: self.trust.ca.clone(),
            client: self.trust.client.clone().filter(|_| own),
            ..Access::default()
        }
    }

    fn is_basic(&self, challenges: &[String]) -> bool {
        matches!(
            challenge::choose(challenges, &self.place.base),
            Ok(Challenge::Basic)
        )
    }

    /// Gets what the registry wants to hear.
    fn prove(&mut self, repository: &str, challenges: &[String]) -> Result<(), OciError> {
        if let Some(token) = &self.proof.bearer {
            let header = format!("Bearer {}", token.expose_secret());
            self.tokens.keep(repository, header, None);
            return Ok(());
        }
        match challenge::choose(challenges, &self.place.base)? {
            Challenge::Basic => {
                let Some((user, password)) = &self.proof.basic else {
                    return Err(OciError::NoLogin);
                };
                self.tokens
                    .keep(repository, web::basic(user, password), None);
                Ok(())
            }
            Challenge::Token { realm, service } => {
                let begun = Instant::now();
                let answer = self.token(&realm, service.as_deref(), repository)?;
                let (header, lifetime) = token::read(&answer, &realm)?;
                self.tokens.keep(repository, header, Some(begun + lifetime));
                Ok(())
            }
        }
    }

    fn token(
        &self,
        realm: &Url,
        service: Option<&str>,
        repository: &str,
    ) -> Result<Vec<u8>, OciError> {
        let (form, proof): (Option<SecretString>, Option<SecretString>) = match self.proof {
            Access {
                identity_token: Some(identity),
                ..
            } => (Some(token::form(identity, service, repository)), None),
            Access {
                basic: Some((user, password)),
                ..
            } => (None, Some(SecretString::from(web::basic(user, password)))),
            _ => (None, None),
        };
        let url = match &form {
            Some(_) => realm.clone(),
            None => challenge::question(realm, service, repository),
        };
        let trust = self.trust_at(realm);
        let asked = Asked {
            method: form.as_ref().map_or(Method::Get, Method::Form),
            authorization: proof.as_ref(),
            ..Asked::plain(
                url.as_str(),
                &trust,
                self.allowed,
                self.timeout,
                token::BYTES,
            )
        };
        let mut answer = Vec::new();
        let place = || realm.origin().ascii_serialization();
        match self.web.get(asked, &mut answer) {
            Ok(_) => Ok(answer),
            // Some say so to wrong passwords, others of repositories that one may not see.
            Err(WebError::Status(code @ (400 | 403))) => {
                let what = format!("repository {}", self.shown(repository));
                Err(OciError::Denied(what, code, self.need()))
            }
            Err(WebError::Unauthorized(_)) if !anonymous(self.proof) => {
                Err(OciError::Login(place()))
            }
            Err(WebError::Unauthorized(_)) => {
                let what = format!("repository {}", self.shown(repository));
                Err(OciError::Denied(what, 401, self.need()))
            }
            Err(error) => Err(OciError::Token(place(), error)),
        }
    }
}

/// Whether there is nothing to prove who asks.
fn anonymous(proof: &Access) -> bool {
    proof.basic.is_none() && proof.bearer.is_none() && proof.identity_token.is_none()
}

/// The digest by which a registry names content.
fn digest_of(content: &[u8]) -> String {
    let hex = data_encoding::HEXLOWER.encode(&Sha256::digest(content));
    format!("sha256:{hex}")
}

#[cfg(test)]
mod tests;
