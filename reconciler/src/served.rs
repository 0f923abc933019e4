//! The sidecar's mount, as far as it was read: the manifests of all sources that are asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use tandem_shared::layout;
use tandem_shared::manifest::{Manifest, Problem, Reason, SourceState};
use tandem_shared::observe::{self, ObserveError};
use tandem_shared::source::{Source, SourceKind, SourceName};
use tandem_shared::verify::Verified;
use tracing::warn;

use crate::view::{PERSISTENT, Unread, WantView, view};

/// All manifests that were read.
pub struct Served {
    mount: layout::Served,
    seen: BTreeMap<SourceName, Result<Arc<Manifest>, Unread>>,
    /// Those of git among them.
    git: BTreeSet<SourceName>,
}

/// What a manifest that was read anew changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Wants with another artifact or problem.
    pub wants: BTreeSet<String>,
    /// All wants: it is about the source, or the manifest itself.
    pub everything: bool,
}

impl News {
    /// Whether it touches this want.
    #[must_use]
    pub fn touches(&self, want: &str) -> bool {
        self.everything || self.wants.contains(want)
    }
}

impl Served {
    /// Nothing was read yet.
    #[must_use]
    pub fn new(mount: layout::Served) -> Self {
        Self {
            mount,
            seen: BTreeMap::new(),
            git: BTreeSet::new(),
        }
    }

    /// Whether the manifest of a source was looked for.
    #[must_use]
    pub fn knows(&self, name: &SourceName) -> bool {
        self.seen.contains_key(name)
    }

    /// Reads the manifest of a source, and says what that changes.
    pub fn read(&mut self, source: &Source) -> News {
        let name = source.name();
        let now = match observe::manifest(&self.mount.manifest(&name), source) {
            Ok(read) => Ok(Arc::new(read.document)),
            Err(ObserveError::Missing(_)) => Err(Unread::Absent),
            Err(error) => Err(Unread::Refused(error.to_string())),
        };
        let before = self.seen.get(&name).unwrap_or(&Err(Unread::Absent));
        let news = match (before, &now) {
            (Ok(old), Ok(new)) => {
                let failure = source_failure_changed(Some(old), new);
                News {
                    wants: changed_wants(Some(old), new),
                    everything: failure,
                }
            }
            (Err(_), Ok(_)) | (Ok(_), Err(_)) => News {
                everything: true,
                ..News::default()
            },
            (Err(old), Err(new)) => News {
                everything: old != new,
                ..News::default()
            },
        };
        if let Err(Unread::Refused(why)) = &now
            && news.everything
        {
            warn!(source = %name, "{why}");
        }
        if source.kind == SourceKind::Git {
            self.git.insert(name.clone());
        }
        self.seen.insert(name, now);
        news
    }

    /// When the sidecar last asked a source, as far as its manifest says.
    #[must_use]
    pub fn checked_at(&self, name: &SourceName) -> Option<Timestamp> {
        self.seen.get(name)?.as_ref().ok()?.checked_at
    }

    /// Whether the check that this refresh token asked for has ended.
    #[must_use]
    pub fn has_handled(&self, name: &SourceName, token: &str) -> bool {
        self.handled(name) == Some(token)
    }

    /// The refresh token whose check ended last.
    #[must_use]
    pub fn handled(&self, name: &SourceName) -> Option<&str> {
        let manifest = self.seen.get(name)?.as_ref().ok()?;
        Some(&manifest.handled_refresh)
    }

    /// The same of a source that isn't asked, if something of it is served all the same.
    #[must_use]
    pub fn left_of(&self, source: &Source) -> Option<String> {
        let read = observe::manifest(&self.mount.manifest(&source.name()), source);
        read.ok().map(|read| read.document.handled_refresh)
    }

    /// Whether a source can't be checked.
    #[must_use]
    pub fn is_failing(&self, name: &SourceName) -> bool {
        self.failure(name).is_some()
    }

    /// Whether every git source that is asked answered at its last check.
    #[must_use]
    pub fn git_is_ready(&self) -> bool {
        self.git.iter().all(|name| {
            let seen = self.seen.get(name).and_then(|seen| seen.as_ref().ok());
            seen.is_some_and(|manifest| manifest.state == SourceState::Ready)
        })
    }

    /// Whether a source can't be checked for want of a right credential.
    #[must_use]
    pub fn is_refused(&self, name: &SourceName) -> bool {
        matches!(
            self.failure(name),
            Some(Reason::AuthenticationFailed | Reason::CredentialMissing | Reason::HostNotTrusted)
        )
    }

    fn failure(&self, name: &SourceName) -> Option<&Reason> {
        let manifest = self.seen.get(name)?.as_ref().ok()?;
        manifest.failure.as_ref().map(|failure| &failure.reason)
    }

    /// Forgets sources that nobody asks any more.
    pub fn retain(&mut self, keep: impl Fn(&SourceName) -> bool) {
        self.seen.retain(|name, _| keep(name));
        self.git.retain(keep);
    }

    /// What there is to say about one want.
    #[must_use]
    pub fn view(&self, source: &SourceName, want: &str) -> WantView {
        let manifest = self
            .seen
            .get(source)
            .map_or(Err(&Unread::Absent), |seen| seen.as_deref());
        view(manifest, want)
    }

    /// Whether the sidecar was last seen to use keys for a source.
    #[must_use]
    pub fn uses_keys(&self, name: &SourceName) -> bool {
        let manifest = self.seen.get(name).and_then(|seen| seen.as_ref().ok());
        let observed = manifest.and_then(|manifest| manifest.observed_request.as_ref());
        observed.is_some_and(|observed| !observed.keys_ids.is_empty())
    }

    /// The credentials and keys that the sidecar was last seen to use.
    #[must_use]
    pub fn credentials(&self) -> BTreeSet<String> {
        let observed = self
            .seen
            .values()
            .flatten()
            .filter_map(|manifest| manifest.observed_request.as_ref());
        observed
            .flat_map(|observed| observed.credential_id.iter().chain(&observed.keys_ids))
            .cloned()
            .collect()
    }
}

/// The wants whose results differ between two manifests of one source, as far as a
/// HelmRelease could tell: another artifact, another problem. A commit that touches none
/// of them changes nothing here, so a push costs what it changes.
fn changed_wants(old: Option<&Manifest>, new: &Manifest) -> BTreeSet<String> {
    let keys = |manifest: &Manifest| manifest.results.keys().cloned().collect::<BTreeSet<_>>();
    let mut all = keys(new);
    all.extend(old.map(keys).unwrap_or_default());
    all.into_iter()
        .filter(|key| old.is_none_or(|old| essence(old, key) != essence(new, key)))
        .collect()
}

/// What matters of one want's result.
#[derive(PartialEq)]
struct Essence<'a> {
    artifact: Option<(&'a str, String, Option<&'a Verified>)>,
    problem: Option<(String, &'a str)>,
}

fn essence<'a>(manifest: &'a Manifest, key: &str) -> Essence<'a> {
    let result = manifest.results.get(key);
    let good = result.and_then(|result| result.good.as_ref());
    let wrong = result.and_then(|result| result.problem.as_ref());
    Essence {
        artifact: good.map(|good| {
            let revision = good
                .commit
                .as_deref()
                .or(good.version.as_deref())
                .unwrap_or_default();
            let by = good.verified_by.as_ref();
            (revision, good.artifact.to_string(), by)
        }),
        problem: wrong.map(
            |Problem {
                 reason, message, ..
             }| (reason.to_string(), message.as_str()),
        ),
    }
}

/// Whether the failure of the source as a whole differs, so that every HelmRelease that
/// waits for it, or has to be told, is to be looked at.
fn source_failure_changed(old: Option<&Manifest>, new: &Manifest) -> bool {
    let told = |manifest: &Manifest| {
        manifest.failure.as_ref().map(|failure| {
            (
                failure.reason.to_string(),
                failure.message.clone(),
                failure.attempts >= PERSISTENT,
            )
        })
    };
    old.and_then(told) != told(new)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use serde_json::json;

    use super::*;

    fn good(commit: &str, digit: &str) -> serde_json::Value {
        json!({"commit": commit, "artifact": format!("t1:{}", digit.repeat(64)), "inputs": "i", "size": 1, "since": "2026-01-01T00:00:00Z"})
    }

    fn manifest(sequence: u64, results: serde_json::Value, failure: serde_json::Value) -> Manifest {
        serde_json::from_value(json!({
        "schema": "tandem.manifest/v1", "name": "n", "source": {"kind": "git", "url": "file:///r"},
        "epoch": "e", "sequence": sequence, "state": "ready", "results": results, "failure": failure,
    }))
    .unwrap()
    }

    fn keys(set: &BTreeSet<String>) -> Vec<&str> {
        set.iter().map(String::as_str).collect()
    }

    #[test]
    fn only_wants_with_another_artifact_or_problem_count() {
        let problem =
            json!({"reason": "InvalidChart", "message": "no", "since": "2026-01-01T00:00:00Z"});
        let old = manifest(
            1,
            json!({"a": {"good": good("c1", "1")}, "b": {"good": good("c1", "2")}, "c": {}, "gone": {"good": good("c1", "4")}}),
            json!(null),
        );
        let new = manifest(
            2,
            json!({"a": {"good": good("c1", "1")}, "b": {"good": good("c2", "3")}, "c": {"problem": problem}}),
            json!(null),
        );
        assert_eq!(keys(&changed_wants(Some(&old), &new)), ["b", "c", "gone"]);
        assert_eq!(keys(&changed_wants(None, &new)), ["a", "b", "c"]);
        assert!(
            changed_wants(
                Some(&new),
                &manifest(3, serde_json::to_value(&new.results).unwrap(), json!(null))
            )
            .is_empty()
        );
    }

    #[test]
    fn a_failure_is_news_when_it_begins_stays_and_ends() {
        let failing = |attempts: u32, next: &str| {
            manifest(
                1,
                json!({}),
                json!({"reason": "UnknownHost", "message": "m", "since": "2026-01-01T00:00:00Z", "attempts": attempts, "nextAttempt": next}),
            )
        };
        let well = manifest(1, json!({}), json!(null));
        let first = failing(1, "2026-01-01T00:00:00Z");
        let second = failing(2, "2026-01-01T00:01:00Z");
        assert!(source_failure_changed(Some(&well), &first));
        assert!(!source_failure_changed(Some(&first), &second));
        assert!(source_failure_changed(
            Some(&second),
            &failing(3, "2026-01-01T00:02:00Z")
        ));
        assert!(!source_failure_changed(
            Some(&failing(3, "2026-01-01T00:02:00Z")),
            &failing(4, "2026-01-01T00:03:00Z")
        ));
        assert!(source_failure_changed(Some(&second), &well));
        assert!(!source_failure_changed(None, &well));
    }

    #[test]
    fn one_silent_git_source_is_enough_to_be_unready() {
        let folder = tempfile::tempdir().unwrap();
        let mut served = Served::new(layout::Volume::at(folder.path()).served);
        assert!(served.git_is_ready(), "nothing is asked");
        let add = |served: &mut Served, kind: &str, state: Option<&str>| {
            let mut text = serde_json::to_value(manifest(1, json!({}), json!(null))).unwrap();
            text["source"]["kind"] = json!(kind);
            text["state"] = json!(state.unwrap_or("ready"));
            let manifest: Manifest = serde_json::from_value(text).unwrap();
            served.read(&manifest.source);
            if state.is_some() {
                let name = manifest.source.name();
                served.seen.insert(name, Ok(Arc::new(manifest)));
            }
            served.git_is_ready()
        };
        assert!(add(&mut served, "git", Some("ready")));
        assert!(add(&mut served, "helm", Some("failing")), "of another kind");
        assert!(add(&mut served, "http", None), "of another kind, unread");
        assert!(!add(&mut served, "git", Some("failing")));
        assert!(!add(&mut served, "git", None), "unread");
    }
}
