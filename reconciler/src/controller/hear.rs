//! What is heard, and whom it concerns.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kube::runtime::watcher::Event;
use tandem_shared::source::SourceName;
use tokio::task::{JoinError, block_in_place};
use tokio::time::Instant;
use tracing::{error, info};

use super::edits::keys_of;
use super::memory::{Asked, Memory, newest_status};
use super::{Controller, RECENT, Read};
use crate::crd::{StoredHelmRelease, Target};
use crate::credentials::Lent;
use crate::http::SyncRequest;
use crate::metrics::Trigger;
use crate::reconcile::plan::Failures;
use crate::records::{Records, StoredRecord};
use crate::references::{self, Kind, Seen};
use crate::releases::{Change, Entry, Key};
use crate::served::News;
use crate::triggers::Look;
use crate::view::WantView;
use crate::wanted::SourceFilter;

impl Controller {
    pub(super) fn helm_release(&mut self, event: Event<StoredHelmRelease>) {
        for (key, change) in self.releases.take(event, &self.settings.sources) {
            if let Some((entry, memory)) = self.releases.get(&key).zip(self.memory.get_mut(&key)) {
                memory.caught_up(entry);
            }
            match change {
                Change::Told => self.told(&key),
                Change::Added | Change::Asked => {
                    self.stale = true;
                    self.note_wants(&key);
                    self.note_request(&key, change);
                    self.note_references(&key);
                    self.tell_former_owners(&key);
                    self.touch(key, Trigger::helmrelease);
                }
                Change::Removed => {
                    self.stale = true;
                    self.note_references(&key);
                    self.forget(&key);
                }
            }
        }
    }

    /// Whoever edits the source of a HelmRelease wants what is there now, not what was there
    /// at the last poll.
    pub(super) fn note_wants(&mut self, key: &Key) {
        let wish = self
            .releases
            .get(key)
            .and_then(|entry| entry.wish.as_ref().ok());
        let wants: BTreeMap<_, _> = wish
            .iter()
            .flat_map(|wish| wish.sources())
            .map(|wish| (wish.name.clone(), keys_of(&wish.wants)))
            .collect();
        // Of what nobody asks for, something may be served still: it is from another time.
        let mut left: BTreeMap<SourceName, String> = wish
            .iter()
            .flat_map(|wish| wish.sources())
            .filter(|wish| !self.wanted.requests().contains_key(&wish.name))
            .filter_map(|wish| {
                let handled = block_in_place(|| self.served.left_of(&wish.source))?;
                Some((wish.name.clone(), handled))
            })
            .collect();
        let memory = self.memory.entry(key.clone()).or_default();
        memory.blocked = 0;
        let mut before = std::mem::take(&mut memory.asked);
        let known: BTreeMap<_, _> = if before.is_empty() {
            // It may have been edited while nobody looked.
            self.wanted.asked_by(&key.to_string())
        } else {
            let before = before.iter();
            before
                .map(|(name, asked)| (name.clone(), asked.wants.clone()))
                .collect()
        };
        let mut news = Vec::new();
        for (name, wants) in wants {
            let asked = before.remove(&name).filter(|asked| asked.wants == wants);
            if asked.is_none() {
                news.push((name.clone(), wants.clone()));
            }
            let asked = asked.unwrap_or_else(|| Asked {
                wants,
                since: Some(Timestamp::now()),
                ..Asked::default()
            });
            memory.asked.insert(name, asked);
        }
        for (name, keys) in news {
            let left = left.remove(&name);
            let edited = left.is_some() || !known.is_empty() && known.get(&name) != Some(&keys);
            if edited {
                self.hold(key, &name, left);
            }
            if edited || self.begun && self.asks_late(&name, &keys) {
                self.edited.insert(name);
            }
        }
    }

    /// Whoever asks for a HelmRelease to be looked at wants no old news, and no more waiting.
    fn note_request(&mut self, key: &Key, change: Change) {
        let Some(entry) = self.releases.get(key) else {
            return;
        };
        let requested = entry.requested_at().cloned();
        let wish = entry.wish.as_ref().ok();
        let sources: Vec<SourceName> = wish
            .iter()
            .flat_map(|wish| wish.sources())
            .map(|wish| wish.name.clone())
            .collect();
        // While nobody looked it may have been asked for, too; the status tells what was heard.
        let status = entry.release().and_then(|release| release.status.as_ref());
        let handled = status.and_then(|status| status.last_handled_reconcile_at.clone());
        let memory = self.memory.entry(key.clone()).or_default();
        let before = std::mem::replace(&mut memory.requested, requested);
        let before = if change == Change::Added {
            handled
        } else {
            before
        };
        if memory.requested.is_none() || memory.requested == before {
            return;
        }
        info!(helmrelease = %key, requested = memory.requested, "asked for by an annotation");
        memory.failures = Failures::default();
        for source in sources {
            self.hold(key, &source, None);
            self.edited.insert(source);
        }
    }

    /// A HelmRelease may ask for a release that others had and are about to remove.
    fn tell_former_owners(&mut self, key: &Key) {
        let target = self
            .releases
            .get(key)
            .and_then(|entry| entry.target.clone());
        let Some(target) = target.filter(|_| self.begun) else {
            return;
        };
        let had = |entry: &&Arc<Entry>| {
            let Some(present) = entry.target.as_ref().filter(|_| entry.key != *key) else {
                return false;
            };
            let told = entry.release().and_then(|release| release.status.as_ref());
            if told.is_some_and(|told| told.is_only_of(present)) {
                return false;
            }
            let status = newest_status(entry, self.memory.get(&entry.key));
            let formers = status.formers(present);
            formers.iter().any(|former| former.target() == target)
        };
        let others: Vec<Key> = self
            .releases
            .iter()
            .filter(had)
            .map(|entry| entry.key.clone())
            .collect();
        for other in others {
            self.touch(other, Trigger::helmrelease);
        }
    }

    /// The first reference to an object of its kind has that kind followed.
    pub(super) fn note_references(&mut self, key: &Key) {
        let entry = self.releases.get(key);
        let named = entry.map(|entry| references::named_by(entry));
        self.references.set(key, named.unwrap_or_default());
        let now = self.references.followed();
        self.followed
            .send_if_modified(|followed| std::mem::replace(followed, now) != now);
    }

    /// What a HelmRelease names has changed: its values, or the credential of its source.
    pub(super) fn reference(&mut self, seen: Seen) {
        for object in self.references.take(seen) {
            let keys: Vec<Key> = self.references.of(&object).cloned().collect();
            if object.kind == Kind::Secret {
                let is_it = |lent: &Lent| {
                    let secret = lent.secret();
                    secret.namespace == object.namespace && secret.name == object.name
                };
                let known = self.credentials.all();
                for lent in known.into_iter().filter(is_it) {
                    self.read_credential(lent);
                }
            }
            for key in keys {
                self.memory.entry(key.clone()).or_default().blocked = 0;
                self.touch(key, Trigger::reference);
            }
        }
    }

    /// Whether something is wanted of a source for the first time, long after the source was
    /// asked.
    pub(super) fn asks_late(&self, name: &SourceName, keys: &[String]) -> bool {
        let Some(request) = self.wanted.requests().get(name) else {
            return false;
        };
        let new = keys
            .iter()
            .any(|key| request.wants.iter().all(|want| want.key != *key));
        let checked = self.served.checked_at(name);
        new && checked.is_some_and(|at| Timestamp::now().duration_since(at) > RECENT)
    }

    /// A status was written. Ours is known already; only a preference for what was resolved
    /// may follow from it.
    pub(super) fn told(&mut self, key: &Key) {
        let Some(entry) = self.releases.get(key) else {
            return;
        };
        let wish = entry.wish.as_ref().ok();
        let memory = self.memory.entry(key.clone()).or_default();
        let prefer = wish
            .and_then(|wish| wish.chart.wants.first())
            .map(|want| want.prefer.clone())
            .unwrap_or_default();
        self.stale |= memory.prefer != prefer;
        memory.prefer = prefer;
    }

    pub(super) fn record(&mut self, event: Event<StoredRecord>) {
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
    pub(super) fn is_news(records: &Records, target: &Target, memory: &Memory) -> bool {
        let newest = records
            .history(target)
            .last()
            .map(|last| last.resource_version.clone())
            .unwrap_or_default();
        memory.seen_record.as_ref() != Some(&newest)
    }

    pub(super) fn look(&mut self, look: &Look) {
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
            self.doubt(&name);
            self.let_go(&name);
            self.news(&name, &news);
            if source.credential.is_some() || self.served.uses_keys(&name) {
                self.retain_credentials();
            }
        }
        self.looked |= look.everything;
        self.ctx.metrics.git_ready(self.served.git_is_ready());
    }

    pub(super) fn news(&mut self, name: &SourceName, news: &News) {
        if !news.everything && news.wants.is_empty() {
            return;
        }
        let touched: Vec<Key> = self
            .releases
            .iter()
            .filter(|entry| {
                entry.wish.as_ref().is_ok_and(|wish| {
                    let mut sources = wish.sources().filter(|wish| wish.name == *name);
                    sources.any(|wish| wish.wants.iter().any(|want| news.touches(&want.key)))
                })
            })
            .map(|entry| entry.key.clone())
            .collect();
        for key in touched {
            self.memory.entry(key.clone()).or_default().blocked = 0;
            self.touch(key, Trigger::manifest);
        }
    }

    /// What isn't there at the last check may be there by now, if it was wanted only after it:
    /// the source is checked once more, before anybody has to wait for the next poll.
    pub(super) fn doubt(&mut self, name: &SourceName) {
        let Some(checked) = self.served.checked_at(name) else {
            return;
        };
        let token = self.wanted.extras().refresh.get(name);
        let handled = token.is_some_and(|token| self.served.has_handled(name, token));
        let mut settled = Vec::new();
        for (key, memory) in &mut self.memory {
            let Some(asked) = memory.asked.get_mut(name) else {
                continue;
            };
            let Some(since) = asked.since else {
                continue;
            };
            if checked >= since || asked.doubted && handled {
                asked.since = None;
                if std::mem::take(&mut asked.doubted) {
                    settled.push(key.clone());
                }
            } else if !asked.doubted {
                asked.doubted = asked.wants.iter().any(|want| {
                    matches!(self.served.view(name, want), WantView::Problem(trouble) if !trouble.source)
                });
                if asked.doubted {
                    self.edited.insert(name.clone());
                    self.stale = true;
                }
            }
        }
        for key in settled {
            self.touch(key, Trigger::manifest);
        }
    }

    pub(super) fn sync(&mut self, sync: SyncRequest) {
        if !self.begun {
            // Dropped unanswered: the asker is told to come back.
            return;
        }
        let sources = match &sync.filter {
            Some(pushed @ SourceFilter::Pushed(_)) => self.pushed(pushed),
            filter => {
                let sources = self.wanted.refresh(filter.as_ref());
                info!(sources, "asked to check sources now");
                sources
            }
        };
        self.stale |= sources > 0;
        // Whoever asks may count on it from the answer on.
        self.derive();
        let _ = sync.answer.send(sources);
    }

    /// A forge says that somebody pushed; says of how many sources. Each is checked at once,
    /// or a moment later if it was pushed to a moment ago.
    fn pushed(&mut self, filter: &SourceFilter) -> usize {
        let names = self.wanted.chosen(Some(filter));
        let now = Instant::now();
        for name in &names {
            info!(source = %name, "pushed to");
            if self.pushes.hear(name, now) {
                let filter = SourceFilter::Name(name.to_string());
                self.wanted.refresh(Some(&filter));
            }
        }
        names.len()
    }

    /// Forges tell of a push once, and some did while nobody listened, or just before.
    pub(super) fn missed_pushes(&mut self) {
        let sources = self.wanted.refresh(Some(&SourceFilter::Pushable));
        if sources > 0 {
            info!(sources, "checked for pushes that nobody heard of");
            self.derive();
        }
    }

    /// Checks what was pushed to while it had to wait.
    pub(super) fn late_pushes(&mut self) {
        for name in self.pushes.due(Instant::now()) {
            let filter = SourceFilter::Name(name.to_string());
            self.stale |= self.wanted.refresh(Some(&filter)) > 0;
        }
    }

    pub(super) fn credential(&mut self, read: Result<Read, JoinError>) {
        match read {
            Ok((secret, read)) => {
                if self.reading.remove(&secret) == Some(true) {
                    return self.read_credential(secret);
                }
                if block_in_place(|| self.credentials.learn(&secret, read)) {
                    self.stale = true;
                    let of_secret = |entry: &&Arc<Entry>| {
                        entry.wish.as_ref().is_ok_and(|wish| {
                            let mut sources = wish.sources();
                            sources.any(|wish| wish.lent().contains(&secret))
                        })
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
            Err(error) => {
                // Which one isn't known; the next resync reads all of them.
                self.reading.clear();
                error!("reading a credential ended unexpectedly: {error}");
            }
        }
    }

    pub(super) fn due(&mut self, key: Key) {
        self.touch(key, Trigger::timer);
    }

    /// Believes nothing: everything is read, derived and looked at again.
    pub(super) fn resync(&mut self) {
        self.stale = true;
        self.thorough = true;
        for secret in self.credentials.all() {
            self.read_credential(secret);
        }
        self.look(&Look::all());
        self.everything(Trigger::resync);
    }

    pub(super) fn everything(&mut self, trigger: Trigger) {
        let all: Vec<Key> = self
            .releases
            .iter()
            .map(|entry| entry.key.clone())
            .collect();
        for key in all {
            self.touch(key, trigger);
        }
    }
}
