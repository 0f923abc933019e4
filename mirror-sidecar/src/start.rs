//! What has to be so before the first request is looked at.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use git2::ConfigLevel;
use rustix::fs::{Access, access};
use tandem_shared::child::ChildError;
use tandem_shared::layout::Served;
use tandem_shared::lock::{self, Guard, LockError};
use tandem_shared::manifest::Manifest;
use tandem_shared::observe;
use tandem_shared::publish::{self, Audience, PublishError};
use tandem_shared::version::{Contract, Document};
use thiserror::Error;

use crate::config::Config;
use crate::git::{Call, Git};
use crate::inventory::Inventory;
use crate::janitor;
use crate::metrics::GitCommand;

/// Why it can't begin.
#[derive(Debug, Error)]
pub(super) enum StartError {
    /// Another sidecar lives.
    #[error(
        "another mirror-sidecar lives on this volume: {0}; end it, or give this one a volume of its own"
    )]
    Held(LockError),
    /// The lock can't be taken.
    #[error(transparent)]
    Lock(LockError),
    /// The volume can't be written.
    #[error(transparent)]
    Volume(#[from] PublishError),
    /// There is no git.
    #[error("{0}; install git, or say with --git where it is")]
    NoGit(#[from] ChildError),
    /// git is too old.
    #[error("`git version` says {0:?}; at least 2.31 is needed, see --git")]
    OldGit(String),
}

/// Asks git for its version, and whether it will do.
///
/// # Errors
/// If it can't be run or is too old to take its settings from the environment.
pub(crate) fn git_version(git: &Git) -> Result<String, StartError> {
    let call = Call {
        command: GitCommand::Read,
        repository: None,
        remote: None,
        lock: None,
        deadline: Duration::from_secs(20),
    };
    let outcome = git.run(&call, &["version"], b"")?;
    let said = String::from_utf8_lossy(&outcome.stdout).trim().to_owned();
    if is_new_enough(&said) {
        Ok(said)
    } else {
        Err(StartError::OldGit(said))
    }
}

fn is_new_enough(said: &str) -> bool {
    let mut numbers = said
        .trim_start_matches("git version ")
        .split(['.', ' ', '-'])
        .map_while(|part| part.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(2), Some(31))
}

/// Whether there is a program to download dependencies with. It isn't run: without any
/// dependencies nobody needs it.
///
/// # Errors
/// Says where it was looked for, and what is wrong there.
pub(super) fn find_helm(helm: &Path) -> Result<(), String> {
    find_program(helm, std::env::var_os("PATH").as_deref())
}

/// `program` as the system would find it: a mere name in one of the folders of `search`,
/// everything else where it says.
fn find_program(program: &Path, search: Option<&OsStr>) -> Result<(), String> {
    let runs = |path: &Path| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    let shown = program.display();
    if program.components().count() > 1 {
        return match (runs(program), program.exists()) {
            (true, _) => Ok(()),
            (false, true) => Err(format!("{shown} is no file that this user may execute")),
            (false, false) => Err(format!("there is no {shown}")),
        };
    }
    let search = search.unwrap_or_default();
    let mut folders = std::env::split_paths(search);
    if folders.any(|folder| runs(&folder.join(program))) {
        Ok(())
    } else {
        Err(format!(
            "none of the folders in PATH ({}) has a program {shown}",
            search.to_string_lossy()
        ))
    }
}

/// Keeps git2 from reading the configuration of this machine and user, which
/// isn't ours and may not even be readable: only the mirrors' own counts.
fn isolate_git2() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for level in [
            ConfigLevel::ProgramData,
            ConfigLevel::System,
            ConfigLevel::XDG,
            ConfigLevel::Global,
        ] {
            #[expect(unsafe_code, reason = "the library's settings have no other door")]
            // SAFETY: nothing has opened a repository before this process began its role.
            let result = unsafe { git2::opts::set_search_path(level, "/nonexistent") };
            if let Err(error) = result {
                tracing::warn!(%error, "git2 may read this user's configuration");
            }
        }
    });
}

/// Makes again what is missing of the folders; says whether anything was.
///
/// # Errors
/// If the volume can't be written.
pub(super) fn mend_folders(served: &Served) -> Result<bool, PublishError> {
    let missing: Vec<_> = served
        .folders()
        .into_iter()
        .filter(|folder| !folder.is_dir())
        .collect();
    make_folders(served, &missing)?;
    Ok(!missing.is_empty())
}

fn make_folders(served: &Served, folders: &[PathBuf]) -> Result<(), PublishError> {
    for folder in folders {
        let audience = if served.is_private(folder) {
            Audience::Owner
        } else {
            Audience::Group
        };
        publish::folder(folder, audience)?;
    }
    Ok(())
}

/// Takes the role, makes the folders, and clears away what a killed
/// predecessor left. The lock is held as long as what is returned.
///
/// # Errors
/// If another sidecar lives on the volume or the volume can't be written.
pub(super) fn begin(
    config: &Config,
    inventory: Inventory,
) -> Result<(Guard, Inventory), StartError> {
    isolate_git2();
    let served = &config.volume.served;
    make_folders(served, &served.folders())?;
    let role =
        lock::acquire_within(&served.role_lock(), config.lock_wait).map_err(
            |error| match error {
                held @ LockError::Held { .. } => StartError::Held(held),
                other => StartError::Lock(other),
            },
        )?;
    let swept = janitor::clear_leftovers(served)?;
    if swept > 0 {
        tracing::info!(swept, "cleared away what a predecessor left");
    }
    let contract = Contract {
        schema: Contract::current_schema(),
        writer: "mirror-sidecar".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: tandem_shared::clock::now(),
    };
    publish::json(&served.contract(), &contract)?;
    // What manifests name is kept from the first moment on, also of sources
    // that nothing asks for just now.
    let sources = observe::list(&served.manifests())
        .map(|listing| listing.sources)
        .unwrap_or_default();
    for source in sources {
        match observe::load::<Manifest>(&served.manifest(&source)) {
            Ok(observed) => inventory.published(&source, &observed.document, false),
            Err(error) => {
                tracing::warn!(%source, %error, "a manifest isn't read; no artifact is dropped before it is replaced or gone");
                inventory.unreadable(&source);
            }
        }
    }
    Ok((role, inventory))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::disallowed_methods)]
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_program_is_found_as_the_system_finds_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (name, mode) in [("helm", 0o755), ("text", 0o644)] {
            std::fs::write(at(name), "").unwrap();
            std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let search = std::env::join_paths([Path::new("/nowhere"), folder.path()]).unwrap();
        let find = |program: &Path| find_program(program, Some(&search));
        find(Path::new("helm")).unwrap();
        find(&at("helm")).unwrap();
        for (program, words) in [
            (at("none"), "there is no"),
            (at("text"), "may execute"),
            (folder.path().to_owned(), "may execute"),
            (PathBuf::from("text"), "in PATH"),
            (PathBuf::from("none"), "/nowhere"),
        ] {
            let told = find(&program).unwrap_err();
            assert!(told.contains(words), "{program:?}: {told}");
        }
        find_program(Path::new("helm"), None).unwrap_err();
    }

    #[test]
    fn versions_of_git_are_compared_by_number() {
        for (said, enough) in [
            ("git version 2.39.5", true),
            ("git version 2.31.0", true),
            ("git version 2.9.5", false),
            ("git version 2.100.0.windows.1", true),
            ("git version 3.0.0", true),
            ("git version 1.99", false),
            ("", false),
            ("hub 2.40", false),
        ] {
            assert_eq!(is_new_enough(said), enough, "{said}");
        }
    }
}
