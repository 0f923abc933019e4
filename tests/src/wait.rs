//! Waiting for a condition, never for a time.

use std::fmt::Display;
use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How often a condition is looked at.
const INTERVAL: Duration = Duration::from_millis(50);

/// The longest that anything may take on a busy two-core machine. A deadline
/// is there so that a hang ends with words, not to judge a speed.
pub const LONG: Duration = Duration::from_secs(300);

/// What a look at a condition found.
pub enum Look<T> {
    /// It holds; this is what was waited for.
    Done(T),
    /// Not yet; these words say what was seen instead.
    NotYet(String),
}

impl<T> Look<T> {
    /// `Done` when `value` is there, else `NotYet` with `seen`.
    pub fn from_option(value: Option<T>, seen: impl Display) -> Self {
        value.map_or_else(|| Self::NotYet(seen.to_string()), Self::Done)
    }
}

impl Look<()> {
    /// `Done` when `holds`, else `NotYet` with `seen`.
    pub fn when(holds: bool, seen: impl Display) -> Self {
        Self::from_option(holds.then_some(()), seen)
    }
}

/// Looks until the condition holds and gives what it found.
///
/// # Errors
/// The look's own error at once; or, when `within` is over, what was waited
/// for and what was seen last.
pub async fn until<T, F, L>(what: impl Display, within: Duration, mut look: L) -> Result<T>
where
    L: FnMut() -> F,
    F: Future<Output = Result<Look<T>>>,
{
    let start = Instant::now();
    loop {
        let seen = match look().await? {
            Look::Done(value) => return Ok(value),
            Look::NotYet(seen) => seen,
        };
        if start.elapsed() > within {
            bail!(
                "waited {} s for {what}; last seen: {seen}",
                within.as_secs()
            );
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// The same for a look that needs no runtime.
///
/// # Errors
/// As [`until`].
pub fn until_blocking<T>(
    what: impl Display,
    within: Duration,
    mut look: impl FnMut() -> Result<Look<T>>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        let seen = match look()? {
            Look::Done(value) => return Ok(value),
            Look::NotYet(seen) => seen,
        };
        if start.elapsed() > within {
            bail!(
                "waited {} s for {what}; last seen: {seen}",
                within.as_secs()
            );
        }
        std::thread::sleep(INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn the_last_look_is_in_the_error() {
        let error = until("rain", Duration::ZERO, || async {
            Ok(Look::when(false, "sun"))
        })
        .await
        .unwrap_err();
        assert_eq!(error.to_string(), "waited 0 s for rain; last seen: sun");
    }
}
