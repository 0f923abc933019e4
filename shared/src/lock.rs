//! Locks: one live process per role and volume, one writer per mirror, one
//! operation per release.
//!
//! A lock is a courtesy between writers; what keeps readers safe is the atomic
//! rename of [`crate::publish`]. It is a flock on a file of its own that is
//! never removed while in use. A child process can inherit it (see
//! [`crate::child`]); then it is held until both are gone, however the parent
//! ends: *locked* means *somebody of ours lives*, without any process id.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use thiserror::Error;

/// How often a bounded wait looks again.
const RETRY: Duration = Duration::from_millis(20);

/// Why a lock can't be had.
#[derive(Debug, Error)]
pub enum LockError {
    /// Somebody else has it, and the wait is over.
    #[error("{} is held by another process{}", path.display(), waited_for(waited))]
    Held {
        /// The lock's file.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
    },
    /// The system refuses.
    #[error("can't lock {}: {source}", path.display())]
    Io {
        /// The lock's file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

fn waited_for(waited: &Duration) -> String {
    if waited.is_zero() {
        String::new()
    } else {
        format!(", still after {} s", waited.as_secs_f32())
    }
}

/// A lock that is held until this (and every child that inherited it) is gone.
#[derive(Debug)]
pub struct Guard {
    file: File,
    path: PathBuf,
}

impl Guard {
    /// The lock's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The descriptor that carries the lock, for a child to inherit.
    pub(crate) fn descriptor(&self) -> io::Result<std::os::fd::OwnedFd> {
        self.file.try_clone().map(Into::into)
    }
}

/// Takes the lock at `path` if it is free.
///
/// # Errors
/// [`LockError::Held`] if somebody has it, or what the system says.
pub fn try_acquire(path: &Path) -> Result<Guard, LockError> {
    let io = |source| LockError::Io {
        path: path.to_owned(),
        source,
    };
    loop {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o640)
            .open(path)
            .map_err(io)?;
        // The umask must not keep the other role from asking whether it's held.
        match file.set_permissions(std::fs::Permissions::from_mode(0o640)) {
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Err(io(error)),
            _ => {}
        }
        // Fully qualified: std has methods of the same names and other errors.
        match fs2::FileExt::try_lock_exclusive(&file) {
            Ok(()) => {}
            Err(error) if error.kind() == fs2::lock_contended_error().kind() => {
                return Err(LockError::Held {
                    path: path.to_owned(),
                    waited: Duration::ZERO,
                });
            }
            Err(error) => return Err(io(error)),
        }
        // Between open and lock the file may have been removed and made anew.
        let held = file.metadata().map_err(io)?;
        if std::fs::metadata(path)
            .is_ok_and(|now| now.ino() == held.ino() && now.dev() == held.dev())
        {
            return Ok(Guard {
                file,
                path: path.to_owned(),
            });
        }
    }
}

/// Takes the lock at `path`, waiting for it at most `wait`. Blocks the thread.
///
/// # Errors
/// [`LockError::Held`] once the wait is over, or what the system says.
pub fn acquire_within(path: &Path, wait: Duration) -> Result<Guard, LockError> {
    let begun = Instant::now();
    loop {
        match try_acquire(path) {
            Err(LockError::Held { .. }) if begun.elapsed() < wait => std::thread::sleep(RETRY),
            Err(LockError::Held { path, .. }) => {
                return Err(LockError::Held { path, waited: wait });
            }
            other => return other,
        }
    }
}

/// Whether somebody holds the lock at `path`. Needs only the right to read
/// it: through a read-only mount one sees whether the other role lives. A lock
/// that was never taken is free.
///
/// # Errors
/// What the system says.
pub fn is_held(path: &Path) -> Result<bool, LockError> {
    let io = |source| LockError::Io {
        path: path.to_owned(),
        source,
    };
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        other => other.map_err(io)?,
    };
    match fs2::FileExt::try_lock_shared(&file) {
        Ok(()) => Ok(false),
        Err(error) if error.kind() == fs2::lock_contended_error().kind() => Ok(true),
        Err(error) => Err(io(error)),
    }
}
