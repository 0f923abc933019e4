//! One look at one source: what its refs stand for now, what is wanted of
//! them, and the manifest that says so.
//!
//! `mirror -> snapshot -> publish`, on one blocking thread. Whatever goes
//! wrong ends in the manifest; nothing that was good is lost by it.

mod build;
mod dependencies;
mod group;
mod mirrored;
mod origin;
mod registry;
mod repository;
mod resolve;
mod shorts;
mod signatures;
mod submodules;
mod web;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use git2::Oid;
use jiff::Timestamp;
use tandem_shared::manifest::{ObservedRequest, Reason, SourceState};
use tandem_shared::observe::Observed;
use tandem_shared::request::{Request, WantSpec};
use tandem_shared::source::{SourceKind, SourceName};
use tandem_shared::version;

use crate::address::Address;
use crate::config::Config;
use crate::dependencies::Dependencies;
use crate::git::Git;
use crate::github;
use crate::health::Health;
use crate::inventory::Inventory;
use crate::metrics::Metrics;
use crate::mirror::{Direct, Manner};
use crate::oci;
use crate::places::{Places, Seat};
use crate::schedule::backoff;
use crate::serving::Serving;
use crate::web::Web;
use dependencies::Waiting;
use resolve::Miss;
use signatures::Settled;

/// Limits of what a request may ask for, in seconds.
const INTERVAL: std::ops::RangeInclusive<u64> = 1..=7 * 24 * 3600;
const TIMEOUT: std::ops::RangeInclusive<u64> = 1..=3600;

/// What is said while nothing more may be fetched.
pub(crate) const FULL: &str = "the volume is filled to 80 % of --volume-limit, so nothing more is fetched; give it more, or ask for less";

/// What all checks share.
#[derive(Debug)]
pub struct Context {
    /// How the sidecar runs.
    pub config: Config,
    /// The git program.
    pub git: Git,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Which artifacts are named.
    pub inventory: Inventory,
    /// What /readyz says.
    pub health: Arc<Health>,
    /// How many are worked on at once.
    pub places: Places,
    /// The HTTP client.
    pub web: Web,
    /// Tokens of GitHub Apps.
    pub tokens: github::Tokens,
    /// Who downloads dependencies.
    pub dependencies: Dependencies,
}

impl Context {
    /// Whether so much lies on the volume that nothing more may be fetched.
    fn over_budget(&self) -> bool {
        self.config
            .volume_limit
            .is_some_and(|limit| self.health.used() >= limit / 5 * 4)
    }

    /// What servers of git are asked with, beside git.
    fn direct(&self) -> Direct<'_> {
        Direct {
            web: &self.web,
            schemes: &self.config.schemes,
        }
    }
}

/// What is remembered of a source from check to check.
#[derive(Debug)]
pub struct State {
    name: SourceName,
    serving: Serving,
    /// What the asked names stood for when the remote was last asked.
    known: BTreeMap<String, Known>,
    /// At which commit, and by which keys, each want was last dealt with, for good.
    settled: BTreeMap<String, Settled>,
    /// Folders whose object alone decides about the artifact, by want.
    contained: BTreeMap<String, Oid>,
    /// Commits of the submodules that each want touches.
    submodules: BTreeMap<WantSpec, BTreeSet<Oid>>,
    /// Names that the mirror was last asked to hold.
    held: BTreeSet<String>,
    credential: Option<String>,
    /// The request whose rejections were looked into.
    rejections: Option<String>,
    broken: bool,
    fetched: bool,
    /// How the remote is asked for its refs.
    manner: Manner,
    /// Where the repository has moved to, beside the place where it is said to be.
    moved: Option<(String, Address)>,
    /// The place at which it is worked on, once the remote has answered.
    seat: Option<Seat>,
    /// Of a file behind a URL: what was got last.
    file: Option<web::Got>,
    /// Of a Helm repository: what was read of its index.
    repository: Option<repository::Read>,
    /// What a registry takes as a proof of who asks.
    tokens: oci::Tokens,
    /// Why something that is wanted may be had in a moment, and was tried how often in vain.
    again: Option<Reason>,
    retries: u32,
    /// Wants whose dependencies aren't all here.
    waiting: BTreeMap<String, Waiting>,
    /// Whether some are on their way, as this check saw it.
    coming: bool,
    /// When this check began.
    begun: Instant,
    /// When somebody last asked for a look, or brought another credential.
    anew: Instant,
    /// When this check has to be made again without asking the remote.
    recheck: Option<Instant>,
    /// The last refresh token that the remote was asked for.
    refreshed: Option<String>,
    /// Of the request.
    timeout: Duration,
    interval: Duration,
}

/// What an asked name stood for.
#[derive(Clone, Debug)]
enum Known {
    Found {
        full_name: String,
    },
    Missing {
        miss: Miss,
        again: Option<Instant>,
        misses: u32,
    },
}

/// How a check ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// Whether the remote was asked, or should have been and couldn't.
    pub exchanged: bool,
    /// From now to the next one.
    pub next: Duration,
    /// When it is to be looked at in between, without asking the remote.
    pub again: Option<Instant>,
}

/// What keeps a source from being checked.
struct Failed {
    reason: Reason,
    message: String,
}

impl State {
    /// Takes up what is served of the source that `request` names.
    #[must_use]
    pub fn take_up(context: &Context, request: &Request) -> Self {
        let serving = Serving::take_up(&context.config.volume.served, &request.source);
        context
            .inventory
            .published(&request.source.name(), serving.manifest(), false);
        Self {
            name: request.source.name(),
            serving,
            known: BTreeMap::new(),
            settled: BTreeMap::new(),
            contained: BTreeMap::new(),
            submodules: BTreeMap::new(),
            held: BTreeSet::new(),
            credential: None,
            rejections: None,
            broken: false,
            fetched: false,
            manner: Manner::default(),
            moved: None,
            seat: None,
            file: None,
            repository: None,
            tokens: oci::Tokens::default(),
            again: None,
            retries: 0,
            waiting: BTreeMap::new(),
            coming: false,
            begun: Instant::now(),
            anew: Instant::now(),
            recheck: None,
            refreshed: None,
            timeout: Duration::from_secs(*TIMEOUT.start()),
            interval: Duration::from_secs(*INTERVAL.start()),
        }
    }

    /// How the source was when it was last looked at, now or by a predecessor.
    #[must_use]
    pub fn standing(&self) -> &SourceState {
        &self.serving.manifest().state
    }

    /// Waits until it may be worked on, if that isn't so yet.
    fn sit_down(&mut self, context: &Context) {
        if self.seat.is_none() {
            self.seat = Some(context.places.work(self.standing()));
        }
    }

    fn is_failing(&self) -> bool {
        self.serving.manifest().failure.is_some()
    }

    fn publish(&mut self, context: &Context, soon: bool) -> bool {
        let now = tandem_shared::clock::now();
        let result = if soon {
            self.serving.publish_soon(now)
        } else {
            self.serving.publish(now)
        };
        let what = format!("manifest {}", self.name);
        match result {
            Ok(written) => {
                if written {
                    context.metrics.manifest_published();
                    context.inventory.published(
                        &self.name,
                        self.serving.manifest(),
                        !self.waiting.is_empty(),
                    );
                }
                if context.health.well(&what) {
                    tracing::info!(source = %self.name, "the volume takes manifests again");
                }
                true
            }
            Err(error) => {
                if context.health.trouble(&what, &error.to_string()) {
                    tracing::error!(source = %self.name, %error, "can't publish a manifest");
                }
                false
            }
        }
    }
}

/// Looks at a source. `poll` asks the remote even if nothing new is wanted.
#[must_use]
pub fn check(
    context: &Context,
    state: &mut State,
    observed: &Observed<Request>,
    poll: bool,
) -> Ended {
    let request = &observed.document;
    let interval = Duration::from_secs(
        request
            .interval_seconds
            .clamp(*INTERVAL.start(), *INTERVAL.end()),
    );
    let anew = state
        .refreshed
        .as_ref()
        .unwrap_or(&state.serving.manifest().handled_refresh)
        != &request.refresh
        || request.credential_id != state.credential;
    let mut exchanged = poll || anew || state.is_failing() || state.broken;
    (state.coming, state.recheck, state.interval) = (false, None, interval);
    state.again = None;
    state.begun = Instant::now();
    if anew {
        state.anew = state.begun;
    }
    let result = attempt(context, state, observed, &mut exchanged);
    state.seat = None;
    if context.git.is_cancelled() {
        // Cut short by our own end: it says nothing about the source.
        return Ended {
            exchanged: false,
            next: interval,
            again: None,
        };
    }
    let now = tandem_shared::clock::now();
    let next = match result {
        Ok(()) => {
            let manifest = state.serving.edit();
            manifest.state = SourceState::Ready;
            if let Some(failure) = manifest.failure.take() {
                tracing::info!(source = %state.name, attempts = failure.attempts, "the source is well again");
            }
            let next = backoff::next_poll(interval, rand::random());
            match state.again.take() {
                None if exchanged => {
                    state.retries = 0;
                    next
                }
                None => next,
                Some(reason) => {
                    state.retries = state.retries.saturating_add(1);
                    exchanged = true;
                    next.min(backoff::after_failure(&reason, state.retries, interval))
                }
            }
        }
        Err(failed) => {
            let before = state.serving.manifest().failure.clone();
            let attempts = before
                .as_ref()
                .map_or(1, |failure| failure.attempts.saturating_add(1));
            let next = backoff::after_failure(&failed.reason, attempts, interval);
            if before.is_none_or(|before| before.reason != failed.reason) {
                tracing::warn!(source = %state.name, url = %request.source.redacted().url, reason = %failed.reason, message = %failed.message, "the source can't be checked");
            }
            state.serving.fail(failed.reason, failed.message, next, now);
            exchanged = true;
            next
        }
    };
    state.credential.clone_from(&request.credential_id);
    state.refreshed = Some(request.refresh.clone());
    let coming = state.coming;
    let manifest = state.serving.edit();
    if !coming {
        // Until then the answer isn't whole.
        manifest.handled_refresh.clone_from(&request.refresh);
    }
    manifest.observed_request = Some(ObservedRequest {
        digest: observed.digest.clone(),
        credential_id: request.credential_id.clone(),
        keys_ids: request
            .wants
            .iter()
            .filter_map(|want| want.keys_id.clone())
            .collect(),
    });
    manifest.interval_seconds = Some(interval.as_secs());
    forget_unwanted(state, request);
    let sooner = state
        .recheck
        .map(|at| at.saturating_duration_since(Instant::now()));
    state
        .serving
        .looked_at_again(sooner.map_or(next, |sooner| sooner.min(next)), now);
    let published = state.publish(context, false);
    tracing::debug!(source = %state.name, exchanged, published, next_seconds = next.as_secs(), "checked");
    let manifest = state.serving.manifest();
    context.metrics.checked(
        &state.name,
        &manifest.state,
        manifest.checked_at.map(Timestamp::as_second),
    );
    let again = state.recheck;
    if published {
        Ended {
            exchanged,
            next,
            again,
        }
    } else {
        Ended {
            exchanged: true,
            next: next.min(Duration::from_secs(10)),
            again,
        }
    }
}

/// Lets go of what the request no longer names.
fn forget_unwanted(state: &mut State, request: &Request) {
    // What another version asks for can't be told, so nothing of it is over.
    if version::check::<Request>(&request.schema).is_err() {
        return;
    }
    let manifest = state.serving.edit();
    let keys: BTreeSet<&String> = request.wants.iter().map(|want| &want.key).collect();
    manifest.results.retain(|key, _| keys.contains(key));
    let asked: BTreeSet<String> = request.wants.iter().map(resolve::asked_name).collect();
    manifest.refs.retain(|name, _| asked.contains(name));
    state.known.retain(|name, _| asked.contains(name));
    state.settled.retain(|key, _| keys.contains(key));
    state.contained.retain(|key, _| keys.contains(key));
    state.waiting.retain(|key, _| keys.contains(key));
}

fn attempt(
    context: &Context,
    state: &mut State,
    observed: &Observed<Request>,
    exchanged: &mut bool,
) -> Result<(), Failed> {
    let request = &observed.document;
    version::check::<Request>(&request.schema).map_err(|error| Failed {
        reason: Reason::Unsupported,
        message: format!("the request isn't followed: {error}"),
    })?;
    let timeout = Duration::from_secs(
        request
            .timeout_seconds
            .clamp(*TIMEOUT.start(), *TIMEOUT.end()),
    );
    state.timeout = timeout;
    match &request.source.kind {
        SourceKind::Git => mirrored::run(context, state, observed, timeout, exchanged),
        SourceKind::Helm => repository::run(context, state, observed, timeout, exchanged),
        SourceKind::Oci => registry::run(context, state, observed, timeout, exchanged),
        SourceKind::Http => web::run(context, state, observed, timeout, exchanged),
        other => {
            let reason = Reason::Unsupported;
            let message = format!(
                "sources of kind {:?} aren't served by this version, only git, helm, oci and http",
                other.as_str()
            );
            Err(Failed { reason, message })
        }
    }
}

#[cfg(test)]
mod range_tests;
#[cfg(test)]
mod signature_tests;
#[cfg(test)]
mod submodule_tests;
#[cfg(test)]
mod tests;
