//! A HelmRelease of which a source was edited is released from what a check since then brings,
//! not from what was there at the last poll: another HelmRelease may have asked for the very
//! same long ago.

use std::collections::BTreeSet;

use tandem_shared::request::Want;
use tandem_shared::source::SourceName;

use super::Controller;
use super::memory::Memory;
use crate::metrics::Trigger;
use crate::releases::{Entry, Key};

/// The keys of wants, in order.
pub(super) fn keys_of(wants: &[Want]) -> Vec<String> {
    let mut keys: Vec<String> = wants.iter().map(|want| want.key.clone()).collect();
    keys.sort();
    keys
}

/// Whether a manifest is from before an edit. `stale` are the tokens that were known then;
/// `asked` is the one of the request now, `handled` that of the manifest. A check that failed
/// counts as well: then there is nothing newer to be had.
fn is_older(stale: &BTreeSet<String>, asked: Option<&str>, handled: Option<&str>) -> bool {
    let (Some(asked), Some(handled)) = (asked, handled) else {
        return false;
    };
    asked != handled && stale.contains(handled)
}

impl Controller {
    fn asked(&self, source: &SourceName) -> Option<&str> {
        let tokens = &self.wanted.extras().refresh;
        tokens.get(source).map(String::as_str)
    }

    /// Notes that the source of a HelmRelease was edited, before a check is asked for. `left`
    /// is the token of what is served of a source that nobody asks for.
    pub(super) fn hold(&mut self, key: &Key, source: &SourceName, left: Option<String>) {
        let served = self.served.handled(source).or(left.as_deref());
        let known = [self.asked(source), served];
        let stale = known.into_iter().flatten().map(str::to_owned).collect();
        let memory = self.memory.entry(key.clone()).or_default();
        if let Some(asked) = memory.asked.get_mut(source) {
            asked.edited = Some(stale);
        }
    }

    /// A predecessor may have seen an edit, and asked for a check that hasn't ended. What it
    /// hasn't acted upon is in the HelmRelease.
    pub(super) fn hold_unobserved(&mut self) {
        let is_observed = |entry: &Entry| {
            let told = entry.release().and_then(|release| release.status.as_ref());
            told.is_some_and(|told| told.observed_generation == Some(entry.generation()))
        };
        let entries = self.releases.iter().filter(|entry| !is_observed(entry));
        let unobserved: Vec<(Key, SourceName)> = entries
            .flat_map(|entry| {
                let sources = entry.wish.iter().flat_map(|wish| wish.sources());
                sources.map(|wish| (entry.key.clone(), wish.name.clone()))
            })
            .collect();
        for (key, source) in unobserved {
            let handled = self.served.handled(&source).map(str::to_owned);
            let memory = self.memory.entry(key).or_default();
            if let Some(asked) = memory.asked.get_mut(&source) {
                asked.edited = handled.map(|handled| [handled].into());
            }
        }
    }

    /// Whether what is known of its source may be older than the last edit of a HelmRelease.
    pub(super) fn is_outdated(&self, key: &Key, source: &SourceName) -> bool {
        let memory = self.memory.get(key);
        let asked = memory.and_then(|memory| memory.asked.get(source));
        let stale = asked.and_then(|asked| asked.edited.as_ref());
        // A source that can't be asked (a full volume) brings nothing newer.
        stale.is_some_and(|stale| {
            // The check may be about to be asked for.
            self.edited.contains(source)
                || self.wanted.refusal(source).is_none()
                    && is_older(stale, self.asked(source), self.served.handled(source))
        })
    }

    /// Lets those go on who waited for the check of a source that has ended now.
    pub(super) fn let_go(&mut self, source: &SourceName) {
        let waited = |memory: &Memory| {
            let asked = memory.asked.get(source);
            asked.is_some_and(|asked| asked.edited.is_some())
        };
        let over: Vec<Key> = self
            .memory
            .iter()
            .filter(|(key, memory)| waited(memory) && !self.is_outdated(key, source))
            .map(|(key, _)| key.clone())
            .collect();
        for key in over {
            let memory = self.memory.entry(key.clone()).or_default();
            if let Some(asked) = memory.asked.get_mut(source) {
                asked.edited = None;
            }
            self.touch(key, Trigger::manifest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_check_that_was_asked_for_since_the_edit_counts() {
        let stale: BTreeSet<String> = ["handled".to_owned(), "under way".to_owned()].into();
        for (asked, handled, expected) in [
            // The edit's own check hasn't ended.
            (Some("edit"), Some("handled"), true),
            // One that began before the edit has.
            (Some("edit"), Some("under way"), true),
            (Some("edit"), Some("edit"), false),
            // Somebody else asked since: that check tells as much.
            (Some("later"), Some("edit"), false),
            (Some("later"), Some("handled"), true),
            // Nobody asks, or nobody has answered at all.
            (None, Some("handled"), false),
            (Some("edit"), None, false),
        ] {
            assert_eq!(
                is_older(&stale, asked, handled),
                expected,
                "{asked:?} {handled:?}"
            );
        }
    }
}
