//! A chart or a file as one deterministic tar, named by its content.
//!
//! The same files give the same bytes on every machine: entries sorted by
//! path, regular files (0644) and folders (0755) only, times and owners zero,
//! ustar headers with GNU long names. The digest is the SHA-256 of those
//! bytes; `sha256sum` on the volume checks it. It carries the version of these
//! rules (`t1`): should they ever change, manifests name the old and the new
//! digest side by side, and no release is upgraded for it.

mod digest;
mod extract;
mod pack;

pub use digest::{Digest, DigestError};
pub use extract::{ExtractError, extract};
pub use pack::{PackError, Packer};

/// What an artifact may amount to. Both sides enforce it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all files together.
    pub bytes: u64,
    /// Files and folders.
    pub entries: usize,
}

impl Limits {
    /// What a values file may amount to. Helm stores the values with the
    /// release, whose record may have 1 MiB once it is packed.
    pub const FILE: Self = Self {
        bytes: 4 * 1024 * 1024,
        entries: 8,
    };
}

impl Default for Limits {
    /// 64 MiB and 20,000 entries. Helm itself stops at 1 MiB of release
    /// record, but charts carry files that it never renders.
    fn default() -> Self {
        Self {
            bytes: 64 * 1024 * 1024,
            entries: 20_000,
        }
    }
}

/// Whether `path` may stand in an artifact: relative, of plain parts only, no
/// control characters, each part at most 255 bytes, at most 1,024 in all.
#[must_use]
pub fn is_sound_path(path: &str) -> bool {
    !path.is_empty()
        && path.len() <= 1024
        && path
            .split('/')
            .all(|part| !part.is_empty() && part != "." && part != ".." && part.len() <= 255)
        && !path.chars().any(char::is_control)
}
