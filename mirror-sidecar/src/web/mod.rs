//! What lies behind URLs: one exchange over HTTP, with everything about it bounded.
//!
//! A HelmRelease names the URL, so neither it nor what it leads to is a
//! friend's word: schemes come from an allow-list, redirects are followed here
//! and not by the client, a password goes to its own origin alone, and there
//! is one deadline and one size for all of it. What comes is written where the
//! caller says, so that a large answer is never held in memory.

mod error;
mod places;
mod proxy;
mod target;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use ureq::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Agent, Body, RequestBuilder};
use url::Url;

use crate::address::Scheme;
use crate::credentials::Access;
pub use error::WebError;
use places::Places;
pub(crate) use places::literal;
use proxy::Proxies;
pub use target::parse;

/// Redirects that are followed.
const REDIRECTS: usize = 5;
/// Bytes of a body that are taken at once.
const PIECE: usize = 64 * 1024;

/// How is asked.
#[derive(Clone, Copy, Debug)]
pub enum Method<'a> {
    /// For the whole.
    Get,
    /// For what is said of it alone.
    Head,
    /// With a form, as a browser sends one. Redirects aren't followed: it is for one place.
    Form(&'a SecretString),
    /// With lines of git's protocol, version 2, for its upload-pack. Redirects aren't followed.
    Packets(&'a [u8]),
}

/// What one exchange asks for, and what it may use.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// How.
    pub method: Method<'a>,
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
    /// The `Accept` header, if one is to be sent.
    pub accept: Option<&'a str>,
    /// The whole value of the `Authorization` header, instead of what `access` would send.
    /// Like that it goes to the URL's own origin alone.
    pub authorization: Option<&'a SecretString>,
}

impl<'a> Asked<'a> {
    /// Asks for all of `url` as it is, at most `limit` bytes.
    #[must_use]
    pub fn plain(
        url: &'a str,
        access: &'a Access,
        allowed: &'a BTreeSet<Scheme>,
        timeout: Duration,
        limit: u64,
    ) -> Self {
        Self {
            method: Method::Get,
            url,
            access,
            allowed,
            timeout,
            limit,
            held: None,
            accept: None,
            authorization: None,
        }
    }
}

/// How a server tells one content of a URL from another. It may lie on a disk, so that a
/// successor can ask by it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// Where it came from, after all redirects.
    place: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_modified: Option<String>,
}

/// What came of an exchange.
#[derive(Clone, Debug)]
pub enum Answer {
    /// What is held is the newest.
    Unchanged,
    /// The body was written; this was said of it.
    New(Head),
}

/// What a server says of a body that it gave whole, with status 200.
#[derive(Clone, Debug)]
pub struct Head {
    headers: HeaderMap,
    /// Bytes of the body.
    pub length: u64,
    /// By which the next exchange may ask whether it still is the newest.
    pub version: Option<Version>,
}

impl Head {
    /// The text of a header, if it is there and is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Refuses a body that was compressed on its way, which is never asked for.
    ///
    /// # Errors
    /// Names the encoding.
    pub fn as_it_is(&self) -> Result<(), WebError> {
        match self.header(header::CONTENT_ENCODING.as_str()) {
            Some(encoding) if !encoding.eq_ignore_ascii_case("identity") => {
                Err(WebError::Encoded(encoding.chars().take(40).collect()))
            }
            _ => Ok(()),
        }
    }
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

    /// Asks for what is behind a URL, following redirects, and writes it into `sink`.
    /// Blocks the thread. After an error `sink` may hold a part of it.
    ///
    /// # Errors
    /// Says why there is nothing, without what is secret.
    pub fn get(&self, asked: Asked<'_>, sink: &mut dyn Write) -> Result<Answer, WebError> {
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
            let held = asked.held.filter(|held| held.place == place_of(&at));
            let known = at.origin() == start.origin();
            let place = |error: WebError| error.within(asked.timeout).behind(&start, &at);
            let answer = self.once(&at, &asked, known, held, left).map_err(place)?;
            let status = answer.status();
            if is_redirect(status) {
                if let Method::Form(_) | Method::Packets(_) = asked.method {
                    return Err(WebError::Redirects(0));
                }
                let location = text(answer.headers(), header::LOCATION);
                at = target::redirect(&at, location.as_deref(), asked.allowed)?;
                continue;
            }
            return match status.as_u16() {
                201 if matches!(asked.method, Method::Form(_)) => {
                    body(answer, &at, asked.limit, sink).map(Answer::New)
                }
                200 => body(answer, &at, asked.limit, sink).map(Answer::New),
                304 if held.is_some() => return Ok(Answer::Unchanged),
                401 => Err(WebError::Unauthorized(challenges(answer.headers()))),
                code => Err(WebError::Status(code)),
            }
            .map_err(place);
        }
        Err(WebError::Redirects(REDIRECTS))
    }

    /// Where a URL leads by one redirect; nothing if it leads nowhere else, whatever is there.
    /// Blocks the thread.
    ///
    /// # Errors
    /// If it can't be asked, or leads to where nobody may be led.
    pub fn leads(&self, asked: Asked<'_>) -> Result<Option<Url>, WebError> {
        let at = target::url(asked.url)?;
        let answer = self
            .once(&at, &asked, true, None, asked.timeout)
            .map_err(|error| error.within(asked.timeout))?;
        if !is_redirect(answer.status()) {
            return Ok(None);
        }
        let location = text(answer.headers(), header::LOCATION);
        target::redirect(&at, location.as_deref(), asked.allowed).map(Some)
    }

    fn once(
        &self,
        url: &Url,
        asked: &Asked<'_>,
        known: bool,
        held: Option<&Version>,
        left: Duration,
    ) -> Result<Response<Body>, WebError> {
        let proxy = self.proxies.get_or_init(Proxies::of_process).of(url)?;
        if proxy.is_some() {
            // The proxy looks up names; an address that stands there needs none.
            places::literal(url)?;
        }
        let tls = match url.scheme() {
            "https" => Some(self.tls(asked.access, known)?),
            _ => None,
        };
        let dress = Dress {
            asked,
            known,
            held,
            left,
            proxy,
            tls,
        };
        let (agent, url) = (self.agent(), url.as_str());
        let answer = match asked.method {
            Method::Get => dress.put_on(agent.get(url)).call(),
            Method::Head => dress.put_on(agent.head(url)).call(),
            Method::Form(form) => dress
                .put_on(agent.post(url))
                .content_type("application/x-www-form-urlencoded")
                .send(form.expose_secret()),
            Method::Packets(lines) => dress
                .put_on(agent.post(url))
                .content_type("application/x-git-upload-pack-request")
                .header("git-protocol", "version=2")
                .send(lines),
        };
        answer.map_err(WebError::from)
    }

    /// Whom is trusted, and who this process is to an origin that is `known`.
    fn tls(&self, access: &Access, known: bool) -> Result<TlsConfig, WebError> {
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
        let roots = match &access.ca {
            None => roots,
            Some(path) => {
                let own = rustls_native_certs::load_certs_from_paths(Some(path), None);
                let mut all = certificates(own);
                if all.is_empty() {
                    return Err(WebError::NoAuthority);
                }
                all.extend(roots.iter().cloned());
                Arc::new(all)
            }
        };
        if roots.is_empty() {
            return Err(WebError::NoRoots);
        }
        let client = access.client.as_ref().filter(|_| known);
        Ok(TlsConfig::builder()
            .client_cert(client.map(|client| client.identity.clone()))
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

/// The `Authorization` header of a user and password.
#[must_use]
pub fn basic(user: &str, password: &SecretString) -> String {
    let pair = format!("{user}:{}", password.expose_secret());
    let word = data_encoding::BASE64.encode(pair.as_bytes());
    format!("Basic {word}")
}

/// What proves who asks.
fn authorization(asked: &Asked<'_>) -> Option<String> {
    if let Some(own) = asked.authorization {
        return Some(own.expose_secret().to_owned());
    }
    match (&asked.access.basic, &asked.access.bearer) {
        (Some((user, password)), _) => Some(basic(user, password)),
        (None, Some(token)) => Some(format!("Bearer {}", token.expose_secret())),
        (None, None) => None,
    }
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// What goes with a request, whatever its method.
struct Dress<'a> {
    asked: &'a Asked<'a>,
    known: bool,
    held: Option<&'a Version>,
    left: Duration,
    proxy: Option<ureq::Proxy>,
    tls: Option<TlsConfig>,
}

impl Dress<'_> {
    fn put_on<B>(self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        let mut request = request
            .config()
            .timeout_global(Some(self.left))
            .proxy(self.proxy);
        if let Some(tls) = self.tls {
            request = request.tls_config(tls);
        }
        let mut request = conditional(request.build(), self.held);
        if let Some(accept) = self.asked.accept {
            request = request.header(header::ACCEPT, accept);
        }
        if self.known
            && let Some(proof) = authorization(self.asked)
        {
            request = request.header(header::AUTHORIZATION, proof);
        }
        request
    }
}

fn conditional<B>(mut request: RequestBuilder<B>, held: Option<&Version>) -> RequestBuilder<B> {
    let Some(held) = held else { return request };
    for (name, text) in [
        (header::IF_NONE_MATCH, &held.etag),
        (header::IF_MODIFIED_SINCE, &held.last_modified),
    ] {
        // It may have lain on a disk; what no header can be is left out.
        let value = text
            .as_ref()
            .and_then(|text| HeaderValue::from_str(text).ok());
        if let Some(value) = value {
            request = request.header(name, value);
        }
    }
    request
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

/// How the server says that one may prove who asks.
fn challenges(headers: &HeaderMap) -> Vec<String> {
    let all = headers.get_all(header::WWW_AUTHENTICATE);
    let texts = all.iter().filter_map(|value| value.to_str().ok());
    texts.take(8).map(ToOwned::to_owned).collect()
}

/// A URL, told from others without being shown: its query may be a token.
fn place_of(url: &Url) -> String {
    tandem_shared::names::sha256_hex(&[url.as_str().as_bytes()])
}

/// Writes the body into `sink`, piece by piece.
fn body(
    answer: Response<Body>,
    url: &Url,
    limit: u64,
    sink: &mut dyn Write,
) -> Result<Head, WebError> {
    let (parts, body) = answer.into_parts();
    if body.content_length().is_some_and(|length| length > limit) {
        return Err(WebError::TooLarge(limit));
    }
    let mut reader = body.into_reader();
    let mut piece = vec![0; PIECE];
    let mut length = 0_u64;
    loop {
        let read = match reader.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(WebError::from(ureq::Error::from(error))),
        };
        length += read as u64;
        if length > limit {
            return Err(WebError::TooLarge(limit));
        }
        sink.write_all(&piece[..read])
            .map_err(|error| WebError::Sink(error.to_string()))?;
    }
    let version = Version {
        place: place_of(url),
        etag: text(&parts.headers, header::ETAG),
        last_modified: text(&parts.headers, header::LAST_MODIFIED),
    };
    let told = version.etag.is_some() || version.last_modified.is_some();
    Ok(Head {
        headers: parts.headers,
        length,
        version: told.then_some(version),
    })
}

#[cfg(test)]
mod tests;
