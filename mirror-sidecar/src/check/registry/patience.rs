//! How far a check of a registry goes on while repositories of it fail in a way in which all
//! of it may. One repository that is broken, private or mistyped stops no other; a registry
//! that is down isn't asked for all its charts one after the other.

use std::collections::BTreeMap;

use super::Failed;

/// Charts that fail so before the rest isn't tried.
const CHARTS: usize = 3;

/// How a chart failed as all of the registry may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// There was no answer in time.
    Silent,
    /// The credential was refused, which locks accounts if it is shown too often.
    Refused,
    /// In any other way.
    Failing,
}

/// What a check has seen of a registry so far.
#[derive(Default)]
pub(super) struct Patience {
    /// Whether it ever answered.
    answered: bool,
    /// Charts that failed as all of it may.
    doubtful: BTreeMap<String, Doubt>,
    /// How often that was said.
    said: usize,
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

    /// How often it was said of a chart that it is in doubt.
    pub(super) fn doubts(&self) -> usize {
        self.said
    }

    /// Notes that the chart `path` failed as all of the registry may. Whether that's enough.
    pub(super) fn doubt(&mut self, path: &str, doubt: Doubt, failed: Failed) -> bool {
        self.said += 1;
        self.doubtful.insert(path.to_owned(), doubt);
        self.first.get_or_insert(failed);
        // Whoever answers is only given up for what may not go on.
        let counts = |doubt: &&Doubt| !self.answered || **doubt != Doubt::Failing;
        self.doubtful.values().filter(counts).count() >= CHARTS
    }

    /// Whether the chart `path` was waited for in vain, so that it isn't once more.
    pub(super) fn is_slow(&mut self, path: &str) -> bool {
        let slow = self.doubtful.get(path) == Some(&Doubt::Silent);
        self.said += usize::from(slow);
        slow
    }

    /// Why the whole registry can't be asked, if nobody ever answered.
    pub(super) fn verdict(&mut self) -> Option<Failed> {
        self.first.take().filter(|_| !self.answered)
    }
}

#[cfg(test)]
mod tests {
    use tandem_shared::manifest::Reason;

    use super::*;

    fn failed() -> Failed {
        Failed {
            reason: Reason::Unreachable,
            message: String::new(),
        }
    }

    #[test]
    fn nobody_answers_three_times_or_at_all() {
        let mut patience = Patience::default();
        assert!(patience.verdict().is_none());
        for (path, over) in [("a", false), ("a", false), ("b", false), ("c", true)] {
            assert_eq!(patience.doubt(path, Doubt::Failing, failed()), over);
        }
        assert!(patience.verdict().is_some());
    }

    #[test]
    fn whoever_answers_is_given_up_for_silence_and_refusals_alone() {
        for doubt in [Doubt::Silent, Doubt::Refused] {
            let mut patience = Patience::default();
            assert!(!patience.doubt("a", Doubt::Failing, failed()));
            patience.answered();
            for path in ["b", "c", "d"] {
                assert!(!patience.doubt(path, Doubt::Failing, failed()));
            }
            for (path, over) in [("e", false), ("f", false), ("g", true)] {
                assert_eq!(patience.doubt(path, doubt, failed()), over);
                assert_eq!(patience.is_slow(path), doubt == Doubt::Silent);
                assert!(!patience.is_slow("a"));
            }
            assert!(patience.verdict().is_none());
        }
    }

    #[test]
    fn what_is_said_once_more_of_a_chart_is_a_doubt_too() {
        let mut patience = Patience::default();
        patience.doubt("a", Doubt::Failing, failed());
        patience.doubt("a", Doubt::Silent, failed());
        assert_eq!(patience.doubts(), 2);
        assert!(patience.is_slow("a") && !patience.is_slow("b"));
        assert_eq!(patience.doubts(), 3);
    }
}
