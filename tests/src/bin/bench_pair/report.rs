//! What the benchmark prints and saves.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use comfy_table::{Table, presets};
use serde::Serialize;

use crate::args::Args;
use crate::bare::{self, Bare};
use crate::converge::Pair;
use crate::measure::Phase;

/// All figures of one run.
#[derive(Serialize)]
pub(crate) struct Report {
    releases: u32,
    charts: u32,
    parallel: u16,
    helm: String,
    bare_flags: String,
    cores: usize,
    /// The loop before and after the pair's turn.
    bare: [Bare; 2],
    pair: Pair,
    /// The pair's time to converge, in times of the bare loop's mean.
    ratio: f64,
    /// The same of the processor time, children included.
    cpu_ratio: f64,
}

impl Report {
    pub(crate) fn new(args: &Args, helm: String, bare: [Bare; 2], pair: Pair) -> Self {
        let mean = |part: fn(&Bare) -> f64| bare.iter().map(part).sum::<f64>() / 2.0;
        let converge = &pair.converge;
        let cpu = converge.sidecar_cpu + converge.reconciler_cpu + converge.children_cpu;
        Self {
            releases: args.releases,
            charts: args.charts,
            parallel: args.parallel,
            helm,
            bare_flags: bare::FLAGS.join(" "),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            ratio: converge.seconds / mean(|bare| bare.seconds),
            cpu_ratio: cpu / mean(|bare| bare.cpu),
            bare,
            pair,
        }
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "a file of the reader's choice, not of the volume"
    )]
    pub(crate) fn save(&self, file: &Path) -> Result<()> {
        Ok(std::fs::write(
            file,
            serde_json::to_string_pretty(self)? + "\n",
        )?)
    }

    pub(crate) fn print(&self) -> Result<()> {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header([
            "phase",
            "time",
            "CPU sidecar",
            "CPU reconciler",
            "CPU children",
            "peak sidecar",
            "peak reconciler",
            "peak children",
            "helm",
            "git",
            "polls",
            "fetches",
        ]);
        for (bare, name) in self
            .bare
            .iter()
            .zip(["bare helm loop before", "bare helm loop after"])
        {
            let dash = || "-".to_owned();
            let mut cells = vec![
                name.to_owned(),
                seconds(bare.seconds),
                dash(),
                dash(),
                seconds(bare.cpu),
            ];
            cells.extend([
                dash(),
                dash(),
                dash(),
                self.releases.to_string(),
                dash(),
                dash(),
                dash(),
            ]);
            table.add_row(cells);
        }
        let pair = &self.pair;
        for phase in [&pair.converge, &pair.annotate, &pair.push, &pair.idle] {
            table.add_row(row(phase));
        }
        let life = |life: Option<f64>| life.map_or_else(|| "-".to_owned(), seconds);
        let mut out = std::io::stdout();
        writeln!(out, "\n{table}")?;
        writeln!(
            out,
            "helm {}, {} releases of {} charts, {} at a time, {} cores; the loop's flags: {}",
            self.helm, self.releases, self.charts, self.parallel, self.cores, self.bare_flags
        )?;
        writeln!(
            out,
            "resident without HelmReleases: sidecar {}, reconciler {}",
            megabytes(pair.sidecar_empty),
            megabytes(pair.reconciler_empty)
        )?;
        writeln!(
            out,
            "peak resident of both while converging: {}",
            megabytes(pair.converge.sidecar_peak + pair.converge.reconciler_peak)
        )?;
        let stages: Vec<String> = pair
            .converge
            .stages
            .iter()
            .map(|(stage, (mean, times))| format!("{stage} {mean:.1} ms x {times}"))
            .collect();
        writeln!(
            out,
            "a helm program lived {} and {} in the loop, {} under the pair; {:.1} of them at a time under the pair",
            life(self.bare[0].helm_life),
            life(self.bare[1].helm_life),
            life(pair.converge.helm_life),
            pair.converge.helm_at_a_time
        )?;
        writeln!(out, "stages while converging, mean: {}", stages.join(", "))?;
        writeln!(
            out,
            "push of one chart: sync-git call to helm started {} ms, to all {} releases live {} ms",
            pair.helm_started_milliseconds, pair.upgraded, pair.live_milliseconds
        )?;
        writeln!(
            out,
            "ratio {:.2}: pair {:.1} s, bare loop {:.1} s and {:.1} s; of processor time {:.2}",
            self.ratio,
            pair.converge.seconds,
            self.bare[0].seconds,
            self.bare[1].seconds,
            self.cpu_ratio
        )?;
        Ok(())
    }
}

fn row(phase: &Phase) -> Vec<String> {
    vec![
        phase.name.clone(),
        seconds(phase.seconds),
        seconds(phase.sidecar_cpu),
        seconds(phase.reconciler_cpu),
        seconds(phase.children_cpu),
        megabytes(phase.sidecar_peak),
        megabytes(phase.reconciler_peak),
        megabytes(phase.children_peak),
        phase.helm.to_string(),
        phase.git.to_string(),
        phase.polls.to_string(),
        phase.fetches.to_string(),
    ]
}

fn seconds(value: f64) -> String {
    format!("{value:.2} s")
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
