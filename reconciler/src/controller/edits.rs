//! A HelmRelease whose source was edited is released from what a check since then brings,
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

    /// Notes that the source of a HelmRelease was edited, before a check is asked for.
    pub(super) fn hold(&mut self, key: &Key, source: &SourceName) {
        let known = [self.asked(source), self.served.handled(source)];
        let stale = known.into_iter().flatten().map(str::to_owned).collect();
        self.memory.entry(key.clone()).or_default().edited = Some(stale);
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
            .filter_map(|entry| Some((entry.key.clone(), entry.wish.as_ref().ok()?.name.clone())))
            .collect();
        for (key, source) in unobserved {
            let handled = self.served.handled(&source).map(str::to_owned);
            self.memory.entry(key).or_default().edited = handled.map(|handled| [handled].into());
        }
    }

    /// Whether what is known of its source may be older than the last edit of a HelmRelease.
    pub(super) fn is_outdated(&self, key: &Key, source: &SourceName) -> bool {
        let memory = self.memory.get(key);
        let stale = memory.and_then(|memory| memory.edited.as_ref());
        // The check may be about to be asked for.
        stale.is_some_and(|stale| {
            self.edited.contains(source)
                || is_older(stale, self.asked(source), self.served.handled(source))
        })
    }

    /// Lets those go on who waited for the check of a source that has ended now.
    pub(super) fn let_go(&mut self, source: &SourceName) {
        let waited = |memory: &Memory| {
            let wants = memory.wants.as_ref();
            memory.edited.is_some() && wants.is_some_and(|(name, _)| name == source)
        };
        let over: Vec<Key> = self
            .memory
            .iter()
            .filter(|(key, memory)| waited(memory) && !self.is_outdated(key, source))
            .map(|(key, _)| key.clone())
            .collect();
        for key in over {
            self.memory.entry(key.clone()).or_default().edited = None;
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
