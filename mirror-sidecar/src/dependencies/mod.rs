//! Dependencies that have to be downloaded: asked for by checks, brought by the real helm,
//! kept by content.
//!
//! No check waits for a download. It asks, is told that the archive is here, coming or not to
//! be had, and is made again when that changes. Whoever asks for the same shares the download;
//! what failed before stands in a queue of its own, so that a repository that hangs delays
//! its like only.

mod index;
mod place;
mod said;
mod stage;
mod worker;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use secrecy::SecretString;
use tandem_shared::child::Cancel;
use tandem_shared::layout::Served;
use tandem_shared::manifest::Reason;
use tandem_shared::request::ResolvedDependency;
use tandem_shared::source::{SourceName, redact_url};
use thiserror::Error;
use tokio::sync::Notify;

use crate::address::Scheme;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::schedule::backoff;
use crate::web::Web;

/// Downloads at the same time: of what is new, and of what failed before.
const WORKERS: [usize; 2] = [2, 1];
/// How long what came of a download is remembered.
const REMEMBERED: Duration = Duration::from_secs(3600);
/// How long downloads are waited for at the end: a child gets ten seconds of grace.
const FAREWELL: Duration = Duration::from_secs(15);

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// What it is called.
    pub name: &'a str,
    /// Its version, or a range.
    pub version: &'a str,
    /// Where it comes from, as the chart writes it.
    pub repository: &'a str,
    /// SHA-256 of the archive that was resolved before: no other will do.
    pub pinned: Option<&'a str>,
    /// The source whose check is made again when something changes.
    pub source: &'a SourceName,
    /// What was found out before this isn't news enough.
    pub since: Instant,
    /// What failed before this is tried again.
    pub anew: Instant,
    /// For one download.
    pub timeout: Duration,
    /// From one check of the source to the next.
    pub interval: Duration,
    /// Nothing more may be downloaded.
    pub full: bool,
}

/// What there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The archive lies in the cache.
    Here(ResolvedDependency),
    /// The source is told when that is known.
    Coming,
    /// It can't be had. At this time it is to be asked for again; without one, that goes on,
    /// and the source is told how it ends.
    Failed(Fault, Option<Instant>),
    /// Nobody will be asked for it.
    Never(String),
    /// It would have to be downloaded, and nothing may be.
    Full,
}

/// Why a dependency can't be had just now.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// Perhaps the next time.
    #[error("{0}")]
    Outage(String),
    /// Not before somebody does something.
    #[error("{0}")]
    Refused(String),
    /// The volume refuses.
    #[error("{0}")]
    Volume(String),
}

/// A user name and a password.
type Login = (String, SecretString);

/// Who downloads dependencies.
#[derive(Debug)]
pub struct Dependencies {
    desk: Arc<Desk>,
}

/// What the workers share.
#[derive(Debug)]
struct Desk {
    program: PathBuf,
    served: Served,
    schemes: BTreeSet<Scheme>,
    plain: BTreeSet<String>,
    netrc: Option<PathBuf>,
    web: Web,
    limit: u64,
    cancel: Cancel,
    metrics: Arc<Metrics>,
    book: Mutex<Book>,
    idle: Condvar,
    news: Notify,
}

#[derive(Debug, Default)]
struct Book {
    jobs: BTreeMap<Key, Job>,
    queues: [VecDeque<Key>; 2],
    /// Repositories from which something is being downloaded, by queue.
    busy: [BTreeSet<String>; 2],
    workers: [usize; 2],
    /// Sources whose checks have something to look at.
    told: BTreeSet<SourceName>,
    ending: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    repository: String,
    name: String,
    version: String,
    pinned: Option<String>,
}

#[derive(Debug)]
struct Job {
    waiting: BTreeSet<SourceName>,
    timeout: Duration,
    interval: Duration,
    /// When the last download began.
    begun: Instant,
    failures: u32,
    running: bool,
    last: Option<Result<ResolvedDependency, (Fault, Instant)>>,
}

impl Dependencies {
    /// Downloads as `config` says, until `cancel`.
    #[must_use]
    pub fn new(config: &Config, cancel: Cancel, metrics: Arc<Metrics>) -> Self {
        let desk = Desk {
            program: config.helm.clone(),
            served: config.volume.served.clone(),
            schemes: config.schemes.clone(),
            plain: config.plain_registries.clone(),
            netrc: config.netrc.clone(),
            web: Web::default(),
            limit: config.limits.bytes,
            cancel,
            metrics,
            book: Mutex::default(),
            idle: Condvar::new(),
            news: Notify::new(),
        };
        Self {
            desk: Arc::new(desk),
        }
    }

    /// Asks for a dependency.
    #[must_use]
    pub fn ask(&self, wanted: &Wanted<'_>) -> Answer {
        let here = |digest: &str| self.desk.has(digest);
        if let Some(digest) = wanted.pinned.filter(|digest| here(digest)) {
            return Answer::Here(resolved(wanted, digest));
        }
        if let Err(why) = self.desk.place(wanted.repository) {
            return Answer::Never(why);
        }
        let key = Key {
            repository: wanted.repository.to_owned(),
            name: wanted.name.to_owned(),
            version: wanted.version.to_owned(),
            pinned: wanted.pinned.map(ToOwned::to_owned),
        };
        let now = Instant::now();
        let mut book = self.desk.book();
        let job = book.jobs.entry(key.clone()).or_insert_with(|| Job {
            waiting: BTreeSet::new(),
            timeout: wanted.timeout,
            interval: wanted.interval,
            begun: wanted.since,
            failures: 0,
            running: false,
            last: None,
        });
        (job.timeout, job.interval) = (wanted.timeout, wanted.interval);
        let recent = job.begun >= wanted.since;
        if !job.running {
            match &job.last {
                Some(Ok(resolved)) if recent && resolved.digest.as_deref().is_some_and(here) => {
                    return Answer::Here(resolved.clone());
                }
                Some(Err((fault, again))) if recent && job.begun >= wanted.anew && now < *again => {
                    return Answer::Failed(fault.clone(), Some(*again));
                }
                _ => {}
            }
        }
        if !job.running && wanted.full {
            return Answer::Full;
        }
        job.waiting.insert(wanted.source.clone());
        let answer = match &job.last {
            Some(Err((fault, _))) if recent => Answer::Failed(fault.clone(), None),
            _ => Answer::Coming,
        };
        if !job.running {
            job.running = true;
            let queue = usize::from(job.failures > 0);
            self.desk.queue(&mut book, queue, key);
        }
        answer
    }

    /// Waits until there is something new, and takes the sources that it is about.
    pub async fn told(&self) -> BTreeSet<SourceName> {
        self.desk.news.notified().await;
        std::mem::take(&mut self.desk.book().told)
    }

    /// Waits until all that was begun has been cut short. Blocks the thread.
    pub fn end(&self) {
        self.desk.web.end();
        let mut book = self.desk.book();
        book.ending = true;
        let end = Instant::now() + FAREWELL;
        while book.workers.iter().any(|workers| *workers > 0) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.desk.idle.wait_timeout(book, left);
            book = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Desk {
    /// A panic elsewhere leaves a book in which at most one job runs for ever.
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&self, digest: &str) -> bool {
        let path = self.served.archive(digest);
        path.symlink_metadata().is_ok_and(|meta| meta.is_file())
    }

    fn queue(self: &Arc<Self>, book: &mut Book, queue: usize, key: Key) {
        book.queues[queue].push_back(key);
        if book.workers[queue] >= WORKERS[queue] || book.ending {
            return;
        }
        let desk = Arc::clone(self);
        let worker = std::thread::Builder::new()
            .name("dependencies".to_owned())
            .spawn(move || desk.work(queue));
        match worker {
            Ok(_) => book.workers[queue] += 1,
            // The next one that is asked for brings a worker, or a running one comes by.
            Err(error) => tracing::error!(%error, "no thread to download dependencies"),
        }
    }
}

impl Book {
    /// Takes the next of a queue, and with it all that come from the same repository: they
    /// share its index, and whatever keeps one of them waiting. Nobody else takes anything
    /// from there until it is given back. With how long each may take.
    fn take(&mut self, queue: usize) -> Option<(String, Vec<(Key, Duration)>)> {
        let busy = &mut self.busy[queue];
        let mut waiting = self.queues[queue].iter();
        let repository = waiting.find(|key| !busy.contains(&key.repository))?;
        let repository = repository.repository.clone();
        busy.insert(repository.clone());
        let all = std::mem::take(&mut self.queues[queue]).into_iter();
        let (same, others) = all.partition(|key| key.repository == repository);
        self.queues[queue] = others;
        let now = Instant::now();
        let same: VecDeque<Key> = same;
        let begun = same.into_iter().filter_map(|key| {
            let job = self.jobs.get_mut(&key)?;
            job.begun = now;
            Some((key, job.timeout))
        });
        let begun = begun.collect();
        Some((repository, begun))
    }

    fn record(&mut self, key: &Key, result: Result<ResolvedDependency, Fault>) {
        let now = Instant::now();
        self.jobs
            .retain(|_, job| job.running || now.saturating_duration_since(job.begun) < REMEMBERED);
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        job.running = false;
        job.last = Some(match result {
            Ok(resolved) => {
                job.failures = 0;
                Ok(resolved)
            }
            Err(fault) => {
                job.failures = job.failures.saturating_add(1);
                let wait = match &fault {
                    Fault::Refused(_) => job.interval,
                    Fault::Outage(_) => {
                        backoff::after_failure(&Reason::Unreachable, job.failures, job.interval)
                    }
                    Fault::Volume(_) => {
                        backoff::after_failure(&Reason::Volume, job.failures, job.interval)
                    }
                };
                if job.failures == 1 {
                    tracing::warn!(name = %key.name, version = %key.version, repository = %redact_url(&key.repository), %fault, "a dependency can't be had");
                }
                Err((fault, now + wait))
            }
        });
        self.told.append(&mut job.waiting);
    }
}

fn resolved(wanted: &Wanted<'_>, digest: &str) -> ResolvedDependency {
    ResolvedDependency {
        name: wanted.name.to_owned(),
        version: wanted.version.to_owned(),
        repository: redact_url(wanted.repository),
        digest: Some(digest.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_one_repository_is_taken_together_and_by_one() {
        let key = |repository: &str, name: &str| Key {
            repository: repository.to_owned(),
            name: name.to_owned(),
            version: "*".to_owned(),
            pinned: None,
        };
        let mut book = Book::default();
        let queue = |book: &mut Book, key: Key| {
            let job = Job {
                waiting: BTreeSet::new(),
                timeout: Duration::from_secs(1),
                interval: Duration::from_secs(1),
                begun: Instant::now(),
                failures: 0,
                running: true,
                last: None,
            };
            book.jobs.insert(key.clone(), job);
            book.queues[0].push_back(key);
        };
        for (repository, name) in [("one", "a"), ("two", "b"), ("one", "c")] {
            queue(&mut book, key(repository, name));
        }
        let taken = |book: &mut Book| {
            let (repository, keys) = book.take(0)?;
            let names: Vec<String> = keys.into_iter().map(|(key, _)| key.name).collect();
            Some((repository, names.join(" ")))
        };
        let of = |repository: &str, names: &str| Some((repository.to_owned(), names.to_owned()));
        assert_eq!(taken(&mut book), of("one", "a c"));
        queue(&mut book, key("one", "d"));
        assert_eq!(taken(&mut book), of("two", "b"));
        assert_eq!(taken(&mut book), None, "another is at it");
        book.busy[0].remove("one");
        assert_eq!(taken(&mut book), of("one", "d"));
    }
}
