//! Takes deliveries in.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::StreamExt;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::answer::Answer;
use super::receiver::{Event, Receiver};
use super::secrets::{Secrets, SecretsError};
use super::{Address, MOST_BYTES, PATIENCE, push};
use crate::http::{Readiness, SyncRequest};
use crate::metrics::Metrics;
use crate::wanted::SourceFilter;

/// Connections at a time; others wait until one ends, which each does in time.
const CONNECTIONS: usize = 64;
/// Bodies in memory at a time.
const BODIES: usize = 8;
/// Largest body that is read to its end though it is too large. GitHub sends up to 25 MB.
const DROPPED_BYTES: usize = 32 * 1024 * 1024;
/// How long a request's headers may take.
const HEADERS: Duration = Duration::from_secs(5);
/// How long a connection may last: one request, and its answer.
const CONNECTION: Duration = Duration::from_secs(20);
/// After an error of the listening socket, such as too many open files.
const PAUSE: Duration = Duration::from_millis(200);

/// What the handlers work with.
#[derive(Clone)]
pub struct Shared {
    /// All metrics.
    pub metrics: Arc<Metrics>,
    /// What is there already.
    pub ready: watch::Receiver<Readiness>,
    /// Where wishes go.
    pub syncs: mpsc::Sender<SyncRequest>,
    /// The file with the secrets.
    pub secret_file: Option<PathBuf>,
}

#[derive(Clone)]
struct Server {
    shared: Shared,
    bodies: Arc<Semaphore>,
    /// What was last wrong with the secrets, so that it is told once.
    told: Arc<Mutex<String>>,
}

/// Serves until `stop`.
pub async fn serve(listener: TcpListener, shared: Shared, stop: CancellationToken) {
    let server = Server {
        shared,
        bodies: Arc::new(Semaphore::new(BODIES)),
        told: Arc::default(),
    };
    let router = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/api/v1/webhooks/{receiver}", post(receive))
        // Bodies are read by hand, within a bound of their own.
        .layer(DefaultBodyLimit::disable())
        .with_state(server);
    let connections = Arc::new(Semaphore::new(CONNECTIONS));
    let accept = async {
        loop {
            // Never closed.
            let Ok(place) = connections.clone().acquire_owned().await else {
                return;
            };
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    debug!("can't take a connection: {error}");
                    sleep(PAUSE).await;
                    continue;
                }
            };
            let service = TowerToHyperService::new(router.clone());
            tokio::spawn(async move {
                let served = http1::Builder::new()
                    .keep_alive(false)
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEADERS)
                    .serve_connection(TokioIo::new(stream), service);
                // Whatever it ends with is nothing of ours.
                let _ = timeout(CONNECTION, served).await;
                drop(place);
            });
        }
    };
    tokio::select! {
        () = accept => {}
        () = stop.cancelled() => {}
    }
}

async fn receive(
    State(server): State<Server>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let Some(receiver) = Receiver::named(&name) else {
        let known = "there are github, gitlab, bitbucket, gitea (forgejo, gogs) and generic\n";
        return (StatusCode::NOT_FOUND, known).into_response();
    };
    let answer = match server.take(receiver, &headers, body).await {
        Ok(answer) | Err(answer) => answer,
    };
    let (receiver, outcome) = (receiver.as_str(), answer.outcome());
    server.shared.metrics.webhook(receiver, outcome);
    debug!(receiver, outcome, "a webhook was delivered");
    (answer.status(), format!("{}\n", answer.words())).into_response()
}

impl Server {
    /// An error is an answer that comes early.
    async fn take(
        &self,
        receiver: Receiver,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<Answer, Answer> {
        let deadline = Instant::now() + PATIENCE;
        let secrets = self.secrets().await.map_err(|_| Answer::NoSecret)?;
        let proof = match receiver.proof(headers) {
            Err(_) if receiver.is_unsigned_ping(headers) => return Ok(Answer::UnsignedPing),
            proof => proof.map_err(Answer::Refused)?,
        };
        let event = receiver.event(headers);
        let addresses = {
            let place = timeout_at(deadline, self.bodies.acquire()).await;
            let _place = place.map_err(|_| Answer::Busy)?;
            let body = timeout_at(deadline, read(headers, body)).await;
            let body = body.map_err(|_| Answer::Incomplete)??;
            proof.verify(&secrets, &body).map_err(Answer::Refused)?;
            match event {
                Event::Ping => return Ok(Answer::Ping),
                Event::Other => return Ok(Answer::Ignored),
                Event::Unknown => return Ok(Answer::NoEvent),
                Event::Push | Event::Named => {}
            }
            let payload = push::payload(&body, is_form(headers)).map_err(Answer::Unclear)?;
            push::pushed(event, &payload).map_err(Answer::Unclear)?
        };
        let Some(addresses) = addresses else {
            return Ok(Answer::Ignored);
        };
        let asked = timeout_at(deadline, self.ask(addresses)).await;
        asked.map_err(|_| Answer::NotReady)
    }

    async fn secrets(&self) -> Result<Secrets, SecretsError> {
        let file = self.shared.secret_file.clone();
        let read = spawn_blocking(move || Secrets::load(file.as_deref())).await;
        let read = read.unwrap_or(Err(SecretsError::Empty));
        let wrong = read.as_ref().err().map(ToString::to_string);
        let wrong = wrong.unwrap_or_default();
        // Whatever a panicking thread left in it is whole.
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if *told != wrong {
            if !wrong.is_empty() {
                warn!("webhooks are refused: {wrong}");
            }
            *told = wrong;
        }
        read
    }

    async fn ask(&self, addresses: BTreeSet<Address>) -> Answer {
        // Most forges send a push only once: a start is waited for.
        let mut ready = self.shared.ready.clone();
        let is_ready = |ready: &Readiness| ready.missing().is_empty();
        if ready.wait_for(is_ready).await.is_err() {
            return Answer::NotReady;
        }
        let (answer, answered) = oneshot::channel();
        let filter = Some(SourceFilter::Pushed(addresses));
        let sent = self.shared.syncs.send(SyncRequest { filter, answer }).await;
        match (sent, answered.await) {
            (Ok(()), Ok(0)) => Answer::NoSource,
            (Ok(()), Ok(sources)) => Answer::Asked(sources),
            _ => Answer::NotReady,
        }
    }
}

/// All of a body, if it isn't too large. What is only a bit too large is taken and dropped:
/// a sender that is cut off never reads why.
async fn read(headers: &HeaderMap, body: Body) -> Result<Vec<u8>, Answer> {
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > DROPPED_BYTES as u64) {
        return Err(Answer::TooLarge);
    }
    let mut read = Vec::new();
    let mut size: usize = 0;
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| Answer::Incomplete)?;
        size = size.saturating_add(chunk.len());
        if size <= MOST_BYTES {
            read.extend_from_slice(&chunk);
        } else {
            read = Vec::new();
        }
        if size > DROPPED_BYTES {
            break;
        }
    }
    if size > MOST_BYTES {
        return Err(Answer::TooLarge);
    }
    Ok(read)
}

fn is_form(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|kind| {
        kind.as_bytes()
            .to_ascii_lowercase()
            .starts_with(b"application/x-www-form-urlencoded")
    })
}
