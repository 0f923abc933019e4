//! Passes: what each begins with, and what it leaves behind.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::{self, JoinError, block_in_place};
use tracing::{error, warn};

use super::memory::{Memory, Running, newest_status};
use super::{Controller, PATIENCE};
use crate::crd::Target;
use crate::credentials::{Known, Lent};
use crate::demand::SourceWish;
use crate::metrics::Trigger;
use crate::reconcile::plan::Owner;
use crate::reconcile::snapshot::{FileView, Snapshot, SourceView, Wants};
use crate::reconcile::{self, Again, Finished, backoff};
use crate::releases::{Entry, Key};
use crate::view::{Trouble, WantView, signed};

impl Controller {
    pub(super) fn touch(&mut self, key: Key, trigger: Trigger) {
        if !self.begun {
            return;
        }
        self.ctx.metrics.trigger(trigger);
        let running = |memory: &Memory| memory.running.is_some();
        if !self.memory.get(&key).is_some_and(running) {
            self.queue.push(key);
            return;
        }
        // A pass is under way; it sees what is new, and another one follows.
        let snapshot = self.snapshot(&key);
        if let Some(memory) = self.memory.get_mut(&key)
            && let Some((running, snapshot)) = memory.running.as_ref().zip(snapshot)
        {
            memory.again |= trigger != Trigger::resync;
            running.inputs.send_replace(Arc::new(snapshot));
        }
    }

    pub(super) fn start(&mut self, key: Key) {
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
            && self.releases.owner(&old).is_none()
        {
            self.ctx.metrics.forget(&old);
        }
        let task = self.passes.spawn(reconcile::run(self.ctx.clone(), heard));
        self.tasks.insert(task.id(), key);
    }

    pub(super) fn finished(&mut self, done: Result<(task::Id, Finished), JoinError>) {
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
    pub(super) fn forget(&mut self, key: &Key) {
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

    pub(super) fn snapshot(&self, key: &Key) -> Option<Snapshot> {
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
            .map(|target| self.records.history(target))
            .filter(|known| !memory.is_some_and(|memory| memory.is_ahead_of(known)));
        let status = newest_status(&entry, memory);
        let formers = entry
            .target
            .iter()
            .filter(|target| !status.is_only_of(target))
            .flat_map(|target| status.formers(target));
        Some(Snapshot {
            former_owners: formers
                .filter_map(|former| {
                    let target = former.target();
                    let owner = self.releases.owner(&target)?.to_string();
                    Some((target, owner))
                })
                .collect(),
            status,
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

    pub(super) fn source(&self, entry: &Entry) -> SourceView {
        let wish = match &entry.wish {
            Ok(wish) => wish,
            Err(unclear) => return SourceView::Unclear(unclear.clone()),
        };
        let chart = &wish.chart;
        if let Some(missing) = self.missing_credential(chart) {
            return SourceView::Credential(missing.0, missing.1);
        }
        let files = wish.files.iter().filter_map(|(file, place)| {
            let view = self.file(&entry.key, wish.source(&place.source)?, &place.key);
            let found = FileView {
                place: place.clone(),
                view,
            };
            Some((file.clone(), found))
        });
        SourceView::Wants(Wants {
            name: chart.name.clone(),
            key: chart.key().to_owned(),
            chart: self.view(&entry.key, chart, chart.key()),
            files: files.collect(),
        })
    }

    /// What the volume says about a values file.
    fn file(&self, key: &Key, wish: &SourceWish, want: &str) -> WantView {
        match self.missing_credential(wish) {
            None => match self.view(key, wish, want) {
                // One can do without an optional file that the check finds to be missing, not
                // without one that was missing before.
                WantView::Problem(_) if self.is_outdated(key, &wish.name) => {
                    WantView::Pending("it is being checked again".to_owned())
                }
                view => view,
            },
            Some((lent, Known::Problem { problem, .. })) => WantView::Problem(Trouble {
                reason: "CredentialMissing",
                message: match lent {
                    _ if lent.is_of_url() => format!("the password in its URL: {problem}"),
                    Lent::Credential(_) => format!("secretRef: {problem}"),
                    Lent::Keys(_) => format!("verify.secretRef: {problem}"),
                },
                source: false,
                passing: false,
            }),
            Some(_) => WantView::Pending("its credential is being read".to_owned()),
        }
    }

    /// What is known of the credential of a source, or of the keys for it, if that keeps it
    /// from being asked or verified.
    fn missing_credential(&self, wish: &SourceWish) -> Option<(Lent, Known)> {
        let mut lent = wish.lent().into_iter();
        let missing = lent.find(|lent| self.credentials.id(lent).is_none())?;
        let known = self.credentials.known(&missing);
        Some((missing, known))
    }

    fn view(&self, key: &Key, wish: &SourceWish, want: &str) -> WantView {
        let name = &wish.name;
        // What was missing before anybody wanted it may be there at the check that is to come.
        let asked = self
            .memory
            .get(key)
            .and_then(|memory| memory.asked.get(name));
        let doubted = asked.is_some_and(|asked| asked.doubted);
        let asked = wish.wants.iter().find(|asked| asked.key == want);
        let verify = asked.and_then(|asked| asked.spec.verify.as_ref());
        match signed(self.served.view(name, want), verify) {
            WantView::Good { .. } if self.is_outdated(key, name) => WantView::Pending(
                "the source is being checked, since the HelmRelease was edited".to_owned(),
            ),
            WantView::Problem(trouble)
                if doubted && !trouble.source && !self.served.is_failing(name) =>
            {
                WantView::Pending("the source is being checked again".to_owned())
            }
            WantView::Pending(why) => match self.wanted.refusal(name) {
                Some(why) => WantView::Problem(Trouble {
                    reason: "RequestRefused",
                    message: why.to_owned(),
                    source: false,
                    passing: false,
                }),
                None => WantView::Pending(why),
            },
            view => view,
        }
    }
}

/// From now until `time`, at least a moment: a clock that lags must not make us spin.
fn until(time: Timestamp) -> Duration {
    Duration::try_from(time.duration_since(Timestamp::now()))
        .unwrap_or_default()
        .max(Duration::from_millis(100))
}
