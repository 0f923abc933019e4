//! What GitHub does for its Apps: a token for a statement that the App's key signed.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rustls::SignatureScheme;
use serde_json::{Value, json};

use crate::guard;

/// An App's private key as GitHub gives it out, and the public one that GitHub keeps.
pub struct AppKey {
    /// PEM, PKCS #1.
    pub private: String,
    /// DER, PKCS #1.
    public: Vec<u8>,
}

impl AppKey {
    /// A new one.
    ///
    /// # Errors
    /// Without OpenSSH's client.
    pub fn new() -> Result<Self> {
        let path = guard::folder("app")?.join("key");
        let keygen = |args: &[&str]| -> Result<String> {
            let output = Command::new("ssh-keygen").args(args).arg(&path).output()?;
            if !output.status.success() {
                bail!("ssh-keygen: {}", String::from_utf8_lossy(&output.stderr));
            }
            Ok(String::from_utf8(output.stdout)?)
        };
        keygen(&["-q", "-t", "rsa", "-b", "2048", "-m", "PEM", "-N", "", "-f"])?;
        let public = keygen(&["-e", "-m", "PEM", "-f"])?;
        let body: String = public
            .lines()
            .filter(|line| !line.starts_with("-----"))
            .collect();
        Ok(Self {
            private: std::fs::read_to_string(&path)?,
            public: STANDARD.decode(body)?,
        })
    }
}

/// One statement that was verified.
#[derive(Clone, Debug)]
pub struct Stated {
    /// Which installation a token was asked for.
    pub installation: String,
    /// What was said.
    pub claims: Value,
}

#[derive(Default)]
struct Shared {
    public: Vec<u8>,
    /// The next token, and how many seconds it is good for.
    token: (String, i64),
    stated: Vec<Stated>,
    /// `orgs/<name>` or `users/<name>`, and the id of the installation there.
    installed: BTreeMap<String, u64>,
    refused: usize,
}

/// A server that gives tokens. Dropping it ends it.
pub struct TokenServer {
    shared: Arc<Mutex<Shared>>,
    address: SocketAddr,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl TokenServer {
    /// Starts it on a free port, for the App with this key.
    pub fn start(key: &AppKey) -> Result<Self> {
        let shared = Arc::new(Mutex::new(Shared {
            public: key.public.clone(),
            ..Shared::default()
        }));
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let router = Router::new()
            .route(
                "/api/v3/app/installations/{installation}/access_tokens",
                post(give),
            )
            .route("/api/v3/{kind}/{owner}/installation", get(find))
            .with_state(Arc::clone(&shared));
        let thread = std::thread::Builder::new()
            .name("tokens".into())
            .spawn(move || {
                runtime.block_on(async {
                    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
                        return;
                    };
                    tokio::select! { _ = axum::serve(listener, router) => {}, _ = stopped => {} }
                });
                runtime.shutdown_background();
            })?;
        Ok(Self {
            shared,
            address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// What `githubAppBaseURL` must be.
    pub fn base(&self) -> String {
        format!("http://{}/api/v3", self.address)
    }

    /// From now on this token is given, good for so many seconds.
    pub fn give(&self, token: &str, seconds: i64) {
        lock(&self.shared).token = (token.to_owned(), seconds);
    }

    /// From now on the App is installed there (`orgs/<name>` or `users/<name>`) by this id,
    /// and nowhere else.
    pub fn install(&self, place: &str, id: u64) {
        lock(&self.shared).installed = BTreeMap::from([(place.to_owned(), id)]);
    }

    /// Every statement so far for which a token was given.
    pub fn stated(&self) -> Vec<Stated> {
        lock(&self.shared).stated.clone()
    }

    /// How many were refused.
    pub fn refused(&self) -> usize {
        lock(&self.shared).refused
    }
}

impl Drop for TokenServer {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn give(
    State(shared): State<Arc<Mutex<Shared>>>,
    Path(installation): Path<String>,
    headers: HeaderMap,
) -> Response {
    let mut shared = lock(&shared);
    let Ok(claims) = verified(&headers, &shared.public) else {
        shared.refused += 1;
        return (StatusCode::UNAUTHORIZED, "not the App").into_response();
    };
    shared.stated.push(Stated {
        installation,
        claims,
    });
    let (token, seconds) = &shared.token;
    let end = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(*seconds);
    let given = json!({
        "token": token,
        "expires_at": end.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "permissions": {"contents": "read"},
    });
    (StatusCode::CREATED, given.to_string()).into_response()
}

async fn find(
    State(shared): State<Arc<Mutex<Shared>>>,
    Path((kind, owner)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let mut shared = lock(&shared);
    if verified(&headers, &shared.public).is_err() {
        shared.refused += 1;
        return (StatusCode::UNAUTHORIZED, "not the App").into_response();
    }
    match shared.installed.get(&format!("{kind}/{owner}")) {
        Some(id) => (StatusCode::OK, json!({"id": id}).to_string()).into_response(),
        None => (StatusCode::NOT_FOUND, "not installed there").into_response(),
    }
}

/// The claims of a statement that the App's key signed and that is good now.
fn verified(headers: &HeaderMap, public: &[u8]) -> Result<Value> {
    let given = headers.get(header::AUTHORIZATION).context("no header")?;
    let statement = given
        .to_str()?
        .strip_prefix("Bearer ")
        .context("no bearer")?;
    let (said, signature) = statement.rsplit_once('.').context("no signature")?;
    let (head, claims) = said.split_once('.').context("no claims")?;
    let read = |part: &str| -> Result<Value> {
        Ok(serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part)?)?)
    };
    if read(head)?["alg"] != "RS256" {
        bail!("not RS256");
    }
    let signature = URL_SAFE_NO_PAD.decode(signature)?;
    let provider = rustls::crypto::ring::default_provider();
    let schemes = provider.signature_verification_algorithms.mapping;
    let (_, algorithms) = schemes
        .iter()
        .find(|(scheme, _)| *scheme == SignatureScheme::RSA_PKCS1_SHA256)
        .context("no RSA")?;
    let fits = |algorithm: &&dyn rustls::pki_types::SignatureVerificationAlgorithm| {
        algorithm
            .verify_signature(public, said.as_bytes(), &signature)
            .is_ok()
    };
    if !algorithms.iter().any(fits) {
        bail!("not signed by the App");
    }
    let claims = read(claims)?;
    let number = |name: &str| claims[name].as_i64().context("no time");
    let (from, to) = (number("iat")?, number("exp")?);
    let now = jiff::Timestamp::now().as_second();
    if from > now || to <= now || to - from > 660 {
        bail!("not now");
    }
    Ok(claims)
}
