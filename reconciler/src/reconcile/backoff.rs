//! How long to wait after a failure.

use std::time::Duration;

/// After the first failure.
const FIRST: Duration = Duration::from_secs(5);
/// At most.
const MOST: Duration = Duration::from_secs(15 * 60);
/// Doublings until [`MOST`] is passed for certain.
const DOUBLINGS: u32 = 16;

/// The wait after this many failures in a row: doubled each time, and spread by a fifth
/// either way so that many failures of one cause don't come back at once. `spread` is any
/// number from 0 to 1, random for each call.
#[must_use]
pub fn delay(attempts: u32, spread: f64) -> Duration {
    let doubled = FIRST.saturating_mul(1 << attempts.saturating_sub(1).min(DOUBLINGS));
    doubled
        .min(MOST)
        .mul_f64(0.8 + 0.4 * spread.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_up_to_a_limit() {
        let seconds: Vec<u64> = [0, 1, 2, 3, 8, 9, 100, u32::MAX]
            .map(|attempts| delay(attempts, 0.5).as_secs())
            .into();
        assert_eq!(seconds, [5, 5, 10, 20, 640, 900, 900, 900]);
    }

    #[test]
    fn it_is_spread_by_a_fifth() {
        assert_eq!(delay(1, 0.0), FIRST.mul_f64(0.8));
        assert_eq!(delay(1, 1.0), FIRST.mul_f64(1.2));
        assert_eq!(delay(1, f64::INFINITY), FIRST.mul_f64(1.2));
    }
}
