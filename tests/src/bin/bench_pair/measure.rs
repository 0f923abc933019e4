//! What processes cost.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;
use tandem_tests::metrics::Metrics;
use tandem_tests::pair::Role;
use tandem_tests::procfs;

/// How often children are looked at for their memory.
const INTERVAL: Duration = Duration::from_millis(25);

/// What one phase cost.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Phase {
    pub(crate) name: String,
    pub(crate) seconds: f64,
    /// Processor seconds of the two processes themselves.
    pub(crate) sidecar_cpu: f64,
    pub(crate) reconciler_cpu: f64,
    /// Processor seconds of their helm and git children.
    pub(crate) children_cpu: f64,
    /// Peak resident bytes of the two processes themselves.
    pub(crate) sidecar_peak: u64,
    pub(crate) reconciler_peak: u64,
    /// Peak resident bytes of all children that lived at one moment.
    pub(crate) children_peak: u64,
    /// Programs that were started.
    pub(crate) helm: u64,
    pub(crate) git: u64,
    /// Exchanges with the chart source: looks at its refs, and fetches.
    pub(crate) polls: u64,
    pub(crate) fetches: u64,
}

/// A phase that is going on.
pub(crate) struct Running {
    name: String,
    begun: Instant,
    roles: [u32; 2],
    before: [(Duration, Duration); 2],
    counts: Counts,
    sampler: Sampler,
}

/// What the products count themselves.
#[derive(Clone, Copy)]
struct Counts {
    helm: f64,
    git: f64,
    polls: f64,
    fetches: f64,
}

impl Counts {
    async fn read(sidecar: &Role, reconciler: &Role) -> Result<Self> {
        let (sidecar, reconciler): (Metrics, Metrics) =
            (sidecar.metrics().await?, reconciler.metrics().await?);
        Ok(Self {
            helm: reconciler.helm_processes(),
            git: sidecar.git_processes(),
            polls: sidecar.polls(),
            fetches: sidecar.fetches(),
        })
    }
}

impl Running {
    /// Begins to measure.
    pub(crate) async fn begin(name: &str, sidecar: &Role, reconciler: &Role) -> Result<Self> {
        let roles = [sidecar.pid(), reconciler.pid()];
        let counts = Counts::read(sidecar, reconciler).await?;
        roles.iter().for_each(|pid| reset_peak(*pid));
        Ok(Self {
            name: name.to_owned(),
            before: roles.map(cpu),
            counts,
            sampler: Sampler::start(roles),
            roles,
            begun: Instant::now(),
        })
    }

    /// Ends the phase.
    pub(crate) async fn end(self, sidecar: &Role, reconciler: &Role) -> Result<Phase> {
        let seconds = self.begun.elapsed().as_secs_f64();
        let after = self.roles.map(cpu);
        let [sidecar_peak, reconciler_peak] = self
            .roles
            .map(|pid| procfs::memory(pid, "VmHWM").unwrap_or_default());
        let children_peak = self.sampler.finish();
        let counts = Counts::read(sidecar, reconciler).await?;
        let own = |role: usize| (after[role].0.saturating_sub(self.before[role].0)).as_secs_f64();
        let children =
            |role: usize| (after[role].1.saturating_sub(self.before[role].1)).as_secs_f64();
        let difference = |after: f64, before: f64| (after - before).round() as u64;
        Ok(Phase {
            name: self.name,
            seconds,
            sidecar_cpu: own(0),
            reconciler_cpu: own(1),
            children_cpu: children(0) + children(1),
            sidecar_peak,
            reconciler_peak,
            children_peak,
            helm: difference(counts.helm, self.counts.helm),
            git: difference(counts.git, self.counts.git),
            polls: difference(counts.polls, self.counts.polls),
            fetches: difference(counts.fetches, self.counts.fetches),
        })
    }
}

/// Processor time of a process, and of its children that have ended.
pub(crate) fn cpu(pid: u32) -> (Duration, Duration) {
    procfs::process(pid)
        .map(|one| (one.own_cpu, one.children_cpu))
        .unwrap_or_default()
}

/// Lets `VmHWM` start anew. Where the kernel refuses, the peak is that of the
/// whole life so far, which is never less.
fn reset_peak(pid: u32) {
    let _ = write(pid);
}

#[allow(
    clippy::disallowed_methods,
    reason = "a file of the kernel, not of the volume"
)]
fn write(pid: u32) -> std::io::Result<()> {
    fs::write(format!("/proc/{pid}/clear_refs"), "5")
}

/// Looks at the children of both processes, and at their children.
struct Sampler {
    stop: Arc<AtomicBool>,
    peak: Arc<Mutex<u64>>,
    thread: JoinHandle<()>,
}

impl Sampler {
    fn start(roles: [u32; 2]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let peak = Arc::new(Mutex::new(0));
        let (stopped, highest) = (stop.clone(), peak.clone());
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let now: u64 = roles
                    .iter()
                    .map(|pid| descendants(*pid).values().sum::<u64>())
                    .sum();
                let mut highest = highest
                    .lock()
                    .unwrap_or_else(|poisoned| poisoned.into_inner());
                *highest = now.max(*highest);
                drop(highest);
                std::thread::sleep(INTERVAL);
            }
        });
        Self { stop, peak, thread }
    }

    fn finish(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
        *self
            .peak
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn descendants(pid: u32) -> BTreeMap<u32, u64> {
    let mut found = BTreeMap::new();
    let mut open = procfs::children(pid);
    while let Some(one) = open.pop() {
        if found
            .insert(
                one.pid,
                procfs::memory(one.pid, "VmRSS").unwrap_or_default(),
            )
            .is_none()
        {
            open.extend(procfs::children(one.pid));
        }
    }
    found
}
