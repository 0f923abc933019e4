//! How often pushes have a source checked. Pure but for the wait.

use std::collections::BTreeMap;
use std::time::Duration;

use tandem_shared::source::SourceName;
use tokio::time::{Instant, sleep_until};

/// Time between two checks of a source because of pushes, so that no sender, and nobody who
/// sends again what he once saw, makes us poll faster.
const PACE: Duration = Duration::from_secs(5);

/// Sources that were pushed to lately.
#[derive(Debug, Default)]
pub(super) struct Pushes {
    /// When each was last checked because of it.
    checked: BTreeMap<SourceName, Instant>,
    /// Those that were pushed to since, and when each is to be checked.
    late: BTreeMap<SourceName, Instant>,
}

impl Pushes {
    /// Somebody pushed at `now`: whether to check the source at once. If not, it will be due.
    pub(super) fn hear(&mut self, name: &SourceName, now: Instant) -> bool {
        self.checked.retain(|_, at| now < *at + PACE);
        match self.checked.get(name) {
            Some(at) => {
                self.late.insert(name.clone(), *at + PACE);
                false
            }
            None => {
                self.checked.insert(name.clone(), now);
                // The check to come sees that push, too.
                self.late.remove(name);
                true
            }
        }
    }

    /// The sources to check at `now`.
    pub(super) fn due(&mut self, now: Instant) -> Vec<SourceName> {
        let late = std::mem::take(&mut self.late);
        let (due, late) = late.into_iter().partition(|(_, at)| *at <= now);
        self.late = late;
        let due: BTreeMap<SourceName, Instant> = due;
        for name in due.keys() {
            self.checked.insert(name.clone(), now);
        }
        due.into_keys().collect()
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.late.values().min().copied()
    }
}

/// Waits until then, for ever if there is no such time.
pub(super) async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn name(digit: char) -> SourceName {
        SourceName::parse(&format!("h-{}", digit.to_string().repeat(32))).unwrap()
    }

    #[test]
    fn a_burst_is_two_checks_and_the_last_push_is_in_one() {
        let (one, two) = (name('1'), name('2'));
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut pushes = Pushes::default();
        assert!(pushes.hear(&one, at(0)));
        assert_eq!(pushes.next(), None);
        for millis in [1, 1000, 4999] {
            assert!(!pushes.hear(&one, at(millis)), "{millis}");
            assert_eq!(pushes.next(), Some(at(5000)));
        }
        // Others don't wait for it.
        assert!(pushes.hear(&two, at(1000)));
        assert!(pushes.due(at(4999)).is_empty());
        assert_eq!(pushes.due(at(5001)), std::slice::from_ref(&one));
        assert_eq!(pushes.next(), None);
        // That was a check as well.
        assert!(!pushes.hear(&one, at(6000)));
        assert_eq!(pushes.next(), Some(at(10_001)));
        // Heard before anybody looked at the clock: one check, not two.
        assert!(pushes.hear(&one, at(10_001)));
        assert_eq!(pushes.next(), None);
        assert!(pushes.hear(&two, at(60_000)));
    }
}
