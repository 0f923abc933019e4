//! One task that knows everything and does nothing slow: it takes in what happened, keeps
//! the requests on the volume right, and starts a pass for each HelmRelease that is touched.

mod edits;
mod hear;
mod memory;
mod passes;
mod pushes;
mod queue;
mod volume;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use kube::Client;
use kube::runtime::watcher::Event;
use tandem_shared::credentials::Values as Secrets;
use tandem_shared::layout::Volume;
use tandem_shared::observe::ObserveError;
use tandem_shared::source::SourceName;
use tokio::sync::{mpsc, watch};
use tokio::task::{self, JoinSet};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tracing::info;

use self::memory::Memory;
use self::pushes::Pushes;
use self::queue::Queue;
use crate::config::SourceDefaults;
use crate::crd::StoredHelmRelease;
use crate::credentials::{self, Credentials, Lent};
use crate::http::{Readiness, SyncRequest};
use crate::metrics::Trigger;
use crate::reconcile::{Context, Finished};
use crate::records::{Records, StoredRecord};
use crate::references::{Followed, References, Seen};
use crate::releases::{Key, Releases};
use crate::served::Served;
use crate::triggers::Look;
use crate::wanted::Wanted;

/// How long a chart is waited for before that is told.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often what somebody has to mend is tried again without a word from them: a Secret, a
/// full volume.
const MENDED: Duration = Duration::from_secs(10);
/// How old the last check of a source may be for something new that is wanted of it.
const RECENT: SignedDuration = SignedDuration::from_secs(5);
/// Events that are taken in before anything is done about them.
const BATCH: usize = 1024;

/// What the controller hears.
pub struct Inputs {
    /// From the watch of HelmReleases.
    pub helm_releases: mpsc::Receiver<Event<StoredHelmRelease>>,
    /// From the watch of Helm's records.
    pub records: mpsc::Receiver<Event<StoredRecord>>,
    /// From the watches of ConfigMaps and Secrets.
    pub references: mpsc::Receiver<Seen>,
    /// From the watch of the manifests.
    pub looks: mpsc::Receiver<Look>,
    /// From people and webhooks.
    pub syncs: mpsc::Receiver<SyncRequest>,
}

/// How the controller is set up.
pub struct Settings {
    /// Both mounts.
    pub volume: Volume,
    /// What HelmReleases leave to the operator.
    pub sources: SourceDefaults,
    /// Time between looks at everything.
    pub resync: Duration,
    /// The namespace whose records are followed; all of them by default.
    pub namespace: Option<String>,
    /// Whether forges tell of pushes.
    pub hears_pushes: bool,
}

/// A credential that was read.
type Read = (Lent, Result<Secrets, credentials::Problem>);

/// The controller.
pub struct Controller {
    ctx: Arc<Context>,
    client: Client,
    settings: Settings,
    releases: Releases,
    records: Records,
    references: References,
    /// Which kinds of references there are.
    followed: watch::Sender<Followed>,
    served: Served,
    wanted: Wanted,
    credentials: Credentials,
    queue: Queue,
    memory: HashMap<Key, Memory>,
    passes: JoinSet<Finished>,
    /// Whose pass each task is.
    tasks: HashMap<task::Id, Key>,
    reads: JoinSet<Read>,
    /// What is being read, and whether it has changed meanwhile: the answer to an earlier
    /// question must not be taken in after that to a later one.
    reading: BTreeMap<Lent, bool>,
    pushes: Pushes,
    ready: watch::Sender<Readiness>,
    /// Sources of which HelmReleases want something else since the last derivation.
    edited: BTreeSet<SourceName>,
    /// HelmReleases, credentials or tokens changed: requests are to be derived again.
    stale: bool,
    /// And nothing that was written before is to be believed.
    thorough: bool,
    looked: bool,
    begun: bool,
}

impl Controller {
    /// A controller that knows nothing yet.
    ///
    /// # Errors
    /// If the requests on the volume can't be listed.
    pub fn new(
        ctx: Arc<Context>,
        settings: Settings,
        mut credentials: Credentials,
        ready: watch::Sender<Readiness>,
        followed: watch::Sender<Followed>,
    ) -> Result<Self, ObserveError> {
        let wanted = Wanted::load(settings.volume.wanted.clone())?;
        credentials.inherit(wanted.lent());
        Ok(Self {
            client: ctx.client.clone(),
            wanted,
            served: Served::new(settings.volume.served.clone()),
            credentials,
            ctx,
            settings,
            releases: Releases::default(),
            records: Records::default(),
            references: References::default(),
            followed,
            queue: Queue::default(),
            memory: HashMap::new(),
            passes: JoinSet::new(),
            tasks: HashMap::new(),
            reads: JoinSet::new(),
            reading: BTreeMap::new(),
            pushes: Pushes::default(),
            ready,
            edited: BTreeSet::new(),
            stale: true,
            thorough: true,
            looked: false,
            begun: false,
        })
    }

    /// Runs until `stop`, and then until the last pass has ended.
    pub async fn run(mut self, mut inputs: Inputs, stop: CancellationToken) {
        let mut resync = tokio::time::interval(self.settings.resync);
        resync.set_missed_tick_behavior(MissedTickBehavior::Delay);
        resync.tick().await;
        let mut mended = tokio::time::interval(MENDED);
        mended.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                Some(event) = inputs.helm_releases.recv() => self.helm_release(event),
                Some(event) = inputs.records.recv() => self.record(event),
                Some(seen) = inputs.references.recv() => self.reference(seen),
                Some(look) = inputs.looks.recv() => self.look(&look),
                Some(sync) = inputs.syncs.recv() => self.sync(sync),
                Some(read) = self.reads.join_next() => self.credential(read),
                Some(done) = self.passes.join_next_with_id() => self.finished(done),
                key = self.queue.due() => self.due(key),
                _ = resync.tick() => self.resync(),
                _ = mended.tick() => self.try_again(),
                () = pushes::until(self.pushes.next()) => self.late_pushes(),
                () = stop.cancelled() => break,
            }
            self.drain(&mut inputs);
            self.proceed();
        }
        while let Some(done) = self.passes.join_next_with_id().await {
            self.finished(done);
        }
    }

    /// What else is there already is taken in at once: many changes, one derivation.
    fn drain(&mut self, inputs: &mut Inputs) {
        for _ in 0..BATCH {
            if let Ok(event) = inputs.helm_releases.try_recv() {
                self.helm_release(event);
            } else if let Ok(event) = inputs.records.try_recv() {
                self.record(event);
            } else if let Ok(seen) = inputs.references.try_recv() {
                self.reference(seen);
            } else if let Ok(look) = inputs.looks.try_recv() {
                self.look(&look);
            } else if let Some(done) = self.passes.try_join_next_with_id() {
                self.finished(done);
            } else {
                return;
            }
        }
    }

    /// Brings the requests up to date, then starts what is due. Nothing of it before all
    /// HelmReleases are known: what seems unwanted could be wanted after all.
    fn proceed(&mut self) {
        let now = Readiness {
            helm_releases: self.releases.is_listed(),
            records: self.records.is_listed(),
            manifests: self.looked,
        };
        self.ready
            .send_if_modified(|ready| std::mem::replace(ready, now) != now);
        if !now.helm_releases {
            return;
        }
        // What is read there may ask for another derivation, once.
        for _ in 0..2 {
            if self.stale {
                self.derive();
            }
        }
        if !now.missing().is_empty() {
            return;
        }
        if !self.begun {
            self.begun = true;
            info!(
                helmreleases = self.releases.len(),
                "everything is listed; beginning"
            );
            self.sweep_decisions();
            self.hold_unobserved();
            self.everything(Trigger::resync);
            if self.settings.hears_pushes {
                self.missed_pushes();
            }
        }
        while let Some(key) = self.queue.pop() {
            self.start(key);
        }
        self.ctx
            .metrics
            .releases
            .set(i64::try_from(self.releases.len()).unwrap_or(i64::MAX));
        self.tell_queue();
    }

    fn tell_queue(&self) {
        let waiting = self.tasks.len() + self.queue.len();
        self.ctx
            .metrics
            .queue
            .set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }
}
