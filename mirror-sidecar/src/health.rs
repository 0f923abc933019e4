//! What /healthz and /readyz say.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long the schedule may be silent before it counts as stuck.
const SILENCE: Duration = Duration::from_secs(120);

/// How this process is.
#[derive(Debug)]
pub struct Health {
    scanned: AtomicBool,
    problems: Mutex<BTreeMap<String, String>>,
    beat: Mutex<Instant>,
    used: AtomicU64,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            scanned: AtomicBool::new(false),
            problems: Mutex::default(),
            beat: Mutex::new(Instant::now()),
            used: AtomicU64::new(0),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Health {
    /// All requests were looked at once.
    pub fn scanned(&self) {
        self.scanned.store(true, Ordering::Release);
    }

    /// The schedule lives.
    pub fn beat(&self) {
        *lock(&self.beat) = Instant::now();
    }

    /// Something keeps `what` from working; says whether that is news.
    pub fn trouble(&self, what: &str, why: &str) -> bool {
        lock(&self.problems)
            .insert(what.to_owned(), why.to_owned())
            .is_none()
    }

    /// `what` works (again); says whether that is news.
    pub fn well(&self, what: &str) -> bool {
        lock(&self.problems).remove(what).is_some()
    }

    /// Bytes that the volume holds.
    pub fn set_used(&self, bytes: u64) {
        self.used.store(bytes, Ordering::Relaxed);
    }

    /// Bytes that the volume held when it was last looked at.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether the process should be left running.
    ///
    /// # Errors
    /// Says why it should not.
    pub fn live(&self) -> Result<(), String> {
        let silent = lock(&self.beat).elapsed();
        if silent < SILENCE {
            Ok(())
        } else {
            Err(format!(
                "the schedule has been silent for {} s",
                silent.as_secs()
            ))
        }
    }

    /// Whether it does its work.
    ///
    /// # Errors
    /// Says what keeps it from that.
    pub fn ready(&self) -> Result<(), String> {
        self.live()?;
        if !self.scanned.load(Ordering::Acquire) {
            return Err("the requests haven't been looked at yet".to_owned());
        }
        let problems = lock(&self.problems);
        if problems.is_empty() {
            return Ok(());
        }
        Err(problems
            .iter()
            .map(|(what, why)| format!("{what}: {why}\n"))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_is_scanned_and_without_trouble() {
        let health = Health::default();
        assert!(health.ready().is_err());
        health.scanned();
        assert_eq!(health.ready(), Ok(()));
        assert!(health.trouble("volume", "full"));
        assert!(!health.trouble("volume", "full"));
        assert!(health.ready().unwrap_err().contains("volume: full"));
        assert!(health.well("volume"));
        assert!(!health.well("volume"));
        assert_eq!(health.ready(), Ok(()));
    }
}
