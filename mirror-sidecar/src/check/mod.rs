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
mod state;
mod submodules;
mod web;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tandem_shared::manifest::{ObservedRequest, Reason, SourceState};
use tandem_shared::observe::Observed;
use tandem_shared::request::Request;
use tandem_shared::source::SourceKind;
use tandem_shared::version;

use crate::config::Config;
use crate::dependencies::Dependencies;
use crate::git::Git;
use crate::github;
use crate::health::Health;
use crate::inventory::Inventory;
use crate::metrics::Metrics;
use crate::mirror::Direct;
use crate::places::Places;
use crate::schedule::backoff;
use crate::web::Web;
use state::Look;
pub use state::State;

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
    let timeout = Duration::from_secs(
        request
            .timeout_seconds
            .clamp(*TIMEOUT.start(), *TIMEOUT.end()),
    );
    let anew = state
        .refreshed
        .as_ref()
        .unwrap_or(&state.serving.manifest().handled_refresh)
        != &request.refresh
        || request.credential_id != state.credential;
    let mut exchanged = poll || anew || state.is_failing() || state.git.broken;
    state.again = None;
    state.look = Look::begin(&state.look, anew, timeout, interval);
    // What strangers wrote is read by strangers' libraries; the source is told even then.
    let attempted = AssertUnwindSafe(|| attempt(context, state, observed, &mut exchanged));
    let result = catch_unwind(attempted).unwrap_or_else(|_| {
        Err(Failed {
            reason: Reason::Internal,
            message: "a fault of the sidecar itself, which its log shows; please report it"
                .to_owned(),
        })
    });
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
    let coming = state.look.coming;
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
    state.forget_unwanted(request);
    let sooner = state
        .look
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
    let again = state.look.recheck;
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
    let timeout = state.look.timeout;
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
