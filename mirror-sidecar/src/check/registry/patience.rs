//! How far a check of a registry goes on while repositories of it fail in a way in which all
//! of it may. One repository that is broken, private or mistyped stops no other; a registry
//! that is down isn't asked for all its charts one after the other.

use std::collections::BTreeMap;

use tandem_shared::manifest::Reason;

use super::Failed;

/// Charts that fail so before the rest isn't tried.
const CHARTS: usize = 3;

/// What a check has seen of a registry so far.
#[derive(Default)]
pub(super) struct Patience {
    /// Whether it ever answered.
    answered: bool,
    /// Charts that failed as all of it may.
    doubtful: BTreeMap<String, Reason>,
    /// How the first of them failed.
    first: Option<Failed>,
}

impl Patience {
    /// The registry answered, if only that there is no such thing.
    pub(super) fn answered(&mut self) {
        self.answered = true;
    }

    /// Whether it ever did.
    pub(super) fn is_answered(&self) -> bool {
        self.answered
    }

    /// How many charts are in doubt.
    pub(super) fn doubts(&self) -> usize {
        self.doubtful.len()
    }

    /// Notes that the chart `path` failed as all of the registry may. Whether that's enough.
    pub(super) fn doubt(&mut self, path: &str, failed: Failed) -> bool {
        self.doubtful.insert(path.to_owned(), failed.reason.clone());
        self.first.get_or_insert(failed);
        // Whoever answers is only given up if it has everybody wait.
        let timeout = |reason: &&Reason| **reason == Reason::Timeout;
        let counted = match self.answered {
            true => self.doubtful.values().filter(timeout).count(),
            false => self.doubts(),
        };
        counted >= CHARTS
    }

    /// Whether the chart `path` was waited for in vain, so that it isn't once more.
    pub(super) fn is_slow(&self, path: &str) -> bool {
        self.doubtful.get(path) == Some(&Reason::Timeout)
    }

    /// Why the whole registry can't be asked, if nobody ever answered.
    pub(super) fn verdict(&mut self) -> Option<Failed> {
        self.first.take().filter(|_| !self.answered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(reason: Reason) -> Failed {
        Failed {
            reason,
            message: String::new(),
        }
    }

    #[test]
    fn nobody_answers_three_times_or_at_all() {
        let mut patience = Patience::default();
        assert!(patience.verdict().is_none());
        for (path, over) in [("a", false), ("a", false), ("b", false), ("c", true)] {
            assert_eq!(patience.doubt(path, failed(Reason::Unreachable)), over);
        }
        assert!(patience.verdict().is_some());
    }

    #[test]
    fn whoever_answers_is_given_up_for_silence_alone() {
        let mut patience = Patience::default();
        assert!(!patience.doubt("a", failed(Reason::Unreachable)));
        patience.answered();
        for path in ["b", "c", "d"] {
            assert!(!patience.doubt(path, failed(Reason::Unreachable)));
        }
        for (path, over) in [("e", false), ("f", false), ("g", true)] {
            assert_eq!(patience.doubt(path, failed(Reason::Timeout)), over);
            assert!(patience.is_slow(path) && !patience.is_slow("a"));
        }
        assert!(patience.verdict().is_none());
    }
}
