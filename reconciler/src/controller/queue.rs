//! Which HelmReleases are to be looked at, now or later.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use futures::StreamExt;
use tokio_util::time::{DelayQueue, delay_queue};

use crate::releases::Key;

/// HelmReleases that wait for their turn, each at most once, and those that wait for a time.
#[derive(Default)]
pub(super) struct Queue {
    waiting: VecDeque<Key>,
    present: HashSet<Key>,
    timers: DelayQueue<Key>,
    timed: HashMap<Key, delay_queue::Key>,
}

impl Queue {
    /// To be looked at as soon as possible.
    pub(super) fn push(&mut self, key: Key) {
        if self.present.insert(key.clone()) {
            self.waiting.push_back(key);
        }
    }

    /// The next one.
    pub(super) fn pop(&mut self) -> Option<Key> {
        let key = self.waiting.pop_front()?;
        self.present.remove(&key);
        Some(key)
    }

    /// How many wait for their turn.
    #[must_use]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// To be looked at after `wait`, and not at an earlier time that was set for it before.
    pub(super) fn later(&mut self, key: &Key, wait: Duration) {
        self.cancel(key);
        self.timed
            .insert(key.clone(), self.timers.insert(key.clone(), wait));
    }

    /// No longer waits for a time.
    pub(super) fn cancel(&mut self, key: &Key) {
        if let Some(timer) = self.timed.remove(key) {
            self.timers.try_remove(&timer);
        }
    }

    /// No longer waits for anything.
    pub(super) fn forget(&mut self, key: &Key) {
        self.cancel(key);
        if self.present.remove(key) {
            self.waiting.retain(|waiting| waiting != key);
        }
    }

    /// The next one whose time has come. Waits for ever while there is none.
    pub(super) async fn due(&mut self) -> Key {
        match self.timers.next().await {
            Some(expired) => {
                let key = expired.into_inner();
                self.timed.remove(&key);
                key
            }
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn key(name: &str) -> Key {
        Key {
            namespace: "demo".into(),
            name: name.into(),
        }
    }

    #[tokio::test]
    async fn each_waits_once_and_in_order() {
        let mut queue = Queue::default();
        for name in ["a", "b", "a", "c"] {
            queue.push(key(name));
        }
        queue.forget(&key("b"));
        assert_eq!(
            (queue.pop(), queue.pop(), queue.pop()),
            (Some(key("a")), Some(key("c")), None)
        );
        queue.push(key("a"));
        assert_eq!(queue.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_time_set_counts() {
        let mut queue = Queue::default();
        queue.later(&key("a"), Duration::from_secs(1));
        queue.later(&key("b"), Duration::from_secs(2));
        queue.later(&key("a"), Duration::from_secs(3));
        queue.later(&key("c"), Duration::from_secs(1));
        queue.cancel(&key("c"));
        assert_eq!(queue.due().await, key("b"));
        assert_eq!(queue.due().await, key("a"));
    }
}
