//! All HelmReleases, in memory, as a watch delivers them: stripped of what nobody reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt};
use tandem_shared::decision::ObjectRef;

use crate::config::SourceDefaults;
use crate::crd::{
    ABANDON_ANNOTATION, FINALIZER, HelmRelease, REQUEST_ANNOTATION, SUSPEND_ANNOTATION,
    StoredHelmRelease, Target,
};
use crate::demand::{self, Wish, WishError};

/// Names one HelmRelease.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Key {
    fn of(object: &StoredHelmRelease) -> Self {
        Self {
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
        }
    }

    /// The same for files on the volume.
    #[must_use]
    pub fn to_ref(&self) -> ObjectRef {
        ObjectRef {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.namespace, self.name)
    }
}

/// One HelmRelease, with what follows from it alone.
#[derive(Debug)]
pub struct Entry {
    /// What it is called.
    pub key: Key,
    /// The object; one that can't be read has its metadata still.
    pub object: StoredHelmRelease,
    /// The release that it asks for.
    pub target: Option<Target>,
    /// What it wants of its sources, or why that can't be made out.
    pub wish: Result<Wish, Unclear>,
}

/// Why a HelmRelease can't be worked with as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unclear {
    /// It isn't what the schema says.
    Unreadable(String),
    /// It is, but makes no sense.
    Wish(WishError),
}

impl std::fmt::Display for Unclear {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreadable(why) => write!(
                formatter,
                "this HelmRelease can't be read: {why}; correct its spec"
            ),
            Self::Wish(error) => error.fmt(formatter),
        }
    }
}

impl Entry {
    /// Reads an object.
    #[must_use]
    pub fn new(object: StoredHelmRelease, defaults: &SourceDefaults) -> Self {
        let wish = match &object.0 {
            Ok(release) => demand::wish(release, defaults).map_err(Unclear::Wish),
            Err(invalid) => Err(Unclear::Unreadable(invalid.error.clone())),
        };
        let target = object.0.as_ref().ok().map(HelmRelease::target);
        Self {
            key: Key::of(&object),
            object,
            target,
            wish,
        }
    }

    /// The object, if it could be read.
    #[must_use]
    pub fn release(&self) -> Option<&HelmRelease> {
        self.object.0.as_ref().ok()
    }

    /// Its generation.
    #[must_use]
    pub fn generation(&self) -> i64 {
        self.object.meta().generation.unwrap_or_default()
    }

    /// Whether it is being deleted.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.object.meta().deletion_timestamp.is_some()
    }

    /// Whether our finalizer holds it.
    #[must_use]
    pub fn has_finalizer(&self) -> bool {
        self.object
            .finalizers()
            .iter()
            .any(|finalizer| finalizer == FINALIZER)
    }

    /// Whether its deletion leaves the release in the cluster: an annotation says so, or our
    /// finalizer isn't on it, without which we never touch a release.
    #[must_use]
    pub fn is_abandoning(&self) -> bool {
        self.is_annotated_to_abandon() || self.is_suspended() || !self.has_finalizer()
    }

    /// Whether an annotation says that releases stay in the cluster.
    #[must_use]
    pub fn is_annotated_to_abandon(&self) -> bool {
        self.is_annotated(ABANDON_ANNOTATION)
    }

    /// Whether an annotation says that nothing is to be done for it.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.is_annotated(SUSPEND_ANNOTATION)
    }

    /// When somebody asked for it to be looked at, in whatever words.
    #[must_use]
    pub fn requested_at(&self) -> Option<&String> {
        self.object.annotations().get(REQUEST_ANNOTATION)
    }

    fn is_annotated(&self, annotation: &str) -> bool {
        let annotation = self.object.annotations().get(annotation);
        annotation.is_some_and(|value| value == "true")
    }

    /// Its place among those that claim the same release: the oldest first.
    fn claim(&self) -> Claim {
        let meta = self.object.meta();
        Claim(
            meta.creation_timestamp
                .as_ref()
                .map_or(i128::MAX, |time| time.0.as_nanosecond()),
            meta.uid.clone().unwrap_or_default(),
            self.key.clone(),
        )
    }
}

/// Creation time, UID, and who it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Claim(i128, String, Key);

/// What a watch event means for one HelmRelease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// New to us.
    Added,
    /// Something that somebody asks for changed: spec, annotations, finalizers, deletion.
    Asked,
    /// Only its status changed, or nothing.
    Told,
    /// It is gone.
    Removed,
}

/// All HelmReleases.
#[derive(Default)]
pub struct Releases {
    entries: BTreeMap<Key, Arc<Entry>>,
    claims: BTreeMap<Target, BTreeSet<Claim>>,
    /// Seen since a new listing began; what isn't among them at its end is gone.
    listing: Option<BTreeSet<Key>>,
    listed: bool,
}

impl Releases {
    /// Whether they were all listed once.
    #[must_use]
    pub fn is_listed(&self) -> bool {
        self.listed
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.entries.values()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// One of them.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Arc<Entry>> {
        self.entries.get(key)
    }

    /// Who owns a release: the oldest of those that claim it, then the lowest UID.
    #[must_use]
    pub fn owner(&self, target: &Target) -> Option<&Key> {
        self.claims.get(target)?.first().map(|Claim(_, _, key)| key)
    }

    /// Takes in an event; says which HelmReleases changed, and how. Others whose claim to a
    /// release is touched by it are among them, as [`Change::Asked`].
    pub fn take(
        &mut self,
        event: Event<StoredHelmRelease>,
        defaults: &SourceDefaults,
    ) -> Vec<(Key, Change)> {
        match event {
            Event::Init => {
                self.listing = Some(BTreeSet::new());
                Vec::new()
            }
            Event::InitApply(object) => {
                if let Some(listing) = &mut self.listing {
                    listing.insert(Key::of(&object));
                }
                self.put(object, defaults)
            }
            Event::InitDone => {
                self.listed = true;
                let seen = self.listing.take().unwrap_or_default();
                let gone: Vec<Key> = self
                    .entries
                    .keys()
                    .filter(|key| !seen.contains(key))
                    .cloned()
                    .collect();
                gone.iter().flat_map(|key| self.remove(key)).collect()
            }
            Event::Apply(object) => self.put(object, defaults),
            Event::Delete(object) => self.remove(&Key::of(&object)),
        }
    }

    fn put(&mut self, object: StoredHelmRelease, defaults: &SourceDefaults) -> Vec<(Key, Change)> {
        let entry = Arc::new(Entry::new(object, defaults));
        let key = entry.key.clone();
        let old = self.entries.insert(key.clone(), entry.clone());
        let mut changes = Vec::new();
        let same_claim = old
            .as_ref()
            .is_some_and(|old| old.target == entry.target && old.claim() == entry.claim());
        if !same_claim {
            if let Some(old) = &old {
                changes.extend(self.disclaim(old));
            }
            if let Some(target) = &entry.target {
                let claims = self.claims.entry(target.clone()).or_default();
                claims.insert(entry.claim());
                changes.extend(
                    claims
                        .iter()
                        .map(|Claim(_, _, other)| (other.clone(), Change::Asked)),
                );
            }
        }
        changes.retain(|(other, _)| *other != key);
        let change = match &old {
            None => Change::Added,
            Some(old) if asks_the_same(old, &entry) => Change::Told,
            Some(_) => Change::Asked,
        };
        changes.push((key, change));
        changes
    }

    fn remove(&mut self, key: &Key) -> Vec<(Key, Change)> {
        let Some(old) = self.entries.remove(key) else {
            return Vec::new();
        };
        let mut changes = self.disclaim(&old);
        changes.push((key.clone(), Change::Removed));
        changes
    }

    /// Takes back a claim; those that are left may own the release now.
    fn disclaim(&mut self, old: &Entry) -> Vec<(Key, Change)> {
        let Some(target) = &old.target else {
            return Vec::new();
        };
        let Some(claims) = self.claims.get_mut(target) else {
            return Vec::new();
        };
        claims.remove(&old.claim());
        let left: Vec<(Key, Change)> = claims
            .iter()
            .map(|Claim(_, _, key)| (key.clone(), Change::Asked))
            .collect();
        if left.is_empty() {
            self.claims.remove(target);
        }
        left
    }
}

fn asks_the_same(old: &Entry, new: &Entry) -> bool {
    let (before, after) = (old.object.meta(), new.object.meta());
    before.uid == after.uid
        && before.generation == after.generation
        && before.deletion_timestamp.is_some() == after.deletion_timestamp.is_some()
        && before.annotations == after.annotations
        // Ours comes and goes by our own hand; those of others hold up a deletion.
        && (after.deletion_timestamp.is_none() || before.finalizers == after.finalizers)
        && old.object.0.is_ok() == new.object.0.is_ok()
}

/// Takes out of an object what nobody here reads and everybody has a lot of.
pub fn strip(object: &mut StoredHelmRelease) {
    let meta = object.meta_mut();
    meta.managed_fields = None;
    if let Some(annotations) = &mut meta.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
}

#[cfg(test)]
#[path = "releases_tests.rs"]
mod tests;
