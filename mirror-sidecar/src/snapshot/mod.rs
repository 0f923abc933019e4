//! A chart or file at a commit, out of the object database: planned, compared
//! with what is served, and exported only if something of it changed.

pub(crate) mod chart;
mod describe;
mod error;
mod ignore;
mod path;
mod plan;
mod planner;
pub(crate) mod remote;
mod submodule;
mod tree;

use std::collections::BTreeMap;

use tandem_shared::artifact::{Digest, Limits, Packer};
use tandem_shared::layout::Served;
use tandem_shared::publish::{Audience, Staged};

pub use error::SnapshotError;
pub use plan::{Plan, all_inputs, folder_of, plan};
pub use submodule::{Absent, Link};
pub use tree::Snapshot;

use crate::inventory::Hold;

/// How a Git LFS pointer begins, and how large one is at most.
const LFS: &[u8] = b"version https://git-lfs.github.com/spec/";
const LFS_BYTES: usize = 1024;

/// An artifact on the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Its name.
    pub digest: Digest,
    /// Its bytes.
    pub size: u64,
    /// Whether it had to be written.
    pub written: bool,
}

/// Exports what `plan` lists, and `more` besides, into an artifact. `rewrite` writes it even if a
/// file of that name is there already; `hold` keeps the janitor off it.
///
/// # Errors
/// If something of it can't be exported, or the volume refuses.
pub fn export(
    snapshot: &Snapshot<'_>,
    plan: &Plan,
    more: BTreeMap<String, Vec<u8>>,
    limits: Limits,
    served: &Served,
    hold: &Hold<'_>,
    rewrite: bool,
) -> Result<Exported, SnapshotError> {
    let mut packer = Packer::new(limits);
    let mut left = limits.bytes;
    for (path, leaf) in &plan.files {
        // Known before it is read: a huge file never comes into memory.
        let size = snapshot.size(leaf.id)? as u64;
        left = left
            .checked_sub(size)
            .ok_or_else(|| SnapshotError::too_large(&leaf.origin, limits))?;
        let blob = snapshot.blob(leaf.id)?;
        if blob.size() <= LFS_BYTES && blob.content().starts_with(LFS) {
            return Err(SnapshotError::LfsPointer(leaf.origin.clone()));
        }
        packer.file(path, blob.content().to_vec())?;
    }
    for (path, content) in more {
        packer.file(&path, content)?;
    }
    store(packer, served, hold, rewrite)
}

/// Writes what was packed, unless a file of that name is there already.
/// `rewrite` writes it even then; `hold` keeps the janitor off it.
///
/// # Errors
/// If it can't be packed, or the volume refuses.
pub fn store(
    packer: Packer,
    served: &Served,
    hold: &Hold<'_>,
    rewrite: bool,
) -> Result<Exported, SnapshotError> {
    let mut staged = Staged::begin(&served.artifacts())?;
    let (digest, size) = packer.pack(&mut staged)?;
    hold.also(&digest);
    let there = std::fs::metadata(served.artifact(&digest))
        .is_ok_and(|meta| meta.is_file() && meta.len() == size);
    if there && !rewrite {
        return Ok(Exported {
            digest,
            size,
            written: false,
        });
    }
    staged.settle(Audience::Group)?;
    staged.commit(&digest.file_name())?;
    Ok(Exported {
        digest,
        size,
        written: true,
    })
}

#[cfg(test)]
mod tests;
