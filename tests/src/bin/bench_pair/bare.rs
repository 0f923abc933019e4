//! The yardstick: a loop of `helm install`, as a plain script would have it.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use anyhow::{Context, Result};
use serde::Serialize;
use tandem_tests::helm::Helm;
use tandem_tests::procfs;
use tandem_tests::progress::Step;

use crate::args::{Args, chart_path, release};
use crate::measure::Sampler;

/// What the loop passes beside release, chart and namespace. Without the schema
/// download, which checks nothing under server-side apply and is two thirds of
/// helm's time: the harder yardstick, and what the reconciler does too.
pub(crate) const FLAGS: [&str; 1] = ["--disable-openapi-validation"];

/// What the loop cost.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Bare {
    pub(crate) seconds: f64,
    /// Processor seconds of all helm programs.
    pub(crate) cpu: f64,
    /// Seconds that one of them lived on average.
    pub(crate) helm_life: Option<f64>,
}

/// Installs all releases, `--parallel` at a time.
pub(crate) fn run(args: &Args, helm: &Helm, namespace: &str, charts: &Path) -> Result<Bare> {
    // The API server's first helm pays for what all later ones find warm.
    install(helm, namespace, "warm-up", charts, 0)?;
    helm.ok(namespace, &["uninstall", "warm-up"])?;

    let step = Step::start(format!(
        "bare loop: {} x helm install, {} at a time",
        args.releases, args.parallel
    ));
    let cpu_before = own_children();
    let sampler = Sampler::start(&[std::process::id()]);
    let begun = Instant::now();
    let next = AtomicU32::new(0);
    let failure = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..args.parallel {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= args.releases {
                        return;
                    }
                    if let Err(error) = install(
                        helm,
                        namespace,
                        &release(number),
                        charts,
                        number % args.charts,
                    ) {
                        failure
                            .lock()
                            .unwrap_or_else(|poisoned| poisoned.into_inner())
                            .get_or_insert(error);
                        return;
                    }
                }
            });
        }
    });
    let seconds = begun.elapsed().as_secs_f64();
    let helm_life = sampler.finish().helm_life();
    if let Some(error) = failure
        .into_inner()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
    {
        return Err(error).context("the bare loop failed");
    }
    let cpu = own_children().saturating_sub(cpu_before).as_secs_f64();
    step.done(format!("{seconds:.1} s"));
    Ok(Bare {
        seconds,
        cpu,
        helm_life,
    })
}

fn install(helm: &Helm, namespace: &str, name: &str, charts: &Path, chart: u32) -> Result<()> {
    let chart = charts.join(chart_path(chart)).display().to_string();
    let mut args = vec!["install", name, &chart];
    args.extend(FLAGS);
    helm.ok(namespace, &args).map(drop)
}

fn own_children() -> std::time::Duration {
    procfs::process(std::process::id())
        .map(|one| one.children_cpu)
        .unwrap_or_default()
}
