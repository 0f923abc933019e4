//! How many sources are asked and worked on at once.
//!
//! To ask a remote costs little and may take as long as its timeout; what follows (objects
//! come in, charts are packed) costs processor and memory. So many may ask, and few work.
//! Each standing has places of its own: a source that hangs takes one away from its like
//! only, and one that was well is never behind one that wasn't.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use tandem_shared::manifest::SourceState;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many may ask for each one that may work. Each is a thread, and a child of some
/// megabytes.
const ASKING: usize = 4;

/// How many threads are taken at most, where `most` sources of each standing are worked on.
#[must_use]
pub fn threads(most: usize) -> usize {
    most.saturating_mul(ASKING).saturating_mul(3)
}

/// Places of all kinds.
#[derive(Debug)]
pub struct Places {
    asking: Kinds<Semaphore>,
    working: Kinds<Seats>,
}

/// One for each standing.
#[derive(Debug)]
struct Kinds<T> {
    well: Arc<T>,
    new: Arc<T>,
    failing: Arc<T>,
}

impl<T> Kinds<T> {
    fn of(&self, standing: &SourceState) -> Arc<T> {
        Arc::clone(match standing {
            SourceState::Ready => &self.well,
            SourceState::Failing => &self.failing,
            _ => &self.new,
        })
    }
}

impl Places {
    /// Places for `most` sources of each standing to be worked on.
    #[must_use]
    pub fn new(most: usize) -> Self {
        let asking = || Arc::new(Semaphore::new(most.saturating_mul(ASKING)));
        let working = |free| {
            Arc::new(Seats {
                free: Mutex::new(free),
                freed: Condvar::new(),
            })
        };
        Self {
            asking: Kinds {
                well: asking(),
                new: asking(),
                failing: asking(),
            },
            working: Kinds {
                well: working(most),
                new: working(most),
                failing: working(most.div_ceil(2)),
            },
        }
    }

    /// A place from which to look at a source of that standing.
    pub async fn ask(&self, standing: &SourceState) -> Option<OwnedSemaphorePermit> {
        // Never closed, so there is always a place at some time.
        self.asking.of(standing).acquire_owned().await.ok()
    }

    /// A place at which to work, in addition. Blocks the thread until one is free.
    #[must_use]
    pub fn work(&self, standing: &SourceState) -> Seat {
        let seats = self.working.of(standing);
        let mut free = seats.free();
        while *free == 0 {
            free = seats
                .freed
                .wait(free)
                .unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        *free -= 1;
        drop(free);
        Seat { seats }
    }
}

/// Places that a thread waits for.
#[derive(Debug)]
struct Seats {
    free: Mutex<usize>,
    freed: Condvar,
}

impl Seats {
    fn free(&self) -> MutexGuard<'_, usize> {
        self.free
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A place at which somebody works until it is dropped.
#[derive(Debug)]
pub struct Seat {
    seats: Arc<Seats>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        *self.seats.free() += 1;
        self.seats.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_seat_is_waited_for_and_others_of_another_standing_are_free() {
        let places = Arc::new(Places::new(1));
        let taken = places.work(&SourceState::Ready);
        drop(places.work(&SourceState::Failing));
        drop(places.work(&SourceState::Pending));
        let waiting = {
            let places = Arc::clone(&places);
            std::thread::spawn(move || drop(places.work(&SourceState::Ready)))
        };
        assert_eq!(*places.working.well.free(), 0);
        assert!(!waiting.is_finished());
        drop(taken);
        waiting.join().unwrap();
        assert_eq!(*places.working.well.free(), 1);
    }

    #[tokio::test]
    async fn more_may_ask_than_work() {
        let places = Places::new(1);
        let mut asking = Vec::new();
        for _ in 0..ASKING {
            asking.push(places.ask(&SourceState::Failing).await.unwrap());
        }
        assert_eq!(places.asking.failing.available_permits(), 0);
        assert!(places.ask(&SourceState::Ready).await.is_some());
    }
}
