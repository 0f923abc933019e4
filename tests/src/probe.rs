//! Sees a process start a child, without touching either.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::procfs;

/// Far shorter than any helm lives, and cheap enough to run beside a measurement.
const INTERVAL: Duration = Duration::from_millis(1);

/// Watches for the first new child of a process. Children that were there
/// before don't count.
pub struct ChildProbe {
    seen: JoinHandle<Option<Instant>>,
    stop: Arc<AtomicBool>,
}

impl ChildProbe {
    /// Watches `parent` for a child whose program is named `name`.
    pub fn start(parent: u32, name: &str) -> Self {
        let name = name.to_owned();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let named = move || {
            procfs::children(parent)
                .into_iter()
                .filter(|one| one.name == name)
                .map(|one| one.pid)
                .collect()
        };
        let before: BTreeSet<u32> = named();
        let seen = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let now: BTreeSet<u32> = named();
                if now.difference(&before).next().is_some() {
                    return Some(Instant::now());
                }
                std::thread::sleep(INTERVAL);
            }
            None
        });
        Self { seen, stop }
    }

    /// Ends the watch; when the first child was seen, if one was.
    pub fn finish(self) -> Option<Instant> {
        self.stop.store(true, Ordering::Relaxed);
        self.seen.join().ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_a_new_child_counts() {
        let mut old = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let none = ChildProbe::start(std::process::id(), "cat");
        assert_eq!(none.finish(), None);
        let probe = ChildProbe::start(std::process::id(), "cat");
        let begun = Instant::now();
        let mut cat = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        while !probe.seen.is_finished() {
            assert!(begun.elapsed() < Duration::from_secs(30), "not seen");
            std::thread::sleep(INTERVAL);
        }
        assert!(probe.finish().unwrap() >= begun);
        for child in [&mut old, &mut cat] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
