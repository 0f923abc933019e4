//! One pass over one HelmRelease: `gather -> plan -> release -> report`.
//!
//! A pass begins with what is in memory. If that says that nothing is to be done, nothing
//! is asked of anybody. Otherwise the release lock is taken, Helm's records are listed anew,
//! and only what is planned on them is carried out, action by action, until the plan has
//! nothing more to do.

mod antecedent;
pub mod artifacts;
pub mod backoff;
mod conclude;
pub mod content;
pub mod facts;
mod former;
mod fresh;
pub mod gather;
mod holder;
mod judge;
mod layers;
pub mod objects;
mod pass;
mod perform;
pub mod plan;
pub mod release;
pub mod report;
pub mod snapshot;
mod tell;
mod turn;

use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;
use tandem_shared::artifact::Digest;
use tandem_shared::layout::Wanted;
use tandem_shared::source::SourceName;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use self::artifacts::Artifacts;
use self::plan::Failures;
use self::release::Engine;
use self::report::Reporter;
use crate::crd::HelmReleaseStatus;
use crate::metrics::Metrics;

pub use pass::run;
pub use turn::Queue;

/// What all passes share.
pub struct Context {
    /// For reading ConfigMaps, Secrets, namespaces.
    pub client: Client,
    /// The one namespace whose HelmReleases are followed, or all.
    pub namespace: Option<String>,
    /// Performs actions.
    pub engine: Engine,
    /// Opens artifacts.
    pub artifacts: Artifacts,
    /// Writes reports.
    pub reporter: Reporter,
    /// Our mount, for the release locks.
    pub wanted: Wanted,
    /// All metrics.
    pub metrics: Arc<Metrics>,
    /// One for each pass that may look at what is wanted, and hold it in memory.
    pub gather_slots: Semaphore,
    /// One for each pass that may be about to run helm, run it, or see what became of it.
    pub turns: Semaphore,
    /// Those who wait for one of these.
    pub queue: Queue,
    /// One for each helm child that may live.
    pub places: Arc<Semaphore>,
    /// Names this process in status.
    pub process: String,
    /// The process is to end: nothing new is begun.
    pub stopping: CancellationToken,
    /// The process ends now, whatever still runs.
    pub ending: CancellationToken,
}

/// When a HelmRelease is to be looked at again, if nothing else happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Again {
    /// At the next look at everything.
    #[default]
    Resync,
    /// At this time.
    At(Timestamp),
    /// After a while that grows with every pass that ends so.
    Backoff,
    /// Soon, since its chart has to be waited for.
    Awaiting,
}

/// What a pass leaves behind.
#[derive(Debug, Default)]
pub struct Finished {
    /// The status as it is now, with the version of the object, if the pass wrote it.
    pub written: Option<(Arc<HelmReleaseStatus>, String)>,
    /// What went wrong lately.
    pub failures: Failures,
    /// When to look again.
    pub again: Again,
    /// The version of the newest of Helm's records that the pass saw, if it looked: a watch
    /// event about it is no news.
    pub seen_record: Option<String>,
    /// Artifacts that aren't what their name says, with their wants.
    pub rejected: Vec<(SourceName, String, Digest)>,
    /// Wants whose artifact was good.
    pub accepted: Vec<(SourceName, String)>,
}

/// A step that couldn't be made; it is tried again by itself.
#[derive(Debug)]
struct Trouble {
    reason: &'static str,
    message: String,
}

impl Trouble {
    fn new(reason: &'static str, error: impl std::fmt::Display) -> Self {
        Self {
            reason,
            message: error.to_string(),
        }
    }
}
