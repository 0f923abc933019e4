//! What processes cost.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;
use tandem_tests::metrics::Metrics;
use tandem_tests::pair::Role;
use tandem_tests::procfs::{self, Process};

/// How often children are looked at. Looks take processor time from what is measured, the
/// same of the pair as of the loop.
const INTERVAL: Duration = Duration::from_millis(20);

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
    /// Seconds that a helm program lived on average, as seen from outside.
    pub(crate) helm_life: Option<f64>,
    /// Helm programs that lived at one time, on average.
    pub(crate) helm_at_a_time: f64,
    /// Programs that were started.
    pub(crate) helm: u64,
    pub(crate) git: u64,
    /// Exchanges with the chart source: looks at its refs, and fetches.
    pub(crate) polls: u64,
    pub(crate) fetches: u64,
    /// Mean milliseconds of each stage of the reconciler's passes, and passes.
    pub(crate) stages: BTreeMap<String, (f64, u64)>,
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
struct Counts {
    helm: f64,
    git: f64,
    polls: f64,
    fetches: f64,
    stages: BTreeMap<String, (f64, f64)>,
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
            stages: reconciler.stages(),
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
            sampler: Sampler::start(&roles),
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
        let seen = self.sampler.finish();
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
            children_peak: seen.peak,
            helm_life: seen.helm_life(),
            helm_at_a_time: seen.lived.as_secs_f64() / seconds,
            helm: difference(counts.helm, self.counts.helm),
            git: difference(counts.git, self.counts.git),
            polls: difference(counts.polls, self.counts.polls),
            fetches: difference(counts.fetches, self.counts.fetches),
            stages: means(&counts.stages, &self.counts.stages),
        })
    }
}

fn means(
    after: &BTreeMap<String, (f64, f64)>,
    before: &BTreeMap<String, (f64, f64)>,
) -> BTreeMap<String, (f64, u64)> {
    let mean = |(stage, (sum, count)): (&String, &(f64, f64))| {
        let earlier = before.get(stage).copied().unwrap_or_default();
        let times = count - earlier.1;
        (times > 0.0).then(|| {
            (
                stage.clone(),
                ((sum - earlier.0) / times * 1000.0, times.round() as u64),
            )
        })
    };
    after.iter().filter_map(mean).collect()
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

/// What a look at the children, every few milliseconds, has found.
#[derive(Default)]
pub(crate) struct Seen {
    /// Resident bytes of all that lived at one moment, at most.
    pub(crate) peak: u64,
    /// Helm programs that live, and since when.
    alive: BTreeMap<u32, Instant>,
    /// Helm programs that have ended, and how long all of them lived.
    ended: u32,
    lived: Duration,
}

impl Seen {
    /// Seconds that a helm program lived on average.
    pub(crate) fn helm_life(&self) -> Option<f64> {
        (self.ended > 0).then(|| self.lived.as_secs_f64() / f64::from(self.ended))
    }

    fn look(&mut self, roles: &[u32]) {
        let children: Vec<Process> = roles.iter().flat_map(|pid| descendants(*pid)).collect();
        let resident = |one: &Process| procfs::memory(one.pid, "VmRSS").unwrap_or_default();
        self.peak = self.peak.max(children.iter().map(resident).sum());
        let now = Instant::now();
        let helm: Vec<u32> = children
            .iter()
            .filter(|one| one.name == "helm")
            .map(|one| one.pid)
            .collect();
        for pid in &helm {
            self.alive.entry(*pid).or_insert(now);
        }
        self.alive.retain(|pid, since| {
            let lives = helm.contains(pid);
            if !lives {
                self.ended += 1;
                self.lived += now.duration_since(*since);
            }
            lives
        });
    }
}

/// Looks at the children of processes, and at their children.
pub(crate) struct Sampler {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

impl Sampler {
    pub(crate) fn start(roles: &[u32]) -> Self {
        let roles = roles.to_vec();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut seen = Seen::default();
            while !stopped.load(Ordering::Relaxed) {
                seen.look(&roles);
                std::thread::sleep(INTERVAL);
            }
            seen
        });
        Self { stop, thread }
    }

    pub(crate) fn finish(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

fn descendants(pid: u32) -> Vec<Process> {
    let mut found = Vec::new();
    let mut open = procfs::children(pid);
    while let Some(one) = open.pop() {
        open.extend(procfs::children(one.pid));
        found.push(one);
    }
    found
}
