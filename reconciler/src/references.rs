//! The ConfigMaps and Secrets that HelmReleases name: who names which, and the version that
//! each was last seen in. Their contents are read when they are needed, and kept nowhere.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt};

use crate::demand::SourceWish;
use crate::releases::{Entry, Key};

/// What kind of object is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
}

/// An object that a HelmRelease names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Named {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Something that a watch of such objects tells, of their metadata alone.
#[derive(Debug)]
pub enum Seen {
    /// Of ConfigMaps.
    ConfigMap(Event<PartialObjectMeta<ConfigMap>>),
    /// Of Secrets.
    Secret(Event<PartialObjectMeta<Secret>>),
}

/// Of which kinds there is anything to follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// A ConfigMap is named.
    pub config_maps: bool,
    /// A Secret is named.
    pub secrets: bool,
}

/// All references from HelmReleases to ConfigMaps and Secrets.
#[derive(Debug, Default)]
pub struct References {
    by_object: BTreeMap<Named, BTreeSet<Key>>,
    by_release: HashMap<Key, BTreeSet<Named>>,
    versions: HashMap<Named, String>,
    /// Named objects seen since a new listing of their kind began.
    listing: BTreeMap<Kind, BTreeSet<Named>>,
}

/// What `entry` names: sources of values, the credentials of its sources, and keys.
#[must_use]
pub fn named_by(entry: &Entry) -> BTreeSet<Named> {
    let Some(release) = entry.release() else {
        return BTreeSet::new();
    };
    let own = &entry.key.namespace;
    let mut named = BTreeSet::new();
    for source in release.spec.values_sources() {
        let refs = [
            (Kind::ConfigMap, &source.config_map_key_ref),
            (Kind::Secret, &source.secret_key_ref),
        ];
        named.extend(refs.into_iter().filter_map(|(kind, key)| {
            let key = key.as_ref()?;
            Some(Named {
                kind,
                namespace: key.namespace(own).to_owned(),
                name: key.name.clone(),
            })
        }));
    }
    let wish = entry.wish.as_ref().ok();
    let lent = wish
        .iter()
        .flat_map(|wish| wish.sources())
        .flat_map(SourceWish::lent);
    named.extend(lent.filter_map(|lent| {
        let secret = lent.secret();
        // What stood in a URL is in no Secret.
        (!secret.name.contains(':')).then(|| Named {
            kind: Kind::Secret,
            namespace: secret.namespace.clone(),
            name: secret.name.clone(),
        })
    }));
    named
}

impl References {
    /// Notes what a HelmRelease names now.
    pub fn set(&mut self, key: &Key, named: BTreeSet<Named>) {
        let before = match named.is_empty() {
            true => self.by_release.remove(key),
            false => self.by_release.insert(key.clone(), named.clone()),
        };
        for object in before.unwrap_or_default().difference(&named) {
            if let Some(keys) = self.by_object.get_mut(object) {
                keys.remove(key);
                if keys.is_empty() {
                    self.by_object.remove(object);
                    self.versions.remove(object);
                }
            }
        }
        for object in named {
            self.by_object
                .entry(object)
                .or_default()
                .insert(key.clone());
        }
    }

    /// Of which kinds any object is named.
    #[must_use]
    pub fn followed(&self) -> Followed {
        let any = |kind| self.by_object.keys().any(|object| object.kind == kind);
        Followed {
            config_maps: any(Kind::ConfigMap),
            secrets: any(Kind::Secret),
        }
    }

    /// Who names an object.
    pub fn of(&self, object: &Named) -> impl Iterator<Item = &Key> {
        self.by_object.get(object).into_iter().flatten()
    }

    /// Takes in what a watch tells; gives the named objects of which that is news. One that
    /// is seen for the first time is news: it may have changed since it was read.
    pub fn take(&mut self, seen: Seen) -> BTreeSet<Named> {
        match seen {
            Seen::ConfigMap(event) => self.event(Kind::ConfigMap, event),
            Seen::Secret(event) => self.event(Kind::Secret, event),
        }
    }

    fn event<K: Resource<DynamicType = ()>>(
        &mut self,
        kind: Kind,
        event: Event<PartialObjectMeta<K>>,
    ) -> BTreeSet<Named> {
        let name = |object: &PartialObjectMeta<K>| Named {
            kind,
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
        };
        match event {
            Event::Init => {
                self.listing.insert(kind, BTreeSet::new());
                BTreeSet::new()
            }
            Event::InitApply(object) | Event::Apply(object) => {
                let named = name(&object);
                if !self.by_object.contains_key(&named) {
                    return BTreeSet::new();
                }
                if let Some(listing) = self.listing.get_mut(&kind) {
                    listing.insert(named.clone());
                }
                let version = object.resource_version().unwrap_or_default();
                let before = self.versions.insert(named.clone(), version.clone());
                (before != Some(version))
                    .then_some(named)
                    .into_iter()
                    .collect()
            }
            Event::Delete(object) => {
                let named = name(&object);
                self.versions.remove(&named);
                let is_named = self.by_object.contains_key(&named);
                is_named.then_some(named).into_iter().collect()
            }
            Event::InitDone => {
                let seen = self.listing.remove(&kind).unwrap_or_default();
                let of_kind = self.versions.keys().filter(|object| object.kind == kind);
                let gone: BTreeSet<Named> = of_kind
                    .filter(|object| !seen.contains(object))
                    .cloned()
                    .collect();
                self.versions.retain(|object, _| !gone.contains(object));
                gone
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use serde_json::json;

    use super::*;

    fn key(name: &str) -> Key {
        Key {
            namespace: "demo".into(),
            name: name.into(),
        }
    }

    fn named(kind: Kind, name: &str) -> Named {
        Named {
            kind,
            namespace: "demo".into(),
            name: name.into(),
        }
    }

    fn object<K>(name: &str, version: &str) -> PartialObjectMeta<K> {
        serde_json::from_value(json!({"metadata": {
            "namespace": "demo", "name": name, "resourceVersion": version,
        }}))
        .unwrap()
    }

    fn config_map(name: &str, version: &str) -> Seen {
        Seen::ConfigMap(Event::Apply(object(name, version)))
    }

    #[test]
    fn only_news_of_named_objects_is_told() {
        let values = named(Kind::ConfigMap, "values");
        let mut references = References::default();
        assert!(references.take(config_map("values", "1")).is_empty());
        references.set(&key("web"), [values.clone()].into());
        assert!(references.take(config_map("other", "1")).is_empty());
        // A Secret of the same name is another object.
        let secret = Seen::Secret(Event::Apply(object("values", "1")));
        assert!(references.take(secret).is_empty());
        for (version, news) in [("2", true), ("2", false), ("3", true)] {
            let told = references.take(config_map("values", version));
            assert_eq!(told.contains(&values), news, "{version}");
        }
        assert_eq!(references.of(&values).collect::<Vec<_>>(), [&key("web")]);
        let gone = Seen::ConfigMap(Event::Delete(object("values", "4")));
        assert_eq!(references.take(gone), [values].into());
    }

    #[test]
    fn what_nobody_names_any_more_is_forgotten() {
        let (one, two) = (named(Kind::ConfigMap, "one"), named(Kind::Secret, "two"));
        let mut references = References::default();
        references.set(&key("web"), [one.clone(), two.clone()].into());
        references.set(&key("api"), [two.clone()].into());
        let followed = |config_maps, secrets| Followed {
            config_maps,
            secrets,
        };
        assert_eq!(references.followed(), followed(true, true));
        references.take(config_map("one", "1"));
        references.set(&key("web"), BTreeSet::new());
        assert_eq!(references.followed(), followed(false, true));
        assert!(references.take(config_map("one", "2")).is_empty());
        assert_eq!(references.of(&two).count(), 1);
        references.set(&key("api"), BTreeSet::new());
        assert_eq!(references.followed(), Followed::default());
        assert!(references.versions.is_empty());
    }

    #[test]
    fn what_a_new_listing_lacks_is_gone_and_what_it_has_unchanged_is_no_news() {
        let (one, two) = (named(Kind::Secret, "one"), named(Kind::Secret, "two"));
        let other = named(Kind::ConfigMap, "values");
        let mut references = References::default();
        references.set(&key("web"), [one.clone(), two.clone(), other].into());
        references.take(Seen::Secret(Event::Apply(object("one", "1"))));
        references.take(Seen::Secret(Event::Apply(object("two", "1"))));
        references.take(config_map("values", "1"));
        references.take(Seen::Secret(Event::Init));
        let again = references.take(Seen::Secret(Event::InitApply(object("one", "1"))));
        assert!(again.is_empty());
        assert_eq!(references.take(Seen::Secret(Event::InitDone)), [two].into());
        // Of the other kind nothing was listed.
        assert!(references.take(config_map("values", "1")).is_empty());
    }
}
