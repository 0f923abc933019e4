//! When a source is looked at again. Pure functions.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use tandem_shared::manifest::Reason;

/// The first wait after a failure, and the longest one between two attempts.
const FIRST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(300);

/// From a check that went well to the next: never later than the interval, and
/// a little earlier by chance, so that sources spread.
#[must_use]
pub fn next_poll(interval: Duration, chance: f64) -> Duration {
    interval.mul_f64(1.0 - 0.1 * chance.clamp(0.0, 1.0))
}

/// From the failure number `attempts` to the next attempt: longer each time,
/// with jitter, never longer than the interval (so that a source recovers
/// within one poll) or five minutes.
#[must_use]
pub fn after_failure(reason: &Reason, attempts: u32, interval: Duration) -> Duration {
    match reason {
        // Asking again doesn't help, and may lock the account.
        Reason::AuthenticationFailed | Reason::InvalidUrl | Reason::Unsupported => {
            return interval.max(FIRST);
        }
        // Seen as soon as it is there: a look at a folder, no exchange.
        Reason::CredentialMissing => return FIRST.min(interval),
        _ => {}
    }
    let longest = interval.clamp(FIRST, LONGEST);
    let waits = ExponentialBuilder::default()
        .with_min_delay(FIRST.mul_f64(0.5))
        .with_max_delay(longest)
        .with_jitter()
        .without_max_times()
        .build();
    let at = usize::try_from(attempts.clamp(1, 32) - 1).unwrap_or(0);
    waits.into_iter().nth(at).unwrap_or(longest).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_come_a_little_early_and_never_late() {
        let interval = Duration::from_secs(100);
        assert_eq!(next_poll(interval, 0.0), interval);
        assert_eq!(next_poll(interval, 1.0), Duration::from_secs(90));
    }

    #[test]
    fn failures_wait_longer_each_time_but_never_longer_than_a_poll() {
        let hour = Duration::from_secs(3600);
        let waits: Vec<Duration> = (1..12)
            .map(|attempt| after_failure(&Reason::Unreachable, attempt, hour))
            .collect();
        assert!(waits[0] <= FIRST, "{waits:?}");
        assert!(waits[4] >= Duration::from_secs(8), "{waits:?}");
        assert!(waits.iter().all(|wait| *wait <= LONGEST), "{waits:?}");
        assert!(
            after_failure(&Reason::Unreachable, u32::MAX, Duration::from_secs(10))
                <= Duration::from_secs(10)
        );
        assert_eq!(after_failure(&Reason::AuthenticationFailed, 1, hour), hour);
        assert!(after_failure(&Reason::CredentialMissing, 9, hour) <= FIRST);
    }
}
