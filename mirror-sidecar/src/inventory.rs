//! Which artifacts are named by which manifest, so that the janitor removes
//! none that somebody is about to name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tandem_shared::artifact::Digest;
use tandem_shared::manifest::Manifest;
use tandem_shared::source::SourceName;

/// What is named, and since when what isn't.
#[derive(Debug, Default)]
pub struct Inventory {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    named: BTreeMap<SourceName, BTreeSet<Digest>>,
    unnamed_since: BTreeMap<Digest, Instant>,
    /// Sources whose manifest can't be read, so that nobody knows what it names.
    unknown: BTreeSet<SourceName>,
}

/// Keeps what a check of one source may name.
pub struct Hold<'a> {
    inventory: &'a Inventory,
    source: &'a SourceName,
}

impl Hold<'_> {
    /// Keeps one more.
    pub fn also(&self, digest: &Digest) {
        self.inventory
            .lock()
            .named
            .entry(self.source.clone())
            .or_default()
            .insert(digest.clone());
    }
}

impl Inventory {
    /// A panic elsewhere leaves sets that are still true, or name too much.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a check of `source` keep what it builds.
    #[must_use]
    pub fn hold<'a>(&'a self, source: &'a SourceName) -> Hold<'a> {
        Hold {
            inventory: self,
            source,
        }
    }

    /// `manifest` is on the volume: what it names is kept, and what only the
    /// one before it named no longer is.
    pub fn published(&self, source: &SourceName, manifest: &Manifest) {
        let mut inner = self.lock();
        inner.unknown.remove(source);
        inner.named.insert(source.clone(), digests(manifest));
    }

    /// There is a manifest of `source` that can't be read: no artifact goes
    /// before it is another one, or gone.
    pub fn unreadable(&self, source: &SourceName) {
        self.lock().unknown.insert(source.clone());
    }

    /// There is no manifest of `source` any more.
    pub fn dropped(&self, source: &SourceName) {
        let mut inner = self.lock();
        inner.unknown.remove(source);
        inner.named.remove(source);
    }

    /// Removes, by `remove`, every one of `present` that nothing has named for
    /// `grace`. What is named while this runs waits for it.
    pub fn collect(
        &self,
        present: &[Digest],
        grace: Duration,
        now: Instant,
        mut remove: impl FnMut(&Digest) -> bool,
    ) {
        let mut inner = self.lock();
        if !inner.unknown.is_empty() {
            return;
        }
        let named: BTreeSet<Digest> = inner.named.values().flatten().cloned().collect();
        inner
            .unnamed_since
            .retain(|digest, _| !named.contains(digest) && present.contains(digest));
        for digest in present.iter().filter(|digest| !named.contains(digest)) {
            let since = *inner.unnamed_since.entry(digest.clone()).or_insert(now);
            if now.saturating_duration_since(since) >= grace && remove(digest) {
                inner.unnamed_since.remove(digest);
            }
        }
    }
}

fn digests(manifest: &Manifest) -> BTreeSet<Digest> {
    let goods = manifest
        .results
        .values()
        .filter_map(|result| result.good.as_ref());
    goods
        .flat_map(|good| good.same_as.iter().chain([&good.artifact]))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(c: char) -> Digest {
        format!("t1:{}", c.to_string().repeat(64)).parse().unwrap()
    }

    #[test]
    fn an_artifact_goes_only_after_the_grace_and_never_while_named() {
        let inventory = Inventory::default();
        let source = SourceName::parse("s-0123456789abcdef0123456789abcdef").unwrap();
        let (kept, gone) = (digest('a'), digest('b'));
        inventory.hold(&source).also(&kept);
        let present = [kept.clone(), gone.clone()];
        let start = Instant::now();
        let grace = Duration::from_secs(60);
        let mut removed = Vec::new();
        for seconds in [0, 59, 60] {
            let now = start + Duration::from_secs(seconds);
            inventory.collect(&present, grace, now, |digest| {
                removed.push((seconds, digest.clone()));
                true
            });
        }
        assert_eq!(removed, [(60, gone)]);
        // No longer named: its own grace begins now.
        inventory.dropped(&source);
        for seconds in [100, 159, 160] {
            inventory.collect(
                &present[..1],
                grace,
                start + Duration::from_secs(seconds),
                |digest| {
                    removed.push((seconds, digest.clone()));
                    true
                },
            );
        }
        assert_eq!(removed[1..], [(160, kept)]);
    }
}
