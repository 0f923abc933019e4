//! What the benchmark prints and saves.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use comfy_table::{Table, presets};
use serde::Serialize;

use super::figures::Beside;
use super::tags::Tags;

/// All figures of one run.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) cores: usize,
    pub(crate) git: String,
    /// The sidecar beside plain git.
    pub(crate) beside: Vec<Beside>,
    /// Bytes of a mirror that followed many pushes, and of a fresh one.
    pub(crate) pushed: u64,
    pub(crate) fresh: u64,
    pub(crate) many: Many,
    pub(crate) tags: Tags,
}

/// Many wants of one repository.
#[derive(Serialize)]
pub(crate) struct Many {
    pub(crate) wants: u32,
    pub(crate) branches: u32,
    pub(crate) charts: u32,
    pub(crate) mirrors: usize,
    /// Exchanges with the remote for a first look, and for one where nothing changed.
    pub(crate) first_polls: u64,
    pub(crate) fetches: u64,
    pub(crate) idle_polls: u64,
    pub(crate) seconds: f64,
    /// Peak resident bytes of the sidecar itself, and what it had before.
    pub(crate) peak: u64,
    pub(crate) empty: u64,
}

impl Report {
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
            "", "sidecar", "git", "ratio", "received", "by git", "ratio", "on disk", "by git",
            "ratio",
        ]);
        for one in &self.beside {
            let (ours, git) = (one.sidecar, one.git);
            table.add_row([
                one.what.clone(),
                format!("{:.0} ms", ours.seconds * 1000.0),
                format!("{:.0} ms", git.seconds * 1000.0),
                format!("{:.2}", ours.seconds / git.seconds),
                kilobytes(ours.received),
                kilobytes(git.received),
                ratio(ours.received, git.received),
                kilobytes(ours.disk),
                kilobytes(git.disk),
                ratio(ours.disk, git.disk),
            ]);
        }
        let mut out = std::io::stdout();
        writeln!(out, "\n{table}")?;
        writeln!(
            out,
            "mirror after the pushes: {}, a fresh one: {}, ratio {}",
            kilobytes(self.pushed),
            kilobytes(self.fresh),
            ratio(self.pushed, self.fresh)
        )?;
        let many = &self.many;
        writeln!(
            out,
            "{} wants on {} branches and {} charts of one repository: {} mirror, {} look and {} fetch at first ({:.1} s), {} look while nothing changes; peak resident {}, before {}",
            many.wants,
            many.branches,
            many.charts,
            many.mirrors,
            many.first_polls,
            many.fetches,
            many.seconds,
            many.idle_polls,
            kilobytes(many.peak),
            kilobytes(many.empty)
        )?;
        let tags = &self.tags;
        writeln!(
            out,
            "a range over {} tags of a registry: {:.1} s and {} a look; peak resident {}, before {}",
            tags.tags,
            tags.look.seconds,
            kilobytes(tags.look.received),
            kilobytes(tags.peak),
            kilobytes(tags.before)
        )?;
        writeln!(out, "{}, {} cores", self.git, self.cores)?;
        Ok(())
    }
}

fn ratio(ours: u64, theirs: u64) -> String {
    if theirs == 0 {
        return "-".to_owned();
    }
    format!("{:.2}", ours as f64 / theirs as f64)
}

fn kilobytes(bytes: u64) -> String {
    format!("{:.1} kB", bytes as f64 / 1e3)
}
