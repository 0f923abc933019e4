//! Hints that something may have changed in a folder.
//!
//! Subscribe, then scan, then poll slowly: a hint only ever says "look again",
//! and no hint proves nothing. Folders are watched, not files (a renamed file
//! ends the watch of the old one) and not recursively (files of a folder that
//! is just being made are missed).

use std::path::{Path, PathBuf};

use notify::event::{AccessKind, EventKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use thiserror::Error;

use crate::layout;
use crate::publish::TEMPORARY_PREFIX;
use crate::source::SourceName;

/// What to look at again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The file of one source.
    Source(SourceName),
    /// Everything: events were lost, or it can't be told.
    Everything,
    /// Everything, and the watch is to be set up anew: the folder is another
    /// one now, or gone.
    Lost,
}

/// Why there are no hints. The slow poll goes on.
#[derive(Debug, Error)]
pub enum WatchError {
    /// The system has no watches left for this user.
    #[error(
        "no inotify watches left for this user on this node ({0}); changes are seen at the next poll. Raise fs.inotify.max_user_instances or max_user_watches, or run under a user id of its own"
    )]
    Exhausted(notify::Error),
    /// Something else.
    #[error("can't watch {}: {source}; changes are seen at the next poll", path.display())]
    Failed {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        source: notify::Error,
    },
}

/// A running subscription; it ends when dropped.
pub struct Watch {
    _watcher: RecommendedWatcher,
}

/// Calls `on_hint` (on a thread of its own) for whatever happens in `folder`.
/// The caller has to scan once after this returns.
///
/// A folder that isn't there is waited for: the nearest folder above it that is there is
/// watched, and [`Hint::Lost`] says that another call gets nearer.
///
/// # Errors
/// If the folder can't be watched.
pub fn watch(folder: &Path, on_hint: impl Fn(Hint) + Send + 'static) -> Result<Watch, WatchError> {
    let failed = |error: notify::Error| match &error.kind {
        notify::ErrorKind::MaxFilesWatch => WatchError::Exhausted(error),
        notify::ErrorKind::Io(io) if matches!(io.raw_os_error(), Some(24 | 28)) => {
            WatchError::Exhausted(error)
        }
        _ => WatchError::Failed {
            path: folder.to_owned(),
            source: error,
        },
    };
    let wanted = folder.to_owned();
    let mut watcher =
        notify::recommended_watcher(move |event: notify::Result<Event>| match event {
            Ok(event) => hints(&wanted, &event).into_iter().for_each(&on_hint),
            Err(_) => on_hint(Hint::Everything),
        })
        .map_err(failed)?;
    let mut watch = |folder| watcher.watch(folder, RecursiveMode::NonRecursive);
    let mut watched = nearest(folder);
    watch(watched).map_err(failed)?;
    // Nobody tells of a folder that was made just before the watch.
    while nearest(folder) != watched {
        watched = nearest(folder);
        watch(watched).map_err(failed)?;
    }
    Ok(Watch { _watcher: watcher })
}

/// The folder itself, or the nearest one above it that is there.
fn nearest(folder: &Path) -> &Path {
    let mut above = folder.ancestors();
    above.find(|folder| folder.is_dir()).unwrap_or(folder)
}

/// What an event in `folder`, or on the way to it, means for us.
fn hints(folder: &Path, event: &Event) -> Vec<Hint> {
    if event.need_rescan() || event.paths.is_empty() {
        return vec![Hint::Everything];
    }
    match event.kind {
        // Reading must not wake the reader; only the end of writing counts.
        EventKind::Access(AccessKind::Close(notify::event::AccessMode::Write)) => {}
        EventKind::Access(_) => return Vec::new(),
        _ => {}
    }
    event
        .paths
        .iter()
        .filter_map(|path| {
            if path == folder {
                return match event.kind {
                    EventKind::Create(_)
                    | EventKind::Remove(_)
                    | EventKind::Modify(notify::event::ModifyKind::Name(_)) => Some(Hint::Lost),
                    _ => None,
                };
            }
            if folder.starts_with(path) {
                return Some(Hint::Lost);
            }
            let temporary = path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(TEMPORARY_PREFIX));
            if temporary {
                None
            } else {
                layout::source_of(path).map(Hint::Source)
            }
        })
        .collect()
}
