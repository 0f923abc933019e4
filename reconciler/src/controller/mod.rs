//! One task that knows everything and does nothing slow: it takes in what happened, keeps
//! the requests on the volume right, and starts a pass for each HelmRelease that is touched.

mod memory;
mod queue;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::runtime::watcher::Event;
use tandem_shared::credentials::Values as Secrets;
use tandem_shared::layout::Volume;
use tandem_shared::observe::ObserveError;
use tandem_shared::source::{CredentialRef, SourceName};
use tokio::sync::{mpsc, watch};
use tokio::task::{self, JoinError, JoinSet, block_in_place};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use self::memory::{Memory, Running};
use self::queue::Queue;
use crate::config::SourceDefaults;
use crate::crd::{StoredHelmRelease, Target};
use crate::credentials::{self, Credentials, Known};
use crate::demand::{self, Part};
use crate::http::{Readiness, SourceFilter, SyncRequest};
use crate::metrics::Trigger;
use crate::reconcile::plan::Owner;
use crate::reconcile::snapshot::{Snapshot, SourceView, Wants};
use crate::reconcile::{self, Again, Context, Finished, backoff};
use crate::records::{Records, StoredRecord};
use crate::releases::{Change, Entry, Key, Releases};
use crate::served::{News, Served};
use crate::triggers::Look;
use crate::view::{Trouble, WantView};
use crate::wanted::Wanted;

/// How long a chart is waited for before that is told.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often Secrets are read again whose sources were refused, or that weren't there: whoever
/// mends one waits for it.
const SECRETS: Duration = Duration::from_secs(10);
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
}

/// A credential that was read.
type Read = (CredentialRef, Result<Secrets, credentials::Problem>);

/// The controller.
pub struct Controller {
    ctx: Arc<Context>,
    client: Client,
    settings: Settings,
    releases: Releases,
    records: Records,
    served: Served,
    wanted: Wanted,
    credentials: Credentials,
    queue: Queue,
    memory: HashMap<Key, Memory>,
    passes: JoinSet<Finished>,
    /// Whose pass each task is.
    tasks: HashMap<task::Id, Key>,
    reads: JoinSet<Read>,
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
        credentials: Credentials,
        ready: watch::Sender<Readiness>,
    ) -> Result<Self, ObserveError> {
        Ok(Self {
            client: ctx.client.clone(),
            wanted: Wanted::load(settings.volume.wanted.clone())?,
            served: Served::new(settings.volume.served.clone()),
            credentials,
            ctx,
            settings,
            releases: Releases::default(),
            records: Records::default(),
            queue: Queue::default(),
            memory: HashMap::new(),
            passes: JoinSet::new(),
            tasks: HashMap::new(),
            reads: JoinSet::new(),
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
        let mut secrets = tokio::time::interval(SECRETS);
        secrets.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                Some(event) = inputs.helm_releases.recv() => self.helm_release(event),
                Some(event) = inputs.records.recv() => self.record(event),
                Some(look) = inputs.looks.recv() => self.look(&look),
                Some(sync) = inputs.syncs.recv() => self.sync(sync),
                Some(read) = self.reads.join_next() => self.credential(read),
                Some(done) = self.passes.join_next_with_id() => self.finished(done),
                key = self.queue.due() => self.due(key),
                _ = resync.tick() => self.resync(),
                _ = secrets.tick() => self.read_doubtful(),
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
        if self.stale {
            self.derive();
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
            self.everything(Trigger::resync);
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
        let waiting = self
            .memory
            .values()
            .filter(|memory| memory.running.is_some())
            .count()
            + self.queue.len();
        self.ctx
            .metrics
            .queue
            .set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    // What is heard.

    fn helm_release(&mut self, event: Event<StoredHelmRelease>) {
        for (key, change) in self.releases.take(event, &self.settings.sources) {
            match change {
                Change::Told => self.told(&key),
                Change::Added | Change::Asked => {
                    self.stale = true;
                    self.note_wants(&key);
                    self.touch(key, Trigger::helmrelease);
                }
                Change::Removed => {
                    self.stale = true;
                    self.forget(&key);
                }
            }
        }
    }

    /// Whoever edits the source of a HelmRelease wants what is there now, not what was there
    /// at the last poll.
    fn note_wants(&mut self, key: &Key) {
        let wish = self
            .releases
            .get(key)
            .and_then(|entry| entry.wish.as_ref().ok());
        let wants = wish.map(|wish| {
            (
                wish.name.clone(),
                wish.wants
                    .iter()
                    .map(|want| want.key.clone())
                    .collect::<Vec<_>>(),
            )
        });
        let memory = self.memory.entry(key.clone()).or_default();
        memory.blocked = 0;
        let before = std::mem::replace(&mut memory.wants, wants.clone());
        if before != wants {
            memory.asked_at = Some(Timestamp::now());
        }
        let Some((name, keys)) = wants else { return };
        let edited = before.is_some_and(|before| before != (name.clone(), keys.clone()));
        if edited || self.begun && self.asks_late(&name, &keys) {
            self.edited.insert(name);
        }
    }

    /// Whether something is wanted of a source for the first time, long after the source was
    /// asked.
    fn asks_late(&self, name: &SourceName, keys: &[String]) -> bool {
        let Some(request) = self.wanted.requests().get(name) else {
            return false;
        };
        let new = keys
            .iter()
            .any(|key| request.wants.iter().all(|want| want.key != *key));
        let checked = self.served.checked_at(name);
        new && checked.is_some_and(|at| Timestamp::now().duration_since(at) > RECENT)
    }

    /// A status was written. Ours is known already; only a preference for a commit may follow
    /// from it.
    fn told(&mut self, key: &Key) {
        let Some(entry) = self.releases.get(key) else {
            return;
        };
        let wish = entry.wish.as_ref().ok();
        let memory = self.memory.entry(key.clone()).or_default();
        let prefer = wish
            .and_then(|wish| wish.wants.first())
            .and_then(|want| want.prefer.commit.clone());
        self.stale |= memory.prefer != prefer;
        memory.prefer = prefer;
    }

    fn record(&mut self, event: Event<StoredRecord>) {
        for target in self.records.take(event) {
            let Some(key) = self.releases.owner(&target).cloned() else {
                continue;
            };
            let memory = self.memory.entry(key.clone()).or_default();
            if memory.running.is_some() {
                memory.record_changed = true;
            } else if Self::is_news(&self.records, &target, memory) {
                self.touch(key, Trigger::storage);
            }
        }
    }

    /// Whether the newest record is another than the last pass left.
    fn is_news(records: &Records, target: &Target, memory: &Memory) -> bool {
        let newest = records
            .history(target)
            .last()
            .map(|last| last.resource_version.clone())
            .unwrap_or_default();
        memory.seen_record.as_ref() != Some(&newest)
    }

    fn look(&mut self, look: &Look) {
        let sources: Vec<_> = self
            .wanted
            .requests()
            .iter()
            .filter(|(name, _)| look.everything || look.sources.contains(*name))
            .map(|(name, request)| (name.clone(), request.source.clone()))
            .collect();
        for (name, source) in sources {
            let news = block_in_place(|| self.served.read(&source));
            self.ctx.metrics.manifests.inc();
            self.news(&name, &news);
            if source.credential.is_some() {
                self.retain_credentials();
            }
        }
        self.looked |= look.everything;
    }

    fn news(&mut self, name: &SourceName, news: &News) {
        if !news.everything && news.wants.is_empty() {
            return;
        }
        let touched: Vec<Key> = self
            .releases
            .iter()
            .filter(|entry| {
                entry.wish.as_ref().is_ok_and(|wish| {
                    wish.name == *name && wish.wants.iter().any(|want| news.touches(&want.key))
                })
            })
            .map(|entry| entry.key.clone())
            .collect();
        for key in touched {
            self.memory.entry(key.clone()).or_default().blocked = 0;
            self.doubt(name, &key);
            self.touch(key, Trigger::manifest);
        }
    }

    /// What isn't there at the last check may be there by now, if it was wanted only after it:
    /// the source is checked once more, before anybody has to wait for the next poll.
    fn doubt(&mut self, name: &SourceName, key: &Key) {
        let Some(checked) = self.served.checked_at(name) else {
            return;
        };
        let Some(memory) = self.memory.get_mut(key) else {
            return;
        };
        let Some((_, wants)) = &memory.wants else {
            return;
        };
        let Some(asked) = memory.asked_at else { return };
        if checked >= asked {
            memory.asked_at = None;
            memory.doubted = false;
            return;
        }
        let missing = wants.iter().any(|want| matches!(self.served.view(name, want), WantView::Problem(trouble) if !trouble.source));
        if missing && !std::mem::replace(&mut memory.doubted, true) {
            self.edited.insert(name.clone());
            self.stale = true;
        }
    }

    fn sync(&mut self, sync: SyncRequest) {
        if !self.begun {
            // Dropped unanswered: the asker is told to come back.
            return;
        }
        let sources = self.wanted.refresh(sync.filter.as_ref());
        self.stale |= sources > 0;
        info!(sources, "asked to check sources now");
        // Whoever asks may count on it from the answer on.
        self.derive();
        let _ = sync.answer.send(sources);
    }

    fn credential(&mut self, read: Result<Read, JoinError>) {
        match read {
            Ok((secret, read)) => {
                if block_in_place(|| self.credentials.learn(&secret, read)) {
                    self.stale = true;
                    let of_secret = |entry: &&Arc<Entry>| {
                        entry
                            .wish
                            .as_ref()
                            .is_ok_and(|wish| wish.source.credential.as_ref() == Some(&secret))
                    };
                    let touched: Vec<Key> = self
                        .releases
                        .iter()
                        .filter(of_secret)
                        .map(|entry| entry.key.clone())
                        .collect();
                    for key in touched {
                        self.touch(key, Trigger::credential);
                    }
                }
            }
            Err(error) => error!("reading a credential ended unexpectedly: {error}"),
        }
    }

    fn due(&mut self, key: Key) {
        self.touch(key, Trigger::timer);
    }

    /// Believes nothing: everything is read, derived and looked at again.
    fn resync(&mut self) {
        self.stale = true;
        self.thorough = true;
        for secret in self.credentials.all() {
            self.read_credential(secret);
        }
        self.look(&Look::all());
        self.everything(Trigger::resync);
    }

    fn everything(&mut self, trigger: Trigger) {
        let all: Vec<Key> = self
            .releases
            .iter()
            .map(|entry| entry.key.clone())
            .collect();
        for key in all {
            self.touch(key, trigger);
        }
    }

    // What follows from it.

    fn touch(&mut self, key: Key, trigger: Trigger) {
        if !self.begun {
            return;
        }
        self.ctx.metrics.trigger(trigger);
        let Some(snapshot) = self.snapshot(&key) else {
            return;
        };
        let memory = self.memory.entry(key.clone()).or_default();
        if let Some(running) = &memory.running {
            // A pass is under way; it sees what is new, and another one follows.
            memory.again |= trigger != Trigger::resync;
            running.inputs.send_replace(Arc::new(snapshot));
        } else {
            self.queue.push(key);
        }
    }

    fn start(&mut self, key: Key) {
        let Some(snapshot) = self.snapshot(&key) else {
            return;
        };
        self.queue.cancel(&key);
        let (inputs, heard) = watch::channel(Arc::new(snapshot));
        let memory = self.memory.entry(key.clone()).or_default();
        if memory.running.is_some() {
            memory.again = true;
            return;
        }
        memory.running = Some(Running { inputs });
        let target = self
            .releases
            .get(&key)
            .and_then(|entry| entry.target.clone());
        if memory.target != target
            && let Some(old) = std::mem::replace(&mut memory.target, target)
        {
            self.ctx.metrics.forget(&old);
        }
        let task = self.passes.spawn(reconcile::run(self.ctx.clone(), heard));
        self.tasks.insert(task.id(), key);
    }

    fn finished(&mut self, done: Result<(task::Id, Finished), JoinError>) {
        let (id, done) = match done {
            Ok(done) => done,
            Err(error) => {
                error!("a pass ended unexpectedly, which is a mistake in this program: {error}");
                (
                    error.id(),
                    Finished {
                        again: Again::Backoff,
                        ..Finished::default()
                    },
                )
            }
        };
        let Some(key) = self.tasks.remove(&id) else {
            return;
        };
        for (source, want, digest) in done.rejected {
            warn!(source = %source, %want, %digest, "the artifact isn't what its name says; asking for it anew");
            self.stale |= self.wanted.reject(&source, &want, &digest);
        }
        for (source, want) in done.accepted {
            self.stale |= self.wanted.accept(&source, &want);
        }
        let entry = self.releases.get(&key).cloned();
        let Some(memory) = self.memory.get_mut(&key) else {
            return;
        };
        memory.running = None;
        let Some(entry) = entry else {
            self.forget(&key);
            return;
        };
        if let Some((status, version)) = done.written {
            memory.status = Some((status, version));
        }
        memory.failures = done.failures;
        if done.seen_record.is_some() {
            memory.seen_record = done.seen_record;
        }
        if done.again != Again::Awaiting {
            memory.awaiting = None;
        }
        let wait = match done.again {
            Again::Resync => None,
            Again::At(time) => Some(until(time)),
            Again::Backoff => {
                memory.blocked = memory.blocked.saturating_add(1);
                Some(backoff::delay(memory.blocked, rand::random()))
            }
            Again::Awaiting => {
                let since = *memory.awaiting.get_or_insert_with(Instant::now);
                let left = PATIENCE.saturating_sub(since.elapsed());
                (!left.is_zero()).then_some(left)
            }
        };
        if !matches!(done.again, Again::Backoff | Again::Awaiting) {
            memory.blocked = 0;
        }
        let mut again = std::mem::take(&mut memory.again);
        if std::mem::take(&mut memory.record_changed)
            && let Some(target) = &entry.target
        {
            again |= Self::is_news(&self.records, target, memory);
        }
        match wait {
            Some(wait) => self.queue.later(&key, wait),
            None => self.queue.cancel(&key),
        }
        if again && !self.ctx.stopping.is_cancelled() {
            self.queue.push(key);
        }
    }

    /// A HelmRelease is gone. While a pass for it is under way, the end of that comes first.
    fn forget(&mut self, key: &Key) {
        self.queue.forget(key);
        if let Some(memory) = self.memory.get_mut(key)
            && memory.running.is_some()
        {
            return;
        }
        if let Some(target) = self.memory.remove(key).and_then(|memory| memory.target)
            && self.releases.owner(&target).is_none()
        {
            self.ctx.metrics.forget(&target);
        }
        let path = self
            .settings
            .volume
            .wanted
            .release(&key.namespace, &key.name);
        if let Err(error) = block_in_place(|| tandem_shared::publish::remove(&path)) {
            warn!(helmrelease = %key, "{error}");
        }
    }

    fn snapshot(&self, key: &Key) -> Option<Snapshot> {
        let entry = self.releases.get(key)?.clone();
        let memory = self.memory.get(key);
        let owner = match entry
            .target
            .as_ref()
            .and_then(|target| self.releases.owner(target))
        {
            Some(owner) if owner != key => Owner::Other(owner.to_string()),
            _ => Owner::Ours,
        };
        let followed = |target: &&Target| {
            self.settings
                .namespace
                .as_ref()
                .is_none_or(|namespace| *namespace == target.namespace)
        };
        let history = entry
            .target
            .as_ref()
            .filter(followed)
            .map(|target| self.records.history(target));
        Some(Snapshot {
            status: memory::newest_status(&entry, memory),
            source: self.source(&entry),
            history,
            owner,
            failures: memory
                .map(|memory| memory.failures.clone())
                .unwrap_or_default(),
            long_awaited: memory.is_some_and(|memory| {
                memory
                    .awaiting
                    .is_some_and(|since| since.elapsed() >= PATIENCE)
            }),
            entry,
        })
    }

    fn source(&self, entry: &Entry) -> SourceView {
        let wish = match &entry.wish {
            Ok(wish) => wish,
            Err(unclear) => return SourceView::Unclear(unclear.clone()),
        };
        if let Some(secret) = &wish.source.credential
            && self.credentials.id(secret).is_none()
        {
            return SourceView::Credential(self.credentials.known(secret));
        }
        // What was missing before anybody wanted it may be there at the check that is to come.
        let doubted = self
            .memory
            .get(&entry.key)
            .is_some_and(|memory| memory.doubted);
        let view = |want: &str| {
            let refusal = self.wanted.refusal(&wish.name);
            match self.served.view(&wish.name, want) {
                WantView::Problem(trouble)
                    if doubted && !trouble.source && !self.served.is_failing(&wish.name) =>
                {
                    WantView::Pending("the source is being checked again".to_owned())
                }
                WantView::Pending(why) => match refusal {
                    Some(why) => WantView::Problem(Trouble {
                        reason: "RequestRefused",
                        message: why.to_owned(),
                        source: false,
                    }),
                    None => WantView::Pending(why),
                },
                view => view,
            }
        };
        SourceView::Wants(Wants {
            name: wish.name.clone(),
            key: wish.chart().to_owned(),
            chart: view(wish.chart()),
            files: wish
                .files
                .iter()
                .map(|(path, want)| (path.clone(), (want.clone(), view(want))))
                .collect(),
        })
    }

    // The volume.

    /// Derives all requests from all HelmReleases, and makes the volume say so.
    fn derive(&mut self) {
        if !self.releases.is_listed() {
            return;
        }
        self.stale = false;
        let thorough = std::mem::take(&mut self.thorough);
        self.ask_credentials();
        for name in std::mem::take(&mut self.edited) {
            self.wanted
                .refresh(Some(&SourceFilter::Name(name.to_string())));
        }
        let names: Vec<(String, &Arc<Entry>)> = self
            .releases
            .iter()
            .map(|entry| (entry.key.to_string(), entry))
            .collect();
        let parts = names.iter().filter_map(|(name, entry)| {
            let wish = entry.wish.as_ref().ok()?;
            let credential = match &wish.source.credential {
                Some(secret) => Some(self.credentials.id(secret)?),
                None => None,
            };
            Some(Part {
                helm_release: name,
                wish,
                credential,
            })
        });
        let requests = demand::requests(parts, self.wanted.extras(), &self.settings.sources);
        match block_in_place(|| self.wanted.put(requests, thorough)) {
            Ok(changed) => {
                self.ctx.metrics.requests.inc_by(changed as u64);
            }
            Err(error) => {
                error!("{error}");
                // Looked at again at the next resync, or with the next change.
                self.thorough = true;
            }
        }
        let asked: BTreeMap<_, _> = self
            .wanted
            .requests()
            .iter()
            .map(|(name, request)| (name.clone(), request.source.clone()))
            .collect();
        self.served.retain(|name| asked.contains_key(name));
        // What is asked for anew may have been answered before.
        let unread: Vec<_> = asked
            .into_iter()
            .filter(|(name, _)| !self.served.knows(name))
            .collect();
        for (name, source) in unread {
            let news = block_in_place(|| self.served.read(&source));
            self.ctx.metrics.manifests.inc();
            self.news(&name, &news);
        }
        self.retain_credentials();
    }

    fn ask_credentials(&mut self) {
        let mut unread = Vec::new();
        let entries: Vec<Arc<Entry>> = self.releases.iter().cloned().collect();
        for wish in entries.iter().filter_map(|entry| entry.wish.as_ref().ok()) {
            let Some(secret) = &wish.source.credential else {
                continue;
            };
            match &wish.embedded {
                Some(values) => {
                    block_in_place(|| self.credentials.learn(secret, Ok(values.clone())));
                }
                None => {
                    if let (Known::Pending, true) = self.credentials.ask(secret) {
                        unread.push(secret.clone());
                    }
                }
            }
        }
        for secret in unread {
            self.read_credential(secret);
        }
    }

    /// Reads Secrets again that aren't there, or whose sources refuse what was in them. In a
    /// steady state there are none.
    fn read_doubtful(&mut self) {
        let mut doubtful = self.credentials.doubtful();
        for (name, request) in self.wanted.requests() {
            if let Some(secret) = &request.source.credential
                && self.served.is_refused(name)
            {
                doubtful.insert(secret.clone());
            }
        }
        for secret in doubtful {
            self.read_credential(secret);
        }
    }

    fn read_credential(&mut self, secret: CredentialRef) {
        // What stood in a URL is in no Secret.
        if secret.name.contains(':') {
            return;
        }
        let client = self.client.clone();
        self.reads.spawn(async move {
            let read = credentials::read(client, &secret).await;
            (secret, read)
        });
    }

    /// Removes credentials that no request names and that the sidecar was seen not to use
    /// any more.
    fn retain_credentials(&mut self) {
        if !self.releases.is_listed() || !self.looked {
            return;
        }
        let named: BTreeSet<CredentialRef> = self
            .releases
            .iter()
            .filter_map(|entry| entry.wish.as_ref().ok()?.source.credential.clone())
            .collect();
        let mut used = self.wanted.credentials();
        used.extend(self.served.credentials());
        if let Err(error) = block_in_place(|| self.credentials.retain(&named, &used)) {
            warn!("{error}");
        }
    }

    /// Decisions about HelmReleases that went while nobody looked.
    fn sweep_decisions(&self) {
        let mount = &self.settings.volume.wanted;
        let known: BTreeSet<_> = self
            .releases
            .iter()
            .map(|entry| mount.release(&entry.key.namespace, &entry.key.name))
            .collect();
        let swept = block_in_place(|| -> Result<(), String> {
            let entries = std::fs::read_dir(mount.releases()).map_err(|error| error.to_string())?;
            for entry in entries {
                let path = entry.map_err(|error| error.to_string())?.path();
                let is_decision = path
                    .extension()
                    .is_some_and(|extension| extension == "json");
                if is_decision && !known.contains(&path) {
                    tandem_shared::publish::remove(&path).map_err(|error| error.to_string())?;
                }
            }
            Ok(())
        });
        if let Err(why) = swept {
            warn!("can't remove old decisions: {why}");
        }
    }
}

/// From now until `time`, at least a moment: a clock that lags must not make us spin.
fn until(time: Timestamp) -> Duration {
    Duration::try_from(time.duration_since(Timestamp::now()))
        .unwrap_or_default()
        .max(Duration::from_millis(100))
}
