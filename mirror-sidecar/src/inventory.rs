//! Which artifacts are named by which manifest, so that the janitor removes
//! none that somebody is about to name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tandem_shared::artifact::Digest;
use tandem_shared::manifest::Manifest;
use tandem_shared::request::ResolvedDependency;
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
    /// Dependencies that were downloaded.
    resolved: BTreeMap<SourceName, BTreeSet<ResolvedDependency>>,
    archives_unnamed_since: BTreeMap<String, Instant>,
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

    /// Keeps the archive of one more dependency.
    pub fn archive(&self, resolved: &ResolvedDependency) {
        let mut inner = self.inventory.lock();
        let of = inner.resolved.entry(self.source.clone()).or_default();
        of.insert(resolved.clone());
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
    /// one before it named no longer is. Archives that were downloaded are, while charts are
    /// `waiting` for others that they ask for as well.
    pub fn published(&self, source: &SourceName, manifest: &Manifest, waiting: bool) {
        let mut inner = self.lock();
        inner.unknown.remove(source);
        inner.named.insert(source.clone(), digests(manifest));
        let resolved = inner.resolved.entry(source.clone()).or_default();
        if !waiting {
            resolved.clear();
        }
        resolved.extend(downloaded(manifest));
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
        inner.resolved.remove(source);
    }

    /// The archive that exactly this dependency stands for in some chart of `source`. What
    /// others were given may lie behind a login that this one hasn't.
    #[must_use]
    pub fn archive(
        &self,
        source: &SourceName,
        name: &str,
        version: &str,
        repository: &str,
    ) -> Option<String> {
        let inner = self.lock();
        let mut all = inner.resolved.get(source)?.iter();
        let found = all
            .find(|one| one.name == name && one.version == version && one.repository == repository);
        found?.digest.clone()
    }

    /// As [`Inventory::collect`], for archives of dependencies.
    pub fn collect_archives(
        &self,
        present: &[String],
        grace: Duration,
        now: Instant,
        remove: impl FnMut(&String) -> bool,
    ) {
        let mut inner = self.lock();
        if !inner.unknown.is_empty() {
            return;
        }
        let resolved = inner.resolved.values().flatten();
        let named = resolved.filter_map(|one| one.digest.clone()).collect();
        sweep(
            &mut inner.archives_unnamed_since,
            present,
            &named,
            grace,
            now,
            remove,
        );
    }

    /// Removes, by `remove`, every one of `present` that nothing has named for
    /// `grace`. What is named while this runs waits for it.
    pub fn collect(
        &self,
        present: &[Digest],
        grace: Duration,
        now: Instant,
        remove: impl FnMut(&Digest) -> bool,
    ) {
        let mut inner = self.lock();
        if !inner.unknown.is_empty() {
            return;
        }
        let named: BTreeSet<Digest> = inner.named.values().flatten().cloned().collect();
        sweep(
            &mut inner.unnamed_since,
            present,
            &named,
            grace,
            now,
            remove,
        );
    }
}

/// Removes what is present and hasn't been named for the whole grace.
fn sweep<T: Clone + Ord>(
    unnamed_since: &mut BTreeMap<T, Instant>,
    present: &[T],
    named: &BTreeSet<T>,
    grace: Duration,
    now: Instant,
    mut remove: impl FnMut(&T) -> bool,
) {
    let present: BTreeSet<&T> = present.iter().collect();
    unnamed_since.retain(|one, _| !named.contains(one) && present.contains(one));
    for one in present.into_iter().filter(|one| !named.contains(*one)) {
        let since = *unnamed_since.entry(one.clone()).or_insert(now);
        if now.saturating_duration_since(since) >= grace && remove(one) {
            unnamed_since.remove(one);
        }
    }
}

fn downloaded(manifest: &Manifest) -> BTreeSet<ResolvedDependency> {
    let results = manifest.results.values();
    let goods = results.filter_map(|result| result.good.as_ref());
    goods
        .flat_map(|good| good.resolved.iter())
        .filter(|one| one.digest.is_some())
        .cloned()
        .collect()
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
