//! Smart http and https: an own small server in front of `git http-backend`,
//! and of plain files, with knobs for what goes wrong on real networks.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, Request as HttpRequest, Response, StatusCode, header};
use axum::response::IntoResponse;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::Upstreams;
use super::files::Files;
use crate::guard;
use crate::pki::{Authority, Identity};
use crate::wait::{LONG, Look, until};

/// How often a stalled request looks whether it is still to wait.
const STALLED: Duration = Duration::from_millis(10);

/// What the server does instead of serving at once.
#[derive(Clone, Debug, Default)]
pub struct Knobs {
    /// Basic authentication: user and password that are let in.
    pub login: Option<(String, String)>,
    /// A bearer token that is let in.
    pub token: Option<String>,
    /// Answer this status to everything.
    pub status: Option<u16>,
    /// Redirect everybody who is let in to the same path below this address.
    pub redirect: Option<String>,
    /// Redirect what lies below the first path to the same below the second address,
    /// without asking who it is.
    pub moved: Option<(String, String)>,
    /// Take requests, and answer none of them as long as this is set.
    pub stall: bool,
    /// The same for paths with this end alone.
    pub stall_only: Option<String>,
    /// The same for fetches that want one of these objects.
    pub stall_wants: Vec<String>,
    /// Send the answer byte by byte with this pause between two.
    pub drip: Option<Duration>,
    /// Wait so long before an answer.
    pub delay: Option<Duration>,
    /// Serve repositories as a plain web server serves their files.
    pub dumb: bool,
    /// Speak the first version of the protocol, whatever is asked for.
    pub old: bool,
}

impl Knobs {
    fn stalls(&self, path: &str, body: &[u8]) -> bool {
        let this = |end: &String| path.ends_with(end.as_str());
        let body = String::from_utf8_lossy(body);
        let wants = |id: &String| body.contains(&format!("want {id}"));
        self.stall
            || self.stall_only.as_ref().is_some_and(this)
            || self.stall_wants.iter().any(wants)
    }
}

/// One request that came in.
#[derive(Clone, Debug)]
pub struct Request {
    /// `GET` or `POST`.
    pub method: String,
    /// The path, from the first slash.
    pub path: String,
    /// The `Git-Protocol` header.
    pub protocol: String,
    /// The body as it came; a fetch's wants and haves stand in it.
    pub body: Vec<u8>,
    /// The `Authorization` header.
    pub authorization: Option<String>,
    /// The status of the answer; `None` while there is none.
    pub status: Option<u16>,
    /// The size of the answer's body; 0 while there is none.
    pub answered: usize,
}

/// Which kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// In the clear.
    Http,
    /// With a certificate of the server's own authority.
    Https,
    /// The same, and nobody is let in without a certificate of that authority.
    Mutual,
}

struct Shared {
    root: PathBuf,
    files: Files,
    knobs: Mutex<Knobs>,
    requests: Mutex<Vec<Request>>,
}

/// A running server over a folder of repositories. Dropping it ends it.
pub struct HttpServer {
    shared: Arc<Shared>,
    scheme: Scheme,
    address: SocketAddr,
    authority: Arc<Authority>,
    authority_file: PathBuf,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl HttpServer {
    /// Starts it on a free port.
    pub fn start(upstreams: &Upstreams, scheme: Scheme) -> Result<Self> {
        Self::start_at(upstreams, scheme, 0)
    }

    /// Starts it on a port that it had before, or that was kept for it.
    pub fn start_at(upstreams: &Upstreams, scheme: Scheme, port: u16) -> Result<Self> {
        let authority = Arc::new(Authority::new("tandem test git server")?);
        Self::start_under(upstreams, scheme, port, authority)
    }

    /// Starts another one of the same kind, which trusts and is trusted as this one.
    pub fn beside(&self, upstreams: &Upstreams) -> Result<Self> {
        Self::start_under(upstreams, self.scheme, 0, Arc::clone(&self.authority))
    }

    fn start_under(
        upstreams: &Upstreams,
        scheme: Scheme,
        port: u16,
        authority: Arc<Authority>,
    ) -> Result<Self> {
        let authority_file = guard::folder("https")?.join("ca.crt");
        guard::write(&authority_file, authority.pem())?;
        let acceptor = match scheme {
            Scheme::Http => None,
            Scheme::Https | Scheme::Mutual => Some(acceptor(&authority, scheme)?),
        };
        let shared = Arc::new(Shared {
            root: upstreams.root().to_owned(),
            files: Files::default(),
            knobs: Mutex::default(),
            requests: Mutex::default(),
        });
        let listener = std::net::TcpListener::bind(("127.0.0.1", port))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let router = Router::new().fallback(serve).with_state(shared.clone());
        // A thread of its own: the server outlives the runtime of one test.
        let thread = std::thread::Builder::new().name("git-http".into()).spawn(move || {
            runtime.block_on(async {
                let Ok(listener) = TcpListener::from_std(listener) else { return };
                match acceptor {
                    None => tokio::select! { _ = axum::serve(listener, router) => {}, _ = stopped => {} },
                    Some(acceptor) => {
                        let listener = TlsListener::new(listener, acceptor, address);
                        tokio::select! { _ = axum::serve(listener, router) => {}, _ = stopped => {} }
                    }
                }
            });
            runtime.shutdown_background();
        })?;
        Ok(Self {
            shared,
            scheme,
            address,
            authority,
            authority_file,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// The address of `<name>.git`.
    pub fn url(&self, name: &str) -> String {
        format!("{}/{name}.git", self.base())
    }

    /// Serves a plain file, or another content of it.
    pub fn put_file(&self, name: &str, content: impl AsRef<[u8]>) {
        self.shared.files.put(name, content.as_ref());
    }

    /// Takes away a plain file.
    pub fn remove_file(&self, name: &str) {
        self.shared.files.remove(name);
    }

    /// The address of a plain file, which need not be there.
    pub fn file_url(&self, name: &str) -> String {
        Files::url(&self.base(), name)
    }

    /// The server's address without a path.
    pub fn base(&self) -> String {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https | Scheme::Mutual => "https",
        };
        format!("{scheme}://127.0.0.1:{}", self.address.port())
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The authority's certificate, to trust an https server by.
    pub fn authority(&self) -> &Path {
        &self.authority_file
    }

    /// A client's certificate of the server's own authority, and its key.
    pub fn client(&self) -> Result<Identity> {
        self.authority.client("ada", "tests")
    }

    /// Changes how requests from now on are answered.
    pub fn set(&self, change: impl FnOnce(&mut Knobs)) {
        change(&mut lock(&self.shared.knobs));
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.shared.requests).clone()
    }

    /// Waits until a request is there that isn't answered.
    ///
    /// # Errors
    /// When none comes.
    pub async fn stalled(&self) -> Result<()> {
        until("a request that waits for its answer", LONG, || async {
            let requests = self.requests();
            let waits = requests.iter().any(|one| one.status.is_none());
            Ok(Look::when(waits, format!("{} requests", requests.len())))
        })
        .await
    }

    /// Forgets the requests so far.
    pub fn clear(&self) {
        lock(&self.shared.requests).clear();
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

async fn serve(State(shared): State<Arc<Shared>>, request: HttpRequest<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, usize::MAX).await else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let text = |name: &str| {
        parts
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned)
    };
    let place = {
        let mut requests = lock(&shared.requests);
        requests.push(Request {
            method: parts.method.to_string(),
            path: parts.uri.to_string(),
            protocol: text("git-protocol").unwrap_or_default(),
            body: body.to_vec(),
            authorization: text("authorization"),
            status: None,
            answered: 0,
        });
        requests.len() - 1
    };
    while lock(&shared.knobs).stalls(parts.uri.path(), &body) {
        tokio::time::sleep(STALLED).await;
    }
    let knobs = lock(&shared.knobs).clone();
    if let Some(delay) = knobs.delay {
        tokio::time::sleep(delay).await;
    }
    let response = decide(&shared, &knobs, &parts, body).await;
    let (head, body) = response.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX)
        .await
        .unwrap_or_default();
    if let Some(request) = lock(&shared.requests).get_mut(place) {
        request.status = Some(head.status.as_u16());
        request.answered = body.len();
    }
    match knobs.drip {
        Some(pause) => Response::from_parts(head, drip(body, pause)),
        None => Response::from_parts(head, Body::from(body)),
    }
}

async fn decide(
    shared: &Shared,
    knobs: &Knobs,
    parts: &axum::http::request::Parts,
    body: Bytes,
) -> Response<Body> {
    let path = parts.uri.to_string();
    if let Some((from, to)) = &knobs.moved
        && let Some(rest) = path.strip_prefix(from)
    {
        let to = format!("{to}{rest}");
        return (StatusCode::MOVED_PERMANENTLY, [(header::LOCATION, to)]).into_response();
    }
    if let Some(status) = knobs
        .status
        .and_then(|code| StatusCode::from_u16(code).ok())
    {
        return status.into_response();
    }
    let login = knobs.login.as_ref();
    let basic = login.map(|(user, password)| STANDARD.encode(format!("{user}:{password}")));
    for (kind, wanted) in [("Basic", &basic), ("Bearer", &knobs.token)] {
        if let Some(wanted) = wanted
            && !lets_in(&parts.headers, &format!("{kind} {wanted}"))
        {
            let challenge = [(header::WWW_AUTHENTICATE, format!("{kind} realm=\"tests\""))];
            return (StatusCode::UNAUTHORIZED, challenge).into_response();
        }
    }
    if let Some(base) = &knobs.redirect {
        return (
            StatusCode::FOUND,
            [(header::LOCATION, format!("{base}{}", parts.uri))],
        )
            .into_response();
    }
    if let Some(response) = shared.files.answer(parts) {
        return response;
    }
    let user = knobs.login.as_ref().map(|(user, _)| user.as_str());
    let mut parts = parts.clone();
    if knobs.old {
        parts.headers.remove("git-protocol");
    }
    if knobs.dumb {
        if parts.method == Method::POST {
            return StatusCode::METHOD_NOT_ALLOWED.into_response();
        }
        // Without the query it is a file like all others.
        parts.uri = parts.uri.path().parse().unwrap_or_default();
    }
    match super::cgi::answer(&shared.root, &parts, body, user).await {
        Ok(response) => response,
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}")).into_response(),
    }
}

fn lets_in(headers: &HeaderMap, wanted: &str) -> bool {
    headers
        .get(header::AUTHORIZATION)
        .is_some_and(|given| given.as_bytes() == wanted.as_bytes())
}

fn drip(body: Bytes, pause: Duration) -> Body {
    let bytes = futures::stream::iter((0..body.len()).map(move |at| body.slice(at..=at)));
    Body::from_stream(bytes.then(move |byte| async move {
        tokio::time::sleep(pause).await;
        Ok::<_, std::convert::Infallible>(byte)
    }))
}

fn acceptor(authority: &Authority, scheme: Scheme) -> Result<TlsAcceptor> {
    let identity = authority.server(&["127.0.0.1", "localhost"])?;
    let certificate =
        CertificateDer::from_pem_slice(identity.certificate.as_bytes()).context("certificate")?;
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).context("key")?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let builder = if scheme == Scheme::Mutual {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes())?)?;
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
        builder.with_client_cert_verifier(verifier)
    } else {
        builder.with_no_client_auth()
    };
    let config = builder.with_single_cert(vec![certificate], key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Hands out connections whose handshake is done, each made beside the others.
struct TlsListener {
    ready: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    address: SocketAddr,
}

impl TlsListener {
    fn new(listener: TcpListener, acceptor: TlsAcceptor, address: SocketAddr) -> Self {
        let (sender, ready) = mpsc::channel(16);
        tokio::spawn(async move {
            while let Ok((stream, peer)) = listener.accept().await {
                let (acceptor, sender) = (acceptor.clone(), sender.clone());
                tokio::spawn(async move {
                    // A client that doesn't trust the authority hangs up here.
                    if let Ok(stream) = acceptor.accept(stream).await {
                        let _ = sender.send((stream, peer)).await;
                    }
                });
            }
        });
        Self { ready, address }
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(connection) => connection,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        Ok(self.address)
    }
}
