//! Files behind URLs: one GET over HTTP, with everything about it bounded.
//!
//! A HelmRelease names the URL, so neither it nor what it leads to is a
//! friend's word: schemes come from an allow-list, redirects are followed here
//! and not by the client, a password goes to its own origin alone, and there
//! is one deadline and one size for all of it.

mod error;
mod places;
mod proxy;
mod target;

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use secrecy::ExposeSecret;
use ureq::http::{Response, header};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Agent, Body, RequestBuilder, typestate::WithoutBody};
use url::Url;

use crate::address::Scheme;
use crate::credentials::Access;
pub use error::WebError;
use places::Places;
use proxy::Proxies;
pub use target::parse;

/// Redirects that are followed.
const REDIRECTS: usize = 5;

/// What one exchange asks for, and what it may use.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The URL, without user and password.
    pub url: &'a str,
    /// The proof of who asks.
    pub access: &'a Access,
    /// Schemes that redirects may lead to.
    pub allowed: &'a BTreeSet<Scheme>,
    /// For all of it: names, connections, redirects, the body.
    pub timeout: Duration,
    /// Bytes of the body, at most.
    pub limit: u64,
    /// What is held already.
    pub held: Option<&'a Version>,
}

/// How a server tells one content of a URL from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Where it came from, after all redirects.
    url: Url,
    etag: Option<String>,
    last_modified: Option<String>,
}

/// What came of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// What is held is the newest.
    Unchanged,
    /// This is the newest.
    File {
        /// UTF-8 text.
        text: String,
        /// By which the next exchange may ask whether it still is.
        version: Option<Version>,
    },
}

/// The one HTTP client, made when it is first needed.
#[derive(Debug, Default)]
pub struct Web {
    agent: OnceLock<Agent>,
    /// Who is trusted; read when TLS is first spoken.
    roots: OnceLock<Arc<Vec<Certificate<'static>>>>,
    proxies: OnceLock<Proxies>,
}

impl Web {
    /// Cuts short what runs, and lets nothing begin any more.
    pub fn end(&self) {
        self.agent().clone().shutdown();
    }

    fn agent(&self) -> &Agent {
        self.agent.get_or_init(|| {
            let config = Agent::config_builder()
                // Every status and every redirect is looked at here.
                .http_status_as_error(false)
                .max_redirects(0)
                .max_redirects_will_error(false)
                .proxy(None)
                .user_agent(concat!("tandem-mirror-sidecar/", env!("CARGO_PKG_VERSION")))
                .accept_encoding("identity")
                // A poll comes every few minutes: no connection is worth keeping.
                .max_idle_connections(0)
                .build();
            Agent::with_parts(config, DefaultConnector::default(), Places::default())
        })
    }

    /// Asks for a file, following redirects. Blocks the thread.
    ///
    /// # Errors
    /// Says why there is none, without what is secret.
    pub fn get(&self, asked: Asked<'_>) -> Result<Answer, WebError> {
        let end = Instant::now() + asked.timeout;
        let late = || WebError::Timeout(asked.timeout);
        let start = target::url(asked.url)?;
        let mut at = start.clone();
        for _ in 0..=REDIRECTS {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(late());
            }
            // Asked by what it led to the last time, another place would answer wrongly.
            let held = asked.held.filter(|held| held.url == at);
            let known = at.origin() == start.origin();
            let answer = self
                .once(&at, asked.access, known, held, left)
                .map_err(|error| error.within(asked.timeout).behind(&start, &at))?;
            let status = answer.status();
            if matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
                let location = text(&answer, header::LOCATION);
                at = target::redirect(&at, location.as_deref(), asked.allowed)?;
                continue;
            }
            return match status.as_u16() {
                200 => file(answer, &at, asked.limit),
                304 if held.is_some() => return Ok(Answer::Unchanged),
                code => Err(WebError::Status(code)),
            }
            .map_err(|error| error.within(asked.timeout).behind(&start, &at));
        }
        Err(WebError::Redirects(REDIRECTS))
    }

    fn once(
        &self,
        url: &Url,
        access: &Access,
        known: bool,
        held: Option<&Version>,
        left: Duration,
    ) -> Result<Response<Body>, WebError> {
        let proxy = self.proxies.get_or_init(Proxies::of_process).of(url)?;
        if proxy.is_some() {
            // The proxy looks up names; an address that stands there needs none.
            places::literal(url)?;
        }
        let mut request = self
            .agent()
            .get(url.as_str())
            .config()
            .timeout_global(Some(left))
            .proxy(proxy);
        if url.scheme() == "https" {
            request = request.tls_config(self.tls(access.ca.as_deref())?);
        }
        let request = conditional(request.build(), held);
        let request = match &access.basic {
            _ if !known => request,
            Some((user, password)) => {
                let pair = format!("{user}:{}", password.expose_secret());
                let word = data_encoding::BASE64.encode(pair.as_bytes());
                request.header(header::AUTHORIZATION, format!("Basic {word}"))
            }
            None => match &access.bearer {
                Some(token) => {
                    let word = format!("Bearer {}", token.expose_secret());
                    request.header(header::AUTHORIZATION, word)
                }
                None => request,
            },
        };
        request.call().map_err(WebError::from)
    }

    fn tls(&self, ca: Option<&Path>) -> Result<TlsConfig, WebError> {
        let roots = match self.roots.get() {
            Some(roots) => Arc::clone(roots),
            None => {
                let read = Arc::new(certificates(trusted()));
                // Nothing is kept of nothing: a bundle may still be mounted.
                if read.is_empty() {
                    read
                } else {
                    Arc::clone(self.roots.get_or_init(|| read))
                }
            }
        };
        let roots = match ca {
            None => roots,
            Some(path) => {
                let own = rustls_native_certs::load_certs_from_paths(Some(path), None);
                let mut all = certificates(own);
                all.extend(roots.iter().cloned());
                Arc::new(all)
            }
        };
        if roots.is_empty() {
            return Err(WebError::NoRoots);
        }
        Ok(TlsConfig::builder()
            .root_certs(RootCerts::Specific(roots))
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .build())
    }
}

/// Whom git trusts is trusted here, too.
fn trusted() -> rustls_native_certs::CertificateResult {
    let of = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let (file, folder) = (of("GIT_SSL_CAINFO"), of("GIT_SSL_CAPATH"));
    if file.is_none() && folder.is_none() {
        // SSL_CERT_FILE and SSL_CERT_DIR, or where this system keeps them.
        return rustls_native_certs::load_native_certs();
    }
    rustls_native_certs::load_certs_from_paths(
        file.as_deref().map(Path::new),
        folder.as_deref().map(Path::new),
    )
}

fn certificates(read: rustls_native_certs::CertificateResult) -> Vec<Certificate<'static>> {
    for error in read.errors {
        tracing::warn!(%error, "a file of certificates can't be read");
    }
    let owned = |der: &rustls::pki_types::CertificateDer<'_>| Certificate::from_der(der).to_owned();
    read.certs.iter().map(owned).collect()
}

fn conditional(
    mut request: RequestBuilder<WithoutBody>,
    held: Option<&Version>,
) -> RequestBuilder<WithoutBody> {
    let Some(held) = held else { return request };
    if let Some(etag) = &held.etag {
        request = request.header(header::IF_NONE_MATCH, etag);
    }
    if let Some(date) = &held.last_modified {
        request = request.header(header::IF_MODIFIED_SINCE, date);
    }
    request
}

fn text(answer: &Response<Body>, name: header::HeaderName) -> Option<String> {
    Some(answer.headers().get(name)?.to_str().ok()?.to_owned())
}

fn file(answer: Response<Body>, url: &Url, limit: u64) -> Result<Answer, WebError> {
    if let Some(encoding) = text(&answer, header::CONTENT_ENCODING)
        && !encoding.eq_ignore_ascii_case("identity")
    {
        return Err(WebError::Encoded(encoding));
    }
    let version = Version {
        url: url.clone(),
        etag: text(&answer, header::ETAG),
        last_modified: text(&answer, header::LAST_MODIFIED),
    };
    let announced = answer.body().content_length();
    if announced.is_some_and(|length| length > limit) {
        return Err(WebError::TooLarge(limit));
    }
    let mut content = Vec::new();
    answer
        .into_body()
        .into_reader()
        .take(limit.saturating_add(1))
        .read_to_end(&mut content)
        .map_err(|error| WebError::from(ureq::Error::from(error)))?;
    if content.len() as u64 > limit {
        return Err(WebError::TooLarge(limit));
    }
    let text = String::from_utf8(content).map_err(|_| WebError::NotText)?;
    let told = version.etag.is_some() || version.last_modified.is_some();
    Ok(Answer::File {
        text,
        version: told.then_some(version),
    })
}

#[cfg(test)]
mod tests;
