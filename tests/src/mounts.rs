//! Volumes that refuse: a small file system or a read-only one, seen by one
//! process alone, in a mount namespace of its own.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use crate::daemon::Recipe;
use crate::progress::note;

/// Something that is mounted for one process.
#[derive(Clone, Debug)]
pub enum Mount {
    /// An empty file system of that size.
    Sized {
        /// Where.
        path: PathBuf,
        /// How large.
        bytes: u64,
    },
    /// What is there already, read-only.
    ReadOnly {
        /// Where.
        path: PathBuf,
    },
}

/// That this machine can do it.
#[derive(Clone, Copy, Debug)]
pub struct Available(());

/// Whether mount namespaces can be had here; says so once when they can't. In
/// CI they must be: what is left out there is tested nowhere.
pub fn available() -> Option<Available> {
    static TRIED: OnceLock<Option<Available>> = OnceLock::new();
    *TRIED.get_or_init(|| {
        let tried = Command::new("unshare")
            .args(["--map-root-user", "--mount", "sh", "-c", "mount -t tmpfs none /mnt"])
            .output();
        match tried {
            Ok(output) if output.status.success() => Some(Available(())),
            _ if std::env::var_os("CI").is_some() => Some(Available(())),
            _ => {
                note(
                    "this machine lets nobody mount in a namespace of their own (unshare --map-root-user --mount): \
                     tests of full and read-only volumes are skipped, and no process is kept from the other's half",
                );
                None
            }
        }
    })
}

impl Available {
    /// Changes a recipe so that its program runs with the mount.
    pub fn wrap(self, recipe: &mut Recipe, mount: &Mount) {
        let (script, path, size) = match mount {
            Mount::Sized { path, bytes } => (
                "mount -t tmpfs -o size=\"$2\",mode=0755 none \"$1\" && shift 2 && exec \"$@\"",
                path,
                bytes.to_string(),
            ),
            Mount::ReadOnly { path } => (
                "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\" && shift 2 && exec \"$@\"",
                path,
                String::new(),
            ),
        };
        let program = std::mem::replace(&mut recipe.program, PathBuf::from("unshare"));
        let before = ["--map-root-user", "--mount", "--", "sh", "-c", script, "sh"];
        let own = std::mem::take(&mut recipe.args);
        recipe.args = before
            .iter()
            .map(|word| (*word).to_owned())
            .chain([
                path.display().to_string(),
                size,
                program.display().to_string(),
            ])
            .chain(own)
            .collect();
    }
}
