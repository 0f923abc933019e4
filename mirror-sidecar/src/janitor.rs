//! Dropping what nothing asks for any more: after a grace that begins when it
//! is first seen so, so that an empty list of requests (a restored cluster, a
//! restarting reconciler) destroys nothing at once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use tandem_shared::artifact::Digest;
use tandem_shared::layout::{Served, source_of};
use tandem_shared::lock::{self, LockError};
use tandem_shared::observe;
use tandem_shared::publish::{self, PublishError};
use tandem_shared::source::SourceName;
use thiserror::Error;

/// Why something couldn't be dropped.
#[derive(Debug, Error)]
pub enum JanitorError {
    /// Somebody still works on it.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The volume refuses.
    #[error(transparent)]
    Volume(#[from] PublishError),
}

/// What lies on the sidecar's mount.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Sources with a manifest, a mirror or an index.
    pub sources: BTreeSet<SourceName>,
    /// Artifacts.
    pub artifacts: Vec<Digest>,
    /// Archives of dependencies, by their SHA-256 in hex.
    pub archives: Vec<String>,
    /// Bytes of all files.
    pub bytes: u64,
}

/// Looks at everything on the sidecar's mount.
#[must_use]
pub fn survey(served: &Served) -> Survey {
    let mut survey = Survey {
        bytes: bytes_below(served.root()),
        ..Survey::default()
    };
    for path in entries(&served.manifests()) {
        survey.sources.extend(source_of(&path));
    }
    for path in entries(&served.mirrors()) {
        let stem = path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| name.strip_suffix(".git"));
        survey.sources.extend(stem.and_then(SourceName::parse));
    }
    for path in entries(&served.repositories()) {
        let name = path.file_name().and_then(|name| name.to_str());
        survey.sources.extend(name.and_then(SourceName::parse));
    }
    for path in entries(&served.artifacts()) {
        survey.artifacts.extend(
            path.file_name()
                .and_then(|name| name.to_str())
                .and_then(Digest::from_file_name),
        );
    }
    for path in entries(&served.archives()) {
        let stem = path
            .file_name()
            .and_then(|name| name.to_str()?.strip_suffix(".tgz"));
        survey.archives.extend(stem.map(ToOwned::to_owned));
    }
    survey
}

/// What is there in a folder that may change while we look.
fn entries(folder: &Path) -> Vec<std::path::PathBuf> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .collect()
}

fn bytes_below(folder: &Path) -> u64 {
    let mut bytes = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in entries(&folder) {
            match path.symlink_metadata() {
                Ok(meta) if meta.is_dir() => folders.push(path),
                Ok(meta) => bytes += meta.len(),
                Err(_) => {}
            }
        }
    }
    bytes
}

/// Sources that no request names, and since when.
#[derive(Debug, Default)]
pub struct Orphans {
    since: BTreeMap<SourceName, Instant>,
}

impl Orphans {
    /// Notes which of the sources that are `present` nothing wants, and gives
    /// those that have been so for the whole `grace`.
    pub fn due(
        &mut self,
        present: &BTreeSet<SourceName>,
        wanted: &BTreeSet<SourceName>,
        grace: Duration,
        now: Instant,
    ) -> Vec<SourceName> {
        self.since
            .retain(|source, _| present.contains(source) && !wanted.contains(source));
        for source in present.difference(wanted) {
            self.since.entry(source.clone()).or_insert(now);
        }
        let over = |since: &Instant| now.saturating_duration_since(*since) >= grace;
        self.since
            .iter()
            .filter(|(_, since)| over(since))
            .map(|(source, _)| source.clone())
            .collect()
    }
}

/// Drops the manifest, the mirror and the index of a source.
///
/// # Errors
/// If somebody works on it, or the volume refuses; it is tried again later.
pub fn drop_source(served: &Served, source: &SourceName) -> Result<(), JanitorError> {
    let lock = served.mirror_lock(source);
    let guard = lock::try_acquire(&lock)?;
    // The manifest first: nobody is told of what is no longer there.
    publish::remove(&served.manifest(source))?;
    publish::remove_folder(&served.mirror(source))?;
    publish::remove_folder(&served.mirror_aside(source))?;
    publish::remove_folder(&served.repository(source))?;
    publish::remove(&lock)?;
    drop(guard);
    Ok(())
}

/// Clears away what a killed predecessor was in the middle of. Only for the
/// one live sidecar, before it begins.
///
/// # Errors
/// If a folder can't be cleared.
pub fn clear_leftovers(served: &Served) -> Result<usize, PublishError> {
    let mut swept = 0;
    let mut repositories = entries(&served.repositories());
    repositories.retain(|path| path.symlink_metadata().is_ok_and(|meta| meta.is_dir()));
    for folder in served.folders().iter().chain(&repositories) {
        swept += publish::sweep(folder)?;
    }
    for path in entries(&served.mirrors()) {
        // A mirror that was being made anew, or the one that it took the place of.
        if path
            .extension()
            .is_some_and(|extension| extension == "new" || extension == "old")
        {
            publish::remove_folder(&path)?;
            swept += 1;
        }
    }
    Ok(swept)
}

/// Whether the bytes of an artifact's file are what its name says.
///
/// # Errors
/// If it can't be read.
pub fn is_sound(served: &Served, digest: &Digest) -> io::Result<bool> {
    use sha2::{Digest as _, Sha256};
    let mut file = observe::open(&served.artifact(digest)).map_err(io::Error::other)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = io::Read::read(&mut file, &mut buffer)?;
        if read == 0 {
            break;
        }
        hasher.update(&buffer[..read]);
    }
    Ok(data_encoding::HEXLOWER.encode(&hasher.finalize()) == digest.hex())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(c: char) -> SourceName {
        SourceName::parse(&format!("s-{}", c.to_string().repeat(32))).unwrap()
    }

    #[test]
    fn an_orphan_is_due_only_after_the_whole_grace() {
        let mut orphans = Orphans::default();
        let present: BTreeSet<_> = [source('a'), source('b')].into();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let grace = Duration::from_secs(900);
        // An empty but valid list destroys nothing at once.
        assert!(
            orphans
                .due(&present, &BTreeSet::new(), grace, at(0))
                .is_empty()
        );
        assert!(
            orphans
                .due(&present, &BTreeSet::new(), grace, at(899))
                .is_empty()
        );
        // One comes back: its grace is forgotten.
        assert_eq!(
            orphans.due(&present, &[source('b')].into(), grace, at(900)),
            [source('a')]
        );
        assert_eq!(
            orphans.due(&present, &BTreeSet::new(), grace, at(1000)),
            [source('a')]
        );
        assert_eq!(
            orphans.due(&present, &BTreeSet::new(), grace, at(1900)),
            [source('a'), source('b')]
        );
    }
}
