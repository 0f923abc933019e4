//! A packed chart (`.tgz`), unpacked in memory: what a repository or a registry gives, and
//! what a dependency is.
//!
//! It comes from outside, so nothing in it is believed: names are checked, links and devices
//! refused, and what it grows to has an end.

mod bounded;
mod error;

use std::collections::BTreeMap;
use std::io::{BufRead, Read};
use std::ops::ControlFlow;

use flate2::bufread::MultiGzDecoder;
use tandem_shared::artifact::{Limits, Packer, is_sound_path};
use tar::{Archive, EntryType};

use crate::snapshot::chart::{self, ChartFile};
use bounded::Bounded;
pub use error::ArchiveError;

/// Bytes of a tar's header, and what a file's end is filled up to.
const BLOCK: u64 = 512;
/// The file that says which chart it is.
const DESCRIBED: &str = "Chart.yaml";

/// A chart's files, without the folder that they were packed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpacked {
    /// Path from the chart's root → content.
    pub files: BTreeMap<String, Vec<u8>>,
    /// What its `Chart.yaml` says.
    pub(crate) chart: ChartFile,
}

impl Unpacked {
    /// The files, ready to become an artifact.
    ///
    /// # Errors
    /// If they are more than `limits` allow, or a file stands where a folder is needed.
    pub fn packer(mut self, limits: Limits) -> Result<Packer, ArchiveError> {
        let mut packer = Packer::new(limits);
        // It was heeded when the chart was packed. Helm would heed it again where it reads a
        // folder, and for the charts within this one, too, which isn't so where it reads an
        // archive.
        let within = |path: &String| {
            path.strip_prefix("charts/")
                .is_some_and(|rest| rest.contains('/'))
        };
        if self.files.keys().any(within) {
            self.files.remove(".helmignore");
        }
        for (path, content) in self.files {
            packer.file(&path, content)?;
        }
        Ok(packer)
    }
}

/// Unpacks a chart as Helm does: the first part of each path is the folder that it was
/// packed in, whatever it is called.
///
/// # Errors
/// Says what is wrong with it; nothing of it should be used then.
pub fn unpack(archive: impl BufRead, limits: Limits) -> Result<Unpacked, ArchiveError> {
    let mut files = BTreeMap::new();
    let (read, _) = read(archive, limits, |path, content| {
        // As with tar itself, the last of several entries of one path counts.
        files.insert(path, content);
        ControlFlow::Continue(())
    });
    read?;
    let Some(described) = files.get(DESCRIBED) else {
        return Err(ArchiveError::NoChart(files.len()));
    };
    let chart = chart::read(described, DESCRIBED).map_err(ArchiveError::Chart)?;
    Ok(Unpacked { files, chart })
}

/// What a packed chart says that it is, read no further than that, which mostly stands first.
/// The bytes that this took are taken from `left`, which several archives may share.
///
/// # Errors
/// If it doesn't say so, or not before `limits` or `left` end.
pub(crate) fn described(
    archive: impl BufRead,
    limits: Limits,
    left: &mut u64,
) -> Result<ChartFile, ArchiveError> {
    let limits = Limits {
        bytes: limits.bytes.min(*left),
        ..limits
    };
    if limits.bytes == 0 {
        return Err(ArchiveError::TooLarge(limits));
    }
    let (mut chart, mut others) = (None, 0);
    let (read, took) = read(archive, limits, |path, content| {
        if path == DESCRIBED {
            chart = Some(chart::read(&content, DESCRIBED).map_err(ArchiveError::Chart));
            return ControlFlow::Break(());
        }
        others += 1;
        ControlFlow::Continue(())
    });
    *left = left.saturating_sub(took);
    read?;
    chart.unwrap_or(Err(ArchiveError::NoChart(others)))
}

/// Shows each file to `each`, with its path from the chart's root. Tells how many bytes there
/// were to be read, too.
fn read(
    mut archive: impl BufRead,
    limits: Limits,
    each: impl FnMut(String, Vec<u8>) -> ControlFlow<()>,
) -> (Result<(), ArchiveError>, u64) {
    match archive.fill_buf() {
        Ok([0x1f, 0x8b, ..]) => {}
        Ok(begin) => return (Err(ArchiveError::not_gzip(begin)), 0),
        Err(error) => return (Err(ArchiveError::broken(error)), 0),
    }
    // Each entry has at most a header, one of its long name, both filled up.
    let most = limits.bytes + (limits.entries as u64).saturating_mul(8 * BLOCK) + 64 * BLOCK;
    let mut tar = Bounded::new(MultiGzDecoder::new(archive), most);
    let read = read_tar(&mut tar, limits, each);
    (read, most - tar.left())
}

fn read_tar(
    tar: impl Read,
    limits: Limits,
    mut each: impl FnMut(String, Vec<u8>) -> ControlFlow<()>,
) -> Result<(), ArchiveError> {
    let mut tar = Archive::new(tar);
    let mut left = limits;
    for entry in tar.entries().map_err(ArchiveError::broken)? {
        let mut entry = entry.map_err(|error| ArchiveError::reading(error, limits))?;
        let kind = entry.header().entry_type();
        // What some packers say about all that follows, which is nothing of the chart.
        if kind == EntryType::XGlobalHeader {
            continue;
        }
        left.entries = left
            .entries
            .checked_sub(1)
            .ok_or(ArchiveError::TooLarge(limits))?;
        let name = String::from_utf8(entry.path_bytes().into_owned())
            .map_err(|error| ArchiveError::path(&error.to_string(), "isn't UTF-8"))?;
        match kind {
            EntryType::Directory => continue,
            EntryType::Regular | EntryType::Continuous => {}
            other => return Err(ArchiveError::kind(&name, other)),
        }
        let path = inner_path(&name)?;
        // Known before it is read, so that nothing huge comes into memory.
        left.bytes = left
            .bytes
            .checked_sub(entry.size())
            .ok_or(ArchiveError::TooLarge(limits))?;
        let mut content = Vec::new();
        entry
            .read_to_end(&mut content)
            .map_err(|error| ArchiveError::reading(error, limits))?;
        if each(path, content).is_break() {
            break;
        }
    }
    Ok(())
}

/// The path of an entry from the chart's root.
fn inner_path(name: &str) -> Result<String, ArchiveError> {
    // Charts that were packed on Windows by hand have its slashes.
    let path = name.replace('\\', "/");
    if path.starts_with('/') || path.as_bytes().get(1) == Some(&b':') {
        return Err(ArchiveError::path(name, "doesn't begin in the archive"));
    }
    let mut parts = path.split('/');
    parts.next();
    let mut inner: Vec<&str> = Vec::new();
    for part in parts {
        match part {
            "" | "." => {}
            ".." => return Err(ArchiveError::path(name, "leads out of the chart")),
            part => inner.push(part),
        }
    }
    let inner = inner.join("/");
    if inner.is_empty() {
        return Err(ArchiveError::path(
            name,
            "lies outside of the chart's folder",
        ));
    }
    if is_sound_path(&inner) {
        Ok(inner)
    } else {
        let why = "is too long, or has control characters";
        Err(ArchiveError::path(name, why))
    }
}

#[cfg(test)]
mod tests;
