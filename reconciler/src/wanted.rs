//! The reconciler's own mount: its requests there, derived anew on every change, and what
//! it remembers in them.

use std::collections::{BTreeMap, BTreeSet};

use tandem_shared::artifact::Digest;
use tandem_shared::layout;
use tandem_shared::observe::{self, ObserveError};
use tandem_shared::publish::{self, Audience, PublishError};
use tandem_shared::request::{Request, Want};
use tandem_shared::source::{Source, SourceKind, SourceName};
use tracing::{info, warn};

use crate::credentials::Lent;
use crate::demand::{Extras, OWNER};
use crate::webhooks::Address;

/// All requests that the reconciler wrote, and what stands in their place.
pub struct Wanted {
    mount: layout::Wanted,
    written: BTreeMap<SourceName, Request>,
    extras: Extras,
    /// Requests that aren't ours: by whom, or why they can't be read; and the credentials
    /// that they use.
    foreign: BTreeMap<SourceName, Foreign>,
    /// Requests of ours that couldn't be written, and why.
    unwritten: BTreeMap<SourceName, String>,
}

/// Which sources are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceFilter {
    /// The one with this name on the volume.
    Name(String),
    /// All with this URL.
    Url(String),
    /// All git sources at one of these addresses, however their URLs spell them.
    Pushed(BTreeSet<Address>),
    /// All git sources of which a forge could tell a push.
    Pushable,
}

impl SourceFilter {
    fn takes(&self, name: &SourceName, source: &Source) -> bool {
        match self {
            Self::Name(asked) => name.as_str() == asked,
            Self::Url(asked) => source.url == *asked,
            Self::Pushed(addresses) => {
                Self::pushable(source).is_some_and(|address| addresses.contains(&address))
            }
            Self::Pushable => Self::pushable(source).is_some(),
        }
    }

    fn pushable(source: &Source) -> Option<Address> {
        Address::of(&source.url).filter(|_| source.kind == SourceKind::Git)
    }
}

/// A request file of somebody else.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Foreign {
    why: String,
    credentials: BTreeSet<String>,
}

/// The credentials and keys that a request names.
fn ids(request: &Request) -> impl Iterator<Item = String> {
    let keys = request.wants.iter().filter_map(|want| want.keys_id.clone());
    request.credential_id.clone().into_iter().chain(keys)
}

impl Wanted {
    /// Reads what a predecessor, or a person, left on the mount.
    ///
    /// # Errors
    /// If the folder can't be listed.
    pub fn load(mount: layout::Wanted) -> Result<Self, ObserveError> {
        let mut wanted = Self {
            mount,
            written: BTreeMap::new(),
            extras: Extras::default(),
            foreign: BTreeMap::new(),
            unwritten: BTreeMap::new(),
        };
        for name in observe::list(&wanted.mount.requests())?.sources {
            match observe::request(&wanted.mount.request(&name), &name) {
                Ok(read) if read.document.owner == OWNER => {
                    if !read.document.refresh.is_empty() {
                        wanted
                            .extras
                            .refresh
                            .insert(name.clone(), read.document.refresh.clone());
                    }
                    for want in &read.document.wants {
                        if !want.rejected.is_empty() {
                            wanted
                                .extras
                                .rejected
                                .insert((name.clone(), want.key.clone()), want.rejected.clone());
                        }
                    }
                    wanted.written.insert(name, read.document);
                }
                Ok(read) => {
                    wanted.note_foreign(name, &read.document);
                }
                Err(error) => {
                    wanted.foreign.insert(
                        name,
                        Foreign {
                            why: error.to_string(),
                            credentials: BTreeSet::new(),
                        },
                    );
                }
            }
        }
        Ok(wanted)
    }

    fn note_foreign(&mut self, name: SourceName, request: &Request) {
        let owner = if request.owner.is_empty() {
            "a person"
        } else {
            request.owner.as_str()
        };
        let owner: String = owner.chars().filter(|c| !c.is_control()).take(80).collect();
        let why = format!(
            "{} belongs to {owner} and is left as it is; the wants of HelmReleases are not in it",
            self.mount.request(&name).display(),
        );
        self.foreign.insert(
            name,
            Foreign {
                why,
                credentials: ids(request).collect(),
            },
        );
    }

    /// What requests hold besides what HelmReleases say.
    #[must_use]
    pub fn extras(&self) -> &Extras {
        &self.extras
    }

    /// Why HelmReleases can't ask this source for anything, if they can't.
    #[must_use]
    pub fn refusal(&self, name: &SourceName) -> Option<&str> {
        let foreign = self.foreign.get(name).map(|foreign| &foreign.why);
        foreign.or(self.unwritten.get(name)).map(String::as_str)
    }

    /// Our requests as they are on the mount.
    #[must_use]
    pub fn requests(&self) -> &BTreeMap<SourceName, Request> {
        &self.written
    }

    /// What a HelmRelease (`namespace/name`) asks for in our requests as they are on the
    /// mount: of which sources, and the keys of its wants in order.
    #[must_use]
    pub fn asked_by(&self, helm_release: &str) -> BTreeMap<SourceName, Vec<String>> {
        let written = self.written.iter();
        let asked = written.filter_map(|(name, request)| {
            let uses = |want: &&Want| want.used_by.iter().any(|user| user == helm_release);
            let wants = request.wants.iter().filter(uses);
            let mut keys: Vec<String> = wants.map(|want| want.key.clone()).collect();
            keys.sort();
            (!keys.is_empty()).then(|| (name.clone(), keys))
        });
        asked.collect()
    }

    /// What our requests on the mount use of which Secret.
    #[must_use]
    pub fn lent(&self) -> Vec<(Lent, String)> {
        let requests = self.written.values();
        let lent = requests.flat_map(|request| {
            let secret = request.source.credential.clone().map(Lent::Credential);
            let keys = request.wants.iter().filter_map(|want| {
                let secret = want.spec.verify.as_ref()?.keys.clone();
                Some((Lent::Keys(secret), want.keys_id.clone()?))
            });
            secret
                .zip(request.credential_id.clone())
                .into_iter()
                .chain(keys)
        });
        lent.collect()
    }

    /// The credentials and keys that requests on the mount name, whoever wrote them.
    #[must_use]
    pub fn credentials(&self) -> BTreeSet<String> {
        let ours = self.written.values().flat_map(ids);
        let theirs = self.foreign.values();
        let theirs = theirs.flat_map(|foreign| foreign.credentials.iter().cloned());
        ours.chain(theirs).collect()
    }

    /// Makes the mount say just this: writes what differs, removes what is ours and no longer
    /// wanted. `thoroughly` believes nothing of what was written before. Says how many files
    /// were written or removed.
    ///
    /// # Errors
    /// The first file that couldn't be written; the others are written nevertheless.
    pub fn put(
        &mut self,
        wanted: BTreeMap<SourceName, Request>,
        thoroughly: bool,
    ) -> Result<usize, PublishError> {
        if thoroughly {
            // Whoever empties a volume by hand takes the folders, too.
            for folder in self.mount.folders() {
                publish::folder(&folder, Audience::Group)?;
            }
        }
        self.unwritten.clear();
        let mut changes = 0;
        let mut failed = None;
        let mut fail = |error: PublishError| {
            failed.get_or_insert(error);
        };
        for (name, request) in &wanted {
            if !thoroughly && self.written.get(name) == Some(request) || self.is_foreign(name) {
                continue;
            }
            match publish::json(&self.mount.request(name), request) {
                Ok(written) => {
                    changes += usize::from(written);
                    if self.written.insert(name.clone(), request.clone()).is_none() {
                        info!(source = %name, "a source is asked for");
                    }
                }
                Err(error) => {
                    self.unwritten.insert(name.clone(), error.to_string());
                    fail(error);
                }
            }
        }
        let unwanted: Vec<SourceName> = self
            .written
            .keys()
            .filter(|name| !wanted.contains_key(*name))
            .cloned()
            .collect();
        for name in unwanted {
            // A person may have put one in its place.
            if self.is_foreign(&name) {
                self.forget(&name);
                continue;
            }
            match publish::remove(&self.mount.request(&name)) {
                Ok(()) => {
                    info!(source = %name, "a source is no longer asked for");
                    self.written.remove(&name);
                    self.forget(&name);
                    changes += 1;
                }
                Err(error) => fail(error),
            }
        }
        failed.map_or(Ok(changes), Err)
    }

    /// Looks at the file itself: a person may have put one there, or taken theirs away.
    fn is_foreign(&mut self, name: &SourceName) -> bool {
        let read = observe::request(&self.mount.request(name), name);
        let before = self.foreign.remove(name);
        match read {
            Ok(read) if read.document.owner == OWNER => return false,
            Err(ObserveError::Missing(_)) => return false,
            Ok(read) => self.note_foreign(name.clone(), &read.document),
            Err(error) => {
                let why = format!("the request of this source is in the way: {error}");
                self.foreign.insert(
                    name.clone(),
                    Foreign {
                        why,
                        credentials: BTreeSet::new(),
                    },
                );
            }
        }
        if before.as_ref() != self.foreign.get(name)
            && let Some(foreign) = self.foreign.get(name)
        {
            warn!(source = %name, "{}", foreign.why);
        }
        self.written.remove(name);
        true
    }

    fn forget(&mut self, name: &SourceName) {
        self.extras.refresh.remove(name);
        self.extras.rejected.retain(|(source, _), _| source != name);
    }

    /// The sources of ours that are meant; all without a filter.
    #[must_use]
    pub fn chosen(&self, filter: Option<&SourceFilter>) -> Vec<SourceName> {
        let sources = self.written.iter();
        let chosen = sources.filter(|(name, request)| {
            filter.is_none_or(|filter| filter.takes(name, &request.source))
        });
        chosen.map(|(name, _)| name.clone()).collect()
    }

    /// Gives sources a new token, so that they are checked at once; says how many. They are
    /// written by the next [`put`](Self::put).
    pub fn refresh(&mut self, filter: Option<&SourceFilter>) -> usize {
        let chosen = self.chosen(filter);
        for name in &chosen {
            self.renew(name);
        }
        chosen.len()
    }

    /// Gives one source a new token, also if it is about to be asked for.
    pub fn renew(&mut self, name: &SourceName) {
        let token = format!("{:032x}", rand::random::<u128>());
        self.extras.refresh.insert(name.clone(), token);
    }

    /// Notes that an artifact isn't what its name says, so that the sidecar builds it anew.
    /// Says whether that is news.
    pub fn reject(&mut self, name: &SourceName, want: &str, digest: &Digest) -> bool {
        self.extras
            .rejected
            .entry((name.clone(), want.to_owned()))
            .or_default()
            .insert(digest.clone())
    }

    /// Takes back what [`reject`](Self::reject) noted, once an artifact of the want was good.
    pub fn accept(&mut self, name: &SourceName, want: &str) -> bool {
        self.extras
            .rejected
            .remove(&(name.clone(), want.to_owned()))
            .is_some()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use serde_json::json;
    use tandem_shared::layout::Volume;

    use super::*;

    fn request(url: &str, owner: &str) -> (SourceName, Request) {
        let request: Request = serde_json::from_value(json!({
            "schema": "tandem.request/v1", "source": {"kind": "git", "url": url}, "owner": owner, "wants": [],
        }))
        .unwrap();
        (request.source.name(), request)
    }

    fn volume() -> (tempfile::TempDir, layout::Wanted) {
        let folder = tempfile::tempdir().unwrap();
        let mount = Volume::at(folder.path()).wanted;
        for folder in mount.folders() {
            publish::folder(&folder, Audience::Group).unwrap();
        }
        (folder, mount)
    }

    #[test]
    fn nothing_is_written_twice_and_nothing_stays_that_nobody_wants() {
        let (_folder, mount) = volume();
        let mut wanted = Wanted::load(mount.clone()).unwrap();
        let (name, asked) = request("https://h/r", OWNER);
        let all = BTreeMap::from([(name.clone(), asked)]);
        assert_eq!(wanted.put(all.clone(), false).unwrap(), 1);
        assert_eq!(wanted.put(all.clone(), false).unwrap(), 0);
        assert_eq!(wanted.put(all.clone(), true).unwrap(), 0);
        publish::remove(&mount.request(&name)).unwrap();
        assert_eq!(wanted.put(all, true).unwrap(), 1);
        assert_eq!(wanted.put(BTreeMap::new(), false).unwrap(), 1);
        assert!(!mount.request(&name).exists());
    }

    #[test]
    fn a_request_written_by_hand_stays() {
        let (_folder, mount) = volume();
        let (name, by_hand) = request("https://h/r", "");
        publish::json(&mount.request(&name), &by_hand).unwrap();
        let mut wanted = Wanted::load(mount.clone()).unwrap();
        assert!(wanted.refusal(&name).unwrap().contains("a person"));
        let (_, ours) = request("https://h/r", OWNER);
        let all = BTreeMap::from([(name.clone(), ours)]);
        assert_eq!(wanted.put(all.clone(), false).unwrap(), 0);
        assert_eq!(wanted.put(BTreeMap::new(), false).unwrap(), 0);
        assert_eq!(
            observe::request(&mount.request(&name), &name)
                .unwrap()
                .document
                .owner,
            ""
        );
        publish::remove(&mount.request(&name)).unwrap();
        assert_eq!(wanted.put(all, false).unwrap(), 1);
        assert_eq!(wanted.refusal(&name), None);
    }

    #[test]
    fn what_cannot_be_written_is_told_until_it_can() {
        let (_folder, mount) = volume();
        let mut wanted = Wanted::load(mount.clone()).unwrap();
        let (name, ours) = request("https://h/r", OWNER);
        let all = BTreeMap::from([(name.clone(), ours)]);
        publish::remove_folder(&mount.requests()).unwrap();
        wanted.put(all.clone(), false).unwrap_err();
        assert!(wanted.refusal(&name).is_some());
        assert_eq!(wanted.put(all, true).unwrap(), 1);
        assert_eq!(wanted.refusal(&name), None);
    }

    #[test]
    fn a_request_that_a_person_made_theirs_is_not_removed() {
        let (_folder, mount) = volume();
        let mut wanted = Wanted::load(mount.clone()).unwrap();
        let (name, ours) = request("https://h/r", OWNER);
        wanted.put([(name.clone(), ours)].into(), false).unwrap();
        let (_, by_hand) = request("https://h/r", "");
        publish::json(&mount.request(&name), &by_hand).unwrap();
        assert_eq!(wanted.put(BTreeMap::new(), false).unwrap(), 0);
        assert!(mount.request(&name).exists());
    }

    #[test]
    fn who_asked_for_what_is_known_after_a_restart() {
        let (_folder, mount) = volume();
        let mut wanted = Wanted::load(mount.clone()).unwrap();
        let (name, mut asked) = request("https://h/r", OWNER);
        let want = |key: &str, users: &[&str]| {
            let want = json!({"key": key, "kind": "chart", "path": "p", "usedBy": users});
            serde_json::from_value(want).unwrap()
        };
        asked.wants = vec![want("b", &["n/one", "n/two"]), want("a", &["n/two"])];
        wanted.put([(name.clone(), asked)].into(), false).unwrap();
        let wanted = Wanted::load(mount).unwrap();
        let keys = |user: &str| wanted.asked_by(user).into_iter().next();
        assert_eq!(keys("n/one"), Some((name.clone(), vec!["b".into()])));
        assert_eq!(keys("n/two"), Some((name, vec!["a".into(), "b".into()])));
        assert_eq!(keys("n/three"), None);
    }

    #[test]
    fn a_push_concerns_the_git_sources_at_its_address_however_they_are_spelled() {
        let (_folder, mount) = volume();
        let mut wanted = Wanted::load(mount).unwrap();
        let mut all: BTreeMap<SourceName, Request> = [
            "https://h/team/r.git",
            "git@H:team/r",
            "https://h/team/s.git",
            "file:///team/r.git",
        ]
        .map(|url| request(url, OWNER))
        .into();
        let (_, mut file) = request("https://h/team/r", OWNER);
        file.source.kind = SourceKind::Http;
        all.insert(file.source.name(), file);
        wanted.put(all, false).unwrap();
        let pushed = |url: &str| SourceFilter::Pushed(Address::of(url).into_iter().collect());
        let chosen = |url: &str| {
            let names = wanted.chosen(Some(&pushed(url)));
            let mut urls: Vec<&str> = names
                .iter()
                .map(|name| wanted.requests()[name].source.url.as_str())
                .collect();
            urls.sort_unstable();
            urls.join(" ")
        };
        assert_eq!(
            chosen("ssh://git@h:22/team/r.git"),
            "git@H:team/r https://h/team/r.git"
        );
        assert_eq!(chosen("https://h/team/s"), "https://h/team/s.git");
        assert_eq!(chosen("https://h/team/t"), "");
        assert_eq!(chosen("file:///team/r.git"), "");
        assert_eq!(wanted.chosen(Some(&SourceFilter::Pushable)).len(), 3);
    }

    #[test]
    fn tokens_survive_a_restart_and_leave_with_their_source() {
        let (_folder, mount) = volume();
        let mut wanted = Wanted::load(mount.clone()).unwrap();
        let (name, mut asked) = request("https://h/r", OWNER);
        wanted
            .put([(name.clone(), asked.clone())].into(), false)
            .unwrap();
        assert_eq!(
            wanted.refresh(Some(&SourceFilter::Url("https://h/other".into()))),
            0
        );
        for chosen in [
            SourceFilter::Url("https://h/r".into()),
            SourceFilter::Name(name.to_string()),
        ] {
            let before = wanted.extras().refresh.get(&name).cloned();
            assert_eq!(wanted.refresh(Some(&chosen)), 1);
            assert_ne!(wanted.extras().refresh.get(&name), before.as_ref());
        }
        assert_eq!(wanted.refresh(None), 1);
        asked.refresh = wanted.extras().refresh[&name].clone();
        wanted.put([(name.clone(), asked)].into(), false).unwrap();
        let mut again = Wanted::load(mount).unwrap();
        assert_eq!(again.extras().refresh, wanted.extras().refresh);
        again.put(BTreeMap::new(), false).unwrap();
        assert!(again.extras().refresh.is_empty());
    }
}
