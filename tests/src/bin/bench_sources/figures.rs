//! What is taken, and what becomes of several takes.

use std::fs;
use std::path::Path;

use serde::Serialize;

/// One take.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Taken {
    pub(crate) seconds: f64,
    /// Bytes that the server sent.
    pub(crate) received: u64,
    /// Bytes of the repository's files afterwards.
    pub(crate) disk: u64,
}

/// The sidecar beside plain git: medians of all takes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Beside {
    pub(crate) what: String,
    pub(crate) sidecar: Taken,
    pub(crate) git: Taken,
}

impl Beside {
    pub(crate) fn of(what: &str, takes: &[(Taken, Taken)]) -> Self {
        let sidecar: Vec<Taken> = takes.iter().map(|pair| pair.0).collect();
        let git: Vec<Taken> = takes.iter().map(|pair| pair.1).collect();
        Self {
            what: what.to_owned(),
            sidecar: median(&sidecar),
            git: median(&git),
        }
    }
}

pub(crate) fn median(takes: &[Taken]) -> Taken {
    let middle = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or_default()
    };
    let of = |part: fn(&Taken) -> f64| middle(takes.iter().map(part).collect());
    Taken {
        seconds: of(|one| one.seconds),
        received: of(|one| one.received as f64) as u64,
        disk: of(|one| one.disk as f64) as u64,
    }
}

/// Bytes of all files below a folder.
pub(crate) fn folder_bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    let sizes = entries.flatten().map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => folder_bytes(&entry.path()),
        _ => entry.metadata().map_or(0, |meta| meta.len()),
    });
    sizes.sum()
}
