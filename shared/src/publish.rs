//! How a file appears on the volume: whole, or not at all.
//!
//! unique temporary name in the same folder → write → mode → fsync → rename →
//! fsync of the folder. A reader sees the old file or the new one; a crash at
//! any step leaves one of them, and at most a temporary file that the next
//! start sweeps away.

#![expect(
    clippy::disallowed_methods,
    reason = "this is the one home of what is banned elsewhere"
)]

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tempfile::{NamedTempFile, TempDir};
use thiserror::Error;

/// How temporary names begin. Listings pass over them.
pub const TEMPORARY_PREFIX: &str = ".tmp-";

/// What the other role may do with a file or folder, set before its rename.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Read by the other role through the shared group: 0640, folders 2750.
    Group,
    /// Of no concern to the other role: 0600, folders 0700.
    Owner,
}

impl Audience {
    fn file_mode(self) -> u32 {
        match self {
            Self::Group => 0o640,
            Self::Owner => 0o600,
        }
    }

    fn folder_mode(self) -> u32 {
        match self {
            Self::Group => 0o2750,
            Self::Owner => 0o700,
        }
    }
}

/// What went wrong, and at which path.
#[derive(Debug, Error)]
#[error("can't {what} {}: {source}{}", path.display(), advice(source))]
pub struct PublishError {
    what: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl PublishError {
    /// The underlying error's kind, to tell a full volume from a read-only one.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull => "; free space on the volume or give it more",
        io::ErrorKind::ReadOnlyFilesystem => "; mount the folder read-write in this container",
        io::ErrorKind::PermissionDenied => "; this container's user must own the folder it writes",
        _ => "",
    }
}

fn at<T>(what: &'static str, path: &Path, result: io::Result<T>) -> Result<T, PublishError> {
    result.map_err(|source| PublishError {
        what,
        path: path.to_owned(),
        source,
    })
}

/// A file on its way: written under a temporary name. Dropping it removes it.
#[derive(Debug)]
pub struct Staged {
    file: NamedTempFile,
    folder: PathBuf,
}

impl Staged {
    /// Begins a file in `folder`.
    ///
    /// # Errors
    /// If the folder takes no new file.
    pub fn begin(folder: &Path) -> Result<Self, PublishError> {
        let file = tempfile::Builder::new()
            .prefix(TEMPORARY_PREFIX)
            .tempfile_in(folder);
        Ok(Self {
            file: at("begin a file in", folder, file)?,
            folder: folder.to_owned(),
        })
    }

    /// Sets the mode and waits until the content is on the disk.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn settle(&self, audience: Audience) -> Result<(), PublishError> {
        let file = self.file.as_file();
        at(
            "set the mode of",
            self.file.path(),
            file.set_permissions(Permissions::from_mode(audience.file_mode())),
        )?;
        at("sync", self.file.path(), file.sync_all())
    }

    /// What was written, to be read from its beginning.
    ///
    /// # Errors
    /// If it can't be opened.
    pub fn reopen(&self) -> Result<File, PublishError> {
        at("open", self.file.path(), self.file.reopen())
    }

    /// Gives the file its name, in place of what had it, and waits until the
    /// name is on the disk.
    ///
    /// # Errors
    /// If the name can't be taken; the file is then gone, and an older one untouched.
    pub fn commit(self, name: &str) -> Result<PathBuf, PublishError> {
        let path = self.folder.join(name);
        at(
            "rename into place",
            &path,
            self.file.persist(&path).map_err(|error| error.error),
        )?;
        sync_folder(&self.folder)?;
        Ok(path)
    }
}

impl Write for Staged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A folder of its own below another, for work that needs files. Dropping it removes it; what
/// a killed process left of one is swept at the next start.
#[derive(Debug)]
pub struct Scratch(TempDir);

impl Scratch {
    /// Begins one in `folder`, which nobody else can look into.
    ///
    /// # Errors
    /// If the folder takes no new one.
    pub fn begin(folder: &Path) -> Result<Self, PublishError> {
        let made = tempfile::Builder::new()
            .prefix(TEMPORARY_PREFIX)
            .permissions(Permissions::from_mode(Audience::Owner.folder_mode()))
            .tempdir_in(folder);
        at("begin a folder in", folder, made).map(Self)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file below it, and the folders on the way.
    ///
    /// # Errors
    /// If the volume refuses.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, PublishError> {
        let path = self.path().join(name);
        if let Some(parent) = path.parent() {
            folder(parent, Audience::Owner)?;
        }
        let mut options = fs::OpenOptions::new();
        let file = options
            .write(true)
            .create_new(true)
            .mode(Audience::Owner.file_mode())
            .open(&path);
        at(
            "write",
            &path,
            file.and_then(|mut file| file.write_all(bytes)),
        )?;
        Ok(path)
    }
}

/// Publishes `bytes` as `path`.
///
/// # Errors
/// Names the path and what to do about it; what was there stays.
pub fn bytes(path: &Path, bytes: &[u8], audience: Audience) -> Result<(), PublishError> {
    let (folder, name) = split(path)?;
    let mut staged = Staged::begin(folder)?;
    at("write", path, staged.write_all(bytes))?;
    staged.settle(audience)?;
    staged.commit(name).map(drop)
}

/// Publishes `document` as JSON that people can read, and says whether that
/// changed the file: equal content isn't written again.
///
/// # Errors
/// As [`bytes`].
pub fn json<T: Serialize>(path: &Path, document: &T) -> Result<bool, PublishError> {
    let mut text = at(
        "encode",
        path,
        serde_json::to_vec_pretty(document).map_err(io::Error::from),
    )?;
    text.push(b'\n');
    if holds(path, &text) {
        return Ok(false);
    }
    bytes(path, &text, Audience::Group)?;
    Ok(true)
}

/// Whether that very content is there. Only a regular file is read, and only if it may be
/// the same: a pipe that somebody put there would be waited for.
fn holds(path: &Path, text: &[u8]) -> bool {
    let may_be = fs::symlink_metadata(path).is_ok_and(|there| {
        there.is_file() && usize::try_from(there.len()).is_ok_and(|length| length == text.len())
    });
    may_be && fs::read(path).is_ok_and(|old| old == text)
}

/// Makes `folder` (and its parents) for `audience`. A folder that exists and
/// belongs to somebody else is left as it is.
///
/// # Errors
/// If it can't be made.
pub fn folder(folder: &Path, audience: Audience) -> Result<(), PublishError> {
    at("make the folder", folder, fs::create_dir_all(folder))?;
    match fs::set_permissions(folder, Permissions::from_mode(audience.folder_mode())) {
        // A mount point is the kubelet's: its mode is the pod's business.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        other => at("set the mode of", folder, other),
    }
}

/// Removes one file; one that isn't there is fine.
///
/// # Errors
/// If it is there and stays.
pub fn remove(path: &Path) -> Result<(), PublishError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => {
            at("remove", path, other)?;
            path.parent().map_or(Ok(()), sync_folder)
        }
    }
}

/// Removes a folder with all that is in it; one that isn't there is fine.
///
/// # Errors
/// If something of it stays.
pub fn remove_folder(path: &Path) -> Result<(), PublishError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => at("remove the folder", path, other),
    }
}

/// Puts the folder `new` in the place of the folder `path`. The old one is
/// moved aside first: a crash in between leaves none at `path`, and both aside.
///
/// # Errors
/// If a rename is refused.
pub fn swap_folder(new: &Path, path: &Path) -> Result<(), PublishError> {
    let old = path.with_extension("old");
    remove_folder(&old)?;
    match fs::rename(path, &old) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return at("move aside", path, Err(error));
        }
        _ => {}
    }
    at("rename into place", path, fs::rename(new, path))?;
    path.parent().map_or(Ok(()), sync_folder)?;
    remove_folder(&old)
}

/// Removes the temporary files that a killed predecessor left in `folder`, and
/// says how many. Only for the folder's one writer, before it writes.
///
/// # Errors
/// If the folder can't be listed or a file can't be removed.
pub fn sweep(folder: &Path) -> Result<usize, PublishError> {
    let mut swept = 0;
    for entry in at("list", folder, fs::read_dir(folder))? {
        let entry = at("list", folder, entry)?;
        if entry
            .file_name()
            .to_string_lossy()
            .starts_with(TEMPORARY_PREFIX)
        {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                remove_folder(&path)?;
            } else {
                remove(&path)?;
            }
            swept += 1;
        }
    }
    Ok(swept)
}

fn split(path: &Path) -> Result<(&Path, &str), PublishError> {
    path.parent()
        .zip(path.file_name().and_then(|name| name.to_str()))
        .ok_or_else(|| PublishError {
            what: "publish",
            path: path.to_owned(),
            source: io::Error::new(
                io::ErrorKind::InvalidInput,
                "the path has no folder or no file name",
            ),
        })
}

fn sync_folder(folder: &Path) -> Result<(), PublishError> {
    at(
        "sync the folder",
        folder,
        File::open(folder).and_then(|handle| handle.sync_all()),
    )
}
