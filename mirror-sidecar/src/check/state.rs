//! What is remembered of a source from check to check.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use git2::Oid;
use tandem_shared::manifest::{Reason, SourceState};
use tandem_shared::request::{Request, WantSpec};
use tandem_shared::source::SourceName;
use tandem_shared::version;

use super::dependencies::Waiting;
use super::resolve::{self, Miss};
use super::signatures::Settled;
use super::{Context, repository, web};
use crate::address::Address;
use crate::mirror::Manner;
use crate::oci;
use crate::places::Seat;
use crate::serving::Serving;

/// What is remembered of a source from check to check.
#[derive(Debug)]
pub struct State {
    pub(super) name: SourceName,
    pub(super) serving: Serving,
    pub(super) credential: Option<String>,
    /// The request whose rejections were looked into.
    pub(super) rejections: Option<String>,
    /// The last refresh token that the remote was asked for.
    pub(super) refreshed: Option<String>,
    /// The place at which it is worked on, once the remote has answered.
    pub(super) seat: Option<Seat>,
    /// Why something that is wanted may be had in a moment, and was tried how often in vain.
    pub(super) again: Option<Reason>,
    pub(super) retries: u32,
    /// Of this check alone.
    pub(super) look: Look,
    /// Of a git repository.
    pub(super) git: GitState,
    /// Of a file behind a URL: what was got last.
    pub(super) file: Option<web::Got>,
    /// Of a Helm repository: what was read of its index.
    pub(super) repository: Option<repository::Read>,
    /// Of a registry: what it takes as a proof of who asks.
    pub(super) tokens: oci::Tokens,
}

/// What concerns one check alone.
#[derive(Debug)]
pub(super) struct Look {
    /// When it began.
    pub(super) begun: Instant,
    /// When somebody last asked for one, or brought another credential.
    pub(super) anew: Instant,
    /// Of the request: for one exchange, and from one poll to the next.
    pub(super) timeout: Duration,
    pub(super) interval: Duration,
    /// Whether dependencies are on their way, as this check saw it.
    pub(super) coming: bool,
    /// When it has to be made again without asking the remote.
    pub(super) recheck: Option<Instant>,
}

impl Look {
    /// One that begins now; `anew` if somebody asked for it.
    pub(super) fn begin(before: &Self, anew: bool, timeout: Duration, interval: Duration) -> Self {
        let begun = Instant::now();
        Self {
            begun,
            anew: if anew { begun } else { before.anew },
            timeout,
            interval,
            coming: false,
            recheck: None,
        }
    }
}

impl Default for Look {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            begun: now,
            anew: now,
            timeout: Duration::ZERO,
            interval: Duration::ZERO,
            coming: false,
            recheck: None,
        }
    }
}

/// What is remembered of a git repository and its mirror.
#[derive(Debug, Default)]
pub(super) struct GitState {
    /// What the asked names stood for when the remote was last asked.
    pub(super) known: BTreeMap<String, Known>,
    /// At which commit, and by which keys, each want was last dealt with, for good.
    pub(super) settled: BTreeMap<String, Settled>,
    /// Folders whose object alone decides about the artifact, by want.
    pub(super) contained: BTreeMap<String, Oid>,
    /// Commits of the submodules that each want touches.
    pub(super) submodules: BTreeMap<WantSpec, BTreeSet<Oid>>,
    /// Names that the mirror was last asked to hold.
    pub(super) held: BTreeSet<String>,
    pub(super) broken: bool,
    pub(super) fetched: bool,
    /// How the remote is asked for its refs.
    pub(super) manner: Manner,
    /// Where the repository has moved to, beside the place where it is said to be.
    pub(super) moved: Option<(String, Address)>,
    /// Wants whose dependencies aren't all here.
    pub(super) waiting: BTreeMap<String, Waiting>,
}

/// What an asked name stood for.
#[derive(Clone, Debug)]
pub(super) enum Known {
    Found {
        full_name: String,
    },
    Missing {
        miss: Miss,
        again: Option<Instant>,
        misses: u32,
    },
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
            credential: None,
            rejections: None,
            refreshed: None,
            seat: None,
            again: None,
            retries: 0,
            look: Look::default(),
            git: GitState::default(),
            file: None,
            repository: None,
            tokens: oci::Tokens::default(),
        }
    }

    /// How the source was when it was last looked at, now or by a predecessor.
    #[must_use]
    pub fn standing(&self) -> &SourceState {
        &self.serving.manifest().state
    }

    /// Waits until it may be worked on, if that isn't so yet.
    pub(super) fn sit_down(&mut self, context: &Context) {
        if self.seat.is_none() {
            self.seat = Some(context.places.work(self.standing()));
        }
    }

    pub(super) fn is_failing(&self) -> bool {
        self.serving.manifest().failure.is_some()
    }

    pub(super) fn publish(&mut self, context: &Context, soon: bool) -> bool {
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
                        !self.git.waiting.is_empty(),
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

    /// Lets go of what the request no longer names.
    pub(super) fn forget_unwanted(&mut self, request: &Request) {
        // What another version asks for can't be told, so nothing of it is over.
        if version::check::<Request>(&request.schema).is_err() {
            return;
        }
        let manifest = self.serving.edit();
        let keys: BTreeSet<&String> = request.wants.iter().map(|want| &want.key).collect();
        manifest.results.retain(|key, _| keys.contains(key));
        let asked: BTreeSet<String> = request.wants.iter().map(resolve::asked_name).collect();
        manifest.refs.retain(|name, _| asked.contains(name));
        let git = &mut self.git;
        git.known.retain(|name, _| asked.contains(name));
        git.settled.retain(|key, _| keys.contains(key));
        git.contained.retain(|key, _| keys.contains(key));
        git.waiting.retain(|key, _| keys.contains(key));
    }
}
