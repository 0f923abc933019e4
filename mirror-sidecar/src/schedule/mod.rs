//! The one loop over all sources: which is looked at, when, and how many at a
//! time. Each runs by itself, so that a bad one never delays another.

pub mod backoff;
mod hints;
mod requests;
mod tidy;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tandem_shared::source::SourceName;
use tandem_shared::watch::Watch;
use tokio::task::JoinSet;

use crate::check::{self, Context, Ended, State};
use crate::janitor::{self, Orphans, Survey};
use crate::start;
use hints::Hints;
use requests::{Changes, Requests};

/// How often requests are read while no watch is to be had.
const BLIND: Duration = Duration::from_secs(2);
/// From a fault of ours to the next attempt.
const AFTER_FAULT: Duration = Duration::from_secs(30);
/// Longest time without a sign of life, for /healthz.
const BEAT: Duration = Duration::from_secs(20);

/// A source in the schedule.
struct Entry {
    /// What is remembered of it; away while somebody works on it.
    state: Option<Box<State>>,
    running: bool,
    /// When the remote is to be asked next.
    due: Instant,
    /// Its request changed, or what it waits for is there.
    changed: bool,
    /// When it is to be looked at before that, without asking the remote.
    again: Option<Instant>,
}

/// Work that ended.
enum Done {
    Check {
        source: SourceName,
        state: Option<Box<State>>,
        polled: bool,
        ended: Ended,
    },
    Drop {
        source: SourceName,
        dropped: bool,
    },
    Survey(Survey),
    Nothing,
}

struct Schedule {
    context: Arc<Context>,
    requests: Requests,
    entries: BTreeMap<SourceName, Entry>,
    orphans: Orphans,
    /// Whether the requests could be listed, so that what is missing is gone.
    listed: bool,
    work: JoinSet<Done>,
    hints: Arc<Hints>,
    watch: Option<Watch>,
    /// It was said that no watch is to be had.
    blind: bool,
    /// It was said that there are no requests yet.
    waits: bool,
}

/// Runs until `end`, then until the work at hand has been cut short.
pub async fn run(context: Arc<Context>, end: impl Future<Output = ()>) {
    let mut schedule = Schedule {
        requests: Requests::default(),
        entries: BTreeMap::new(),
        orphans: Orphans::default(),
        listed: false,
        work: JoinSet::new(),
        hints: Arc::new(Hints::default()),
        watch: None,
        blind: false,
        waits: false,
        context,
    };
    schedule.run(end).await;
}

impl Schedule {
    async fn run(&mut self, end: impl Future<Output = ()>) {
        let mut end = pin!(end);
        let tidy_every = (self.context.config.grace / 8)
            .clamp(Duration::from_millis(500), Duration::from_secs(60));
        let mut rescan_at = Instant::now();
        let mut tidy_at = Instant::now();
        loop {
            self.context.health.beat();
            let now = Instant::now();
            if now >= rescan_at {
                if !self.listed {
                    self.watch = None;
                }
                self.subscribe();
                self.rescan();
                let rescan = self.context.config.rescan;
                rescan_at = now
                    + if self.watch.is_some() && self.listed {
                        rescan
                    } else {
                        rescan.min(BLIND)
                    };
            }
            if now >= tidy_at {
                tidy_at = now + tidy_every;
                let served = self.context.config.volume.served.clone();
                self.spawn(move || Done::Survey(janitor::survey(&served)));
            }
            self.start_due(now);
            let wake = self
                .entries
                .values()
                .filter(|entry| !entry.running)
                .map(|entry| entry.again.map_or(entry.due, |again| again.min(entry.due)));
            let wake = wake
                .chain([rescan_at, tidy_at, now + BEAT])
                .min()
                .unwrap_or(now);
            tokio::select! {
                () = &mut end => break,
                gathered = self.hints_taken() => {
                    if gathered.lost {
                        self.watch = None;
                    }
                    if gathered.everything {
                        rescan_at = Instant::now();
                    }
                    self.look_at(gathered.sources);
                }
                sources = self.downloads_told() => {
                    for source in sources {
                        if let Some(entry) = self.entries.get_mut(&source) {
                            entry.changed = true;
                        }
                    }
                }
                Some(done) = self.work.join_next() => match done {
                    Ok(done) => self.done(done),
                    Err(error) => tracing::error!(%error, "a task of the schedule failed"),
                },
                () = tokio::time::sleep_until(wake.into()) => {}
            }
        }
        while self.work.join_next().await.is_some() {}
    }

    fn hints_taken(&self) -> impl Future<Output = hints::Gathered> + use<> {
        let hints = Arc::clone(&self.hints);
        async move { hints.take().await }
    }

    fn downloads_told(&self) -> impl Future<Output = BTreeSet<SourceName>> + use<> {
        let context = Arc::clone(&self.context);
        async move { context.dependencies.told().await }
    }

    fn spawn(&mut self, work: impl FnOnce() -> Done + Send + 'static) {
        self.work.spawn(async move {
            tokio::task::spawn_blocking(work)
                .await
                .unwrap_or(Done::Nothing)
        });
    }

    fn subscribe(&mut self) {
        if self.watch.is_some() {
            return;
        }
        let folder = self.context.config.volume.wanted.requests();
        match self.hints.subscribe(&folder) {
            Ok(watch) => {
                self.watch = Some(watch);
                self.blind = false;
            }
            Err(error) => {
                // No reason not to be ready: the poll goes on.
                if !std::mem::replace(&mut self.blind, true) {
                    tracing::warn!(%error, "requests are polled");
                }
            }
        }
    }

    /// Whoever empties a volume by hand takes the folders, too.
    fn mend_folders(&self) {
        let health = &self.context.health;
        match start::mend_folders(&self.context.config.volume.served) {
            Ok(mended) => {
                health.well("folders");
                if mended {
                    tracing::warn!("folders of the volume were gone; they are made anew");
                }
            }
            Err(error) => {
                if health.trouble("folders", &error.to_string()) {
                    tracing::error!(%error, "folders of the volume are gone");
                }
            }
        }
    }

    fn rescan(&mut self) {
        self.mend_folders();
        let wanted = self.context.config.volume.wanted.clone();
        let health = Arc::clone(&self.context.health);
        match self.requests.look_at_all(&wanted) {
            Ok(changes) => {
                self.listed = true;
                self.waits = false;
                if health.well("requests") {
                    tracing::info!("the requests can be read again");
                }
                self.changed(changes);
            }
            Err(tandem_shared::observe::ObserveError::Missing(path)) => {
                if !std::mem::replace(&mut self.waits, true) {
                    tracing::info!(path = %path.display(), "waiting for the reconciler, which makes this folder for its requests");
                }
                self.listed = false;
            }
            Err(error) => {
                self.listed = false;
                if health.trouble("requests", &error.to_string()) {
                    tracing::error!(%error, "requests can't be read; what was known goes on");
                }
            }
        }
        health.scanned();
    }

    fn look_at(&mut self, sources: impl IntoIterator<Item = SourceName>) {
        let wanted = self.context.config.volume.wanted.clone();
        let mut changes = Changes::default();
        for source in sources {
            self.requests.look_at(&wanted, &source, &mut changes);
        }
        self.changed(changes);
    }

    fn changed(&mut self, changes: Changes) {
        for source in changes.gone {
            tracing::info!(%source, "no request any more");
            self.context.metrics.forget(&source);
            // What is remembered goes; what is on the volume stays for the grace.
            if self
                .entries
                .get(&source)
                .is_some_and(|entry| !entry.running)
            {
                self.entries.remove(&source);
            }
        }
        for source in changes.changed {
            let now = Instant::now();
            let entry = self.entries.entry(source).or_insert(Entry {
                state: None,
                running: false,
                due: now,
                changed: true,
                again: None,
            });
            entry.changed = true;
        }
        let wanted = i64::try_from(self.requests.sources().len()).unwrap_or(i64::MAX);
        self.context.metrics.sources.set(wanted);
    }

    fn start_due(&mut self, now: Instant) {
        let due = |entry: &Entry| {
            let again = entry.again.is_some_and(|again| now >= again);
            !entry.running && (entry.changed || again || now >= entry.due)
        };
        let sources: Vec<SourceName> = self
            .entries
            .iter()
            .filter(|(_, entry)| due(entry))
            .map(|(source, _)| source.clone())
            .collect();
        for source in sources {
            self.start(source, now);
        }
    }

    fn start(&mut self, source: SourceName, now: Instant) {
        let Some(request) = self.requests.get(&source).map(Arc::clone) else {
            self.entries.remove(&source);
            return;
        };
        let Some(entry) = self.entries.get_mut(&source) else {
            return;
        };
        entry.running = true;
        entry.changed = false;
        entry.again = None;
        let polled = now >= entry.due;
        let state = entry.state.take();
        let context = Arc::clone(&self.context);
        self.work.spawn(async move {
            let work = async move {
                let mut state = match state {
                    Some(state) => state,
                    None => {
                        let (context, request) = (Arc::clone(&context), Arc::clone(&request));
                        tokio::task::spawn_blocking(move || {
                            Box::new(State::take_up(&context, &request.document))
                        })
                        .await?
                    }
                };
                let _place = context.places.ask(state.standing()).await;
                let context = Arc::clone(&context);
                tokio::task::spawn_blocking(move || {
                    let ended = check::check(&context, &mut state, &request, polled);
                    (state, ended)
                })
                .await
            };
            match work.await {
                Ok((state, ended)) => Done::Check {
                    source,
                    state: Some(state),
                    polled,
                    ended,
                },
                Err(error) => {
                    tracing::error!(%source, %error, "a check failed by a fault of this program");
                    let ended = Ended {
                        exchanged: true,
                        next: AFTER_FAULT,
                        again: None,
                    };
                    Done::Check {
                        source,
                        state: None,
                        polled,
                        ended,
                    }
                }
            }
        });
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Check {
                source,
                state,
                polled,
                ended,
            } => {
                if self.requests.get(&source).is_none() {
                    self.entries.remove(&source);
                    self.context.metrics.forget(&source);
                    return;
                }
                let Some(entry) = self.entries.get_mut(&source) else {
                    return;
                };
                entry.running = false;
                entry.state = state;
                entry.again = ended.again;
                let next = Instant::now() + ended.next;
                // A look without an exchange leaves the next one where it was,
                // unless the request wants it sooner now.
                entry.due = if polled || ended.exchanged {
                    next
                } else {
                    next.min(entry.due)
                };
            }
            Done::Drop { source, dropped } => {
                if dropped {
                    tracing::info!(%source, "dropped what nothing asked for any more");
                    self.context.inventory.dropped(&source);
                    self.context.metrics.removed("source");
                }
                if let Some(entry) = self.entries.get_mut(&source) {
                    entry.running = false;
                }
            }
            Done::Survey(survey) => self.tidy(survey),
            Done::Nothing => {}
        }
    }
}
