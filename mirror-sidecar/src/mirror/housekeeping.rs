//! Keeping a mirror small, and free of what killed children left.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

use tandem_shared::publish;

use super::refs::{NAMESPACE, held_as};
use super::{Mirror, MirrorError, open};
use crate::metrics::GitCommand;

/// Lines of `shallow` above which the mirror is repacked: each is sent with
/// every fetch.
const SHALLOW_LINES: usize = 64;
/// Loose objects above which it is.
const LOOSE_OBJECTS: usize = 512;
/// Packs above which it is: reading slows down with each.
const PACKS: usize = 32;

impl Mirror<'_> {
    /// Drops what is held of names that nobody asks for any more.
    ///
    /// # Errors
    /// If the mirror is broken.
    pub fn keep_only(&self, asked: &BTreeSet<String>) -> Result<(), MirrorError> {
        let kept: BTreeSet<String> = asked.iter().map(|name| held_as(name)).collect();
        for reference in self
            .repository()
            .references_glob(&format!("{NAMESPACE}*"))?
        {
            let mut reference = reference?;
            if !reference.name().is_ok_and(|name| kept.contains(name)) {
                reference.delete()?;
            }
        }
        self.drop_whole()
    }

    /// Repacks if enough has gathered. Says whether it did.
    ///
    /// # Errors
    /// If git can't.
    pub fn repack_if_due(&mut self) -> Result<bool, MirrorError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| MirrorError::Io { path, source }
        };
        let due = lines(&self.path.join("shallow")).map_err(io(&self.path))? > SHALLOW_LINES
            || loose_objects(&self.path).map_err(io(&self.path))? > LOOSE_OBJECTS
            || packs(&self.path).map_err(io(&self.path))? > PACKS;
        if due {
            self.run(GitCommand::Repack, &["repack", "-a", "-d", "-q"], b"")?;
            self.run(GitCommand::Repack, &["prune", "--expire=now"], b"")?;
            self.repository = open(&self.path)?;
        }
        Ok(due)
    }
}

fn lines(file: &Path) -> io::Result<usize> {
    match fs::File::open(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        other => Ok(io::BufReader::new(other?).lines().count()),
    }
}

fn loose_objects(mirror: &Path) -> io::Result<usize> {
    let mut count = 0;
    for entry in entries(&mirror.join("objects"))? {
        let hex = entry.file_name().is_some_and(|name| name.len() == 2);
        if hex {
            count += entries(&entry)?.len();
        }
    }
    Ok(count)
}

fn packs(mirror: &Path) -> io::Result<usize> {
    let packs = entries(&mirror.join("objects/pack"))?;
    Ok(packs
        .iter()
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "pack")
        })
        .count())
}

/// What lies in a folder; nothing, if there is none.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect(),
    }
}

/// Removes what killed children left in a mirror: locks, half-written objects
/// and packs. Only for who holds the mirror's lock.
///
/// # Errors
/// If something can't be listed or removed.
pub fn sweep(mirror: &Path) -> Result<usize, MirrorError> {
    let mut swept = 0;
    let mut folders = vec![mirror.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in entries(&folder).map_err(|source| MirrorError::Io {
            path: folder.clone(),
            source,
        })? {
            let name = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            let stale = name.ends_with(".lock")
                || name.starts_with("tmp_")
                || name.starts_with("pack_git2_")
                || name.ends_with(".keep");
            let is_folder = path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
            if stale {
                if is_folder {
                    publish::remove_folder(&path)?
                } else {
                    publish::remove(&path)?
                }
                swept += 1;
            } else if is_folder {
                folders.push(path);
            }
        }
    }
    Ok(swept)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::disallowed_methods)]
    use super::*;

    #[test]
    fn leftovers_go_and_everything_else_stays() {
        let folder = tempfile::tempdir().unwrap();
        let mirror = folder.path();
        let left = [
            "shallow.lock",
            "refs/tandem/x.lock",
            "objects/pack/tmp_pack_1",
            "objects/aa/tmp_obj_1",
            "objects/pack/pack_git2_1",
            "objects/pack/pack-1.keep",
            "objects/tmp_objdir-incoming-1/x",
        ];
        let kept = [
            "shallow",
            "config",
            "objects/aa/bb",
            "objects/pack/pack-1.pack",
        ];
        for path in left.iter().chain(&kept) {
            fs::create_dir_all(mirror.join(path).parent().unwrap()).unwrap();
            fs::write(mirror.join(path), "x").unwrap();
        }
        assert_eq!(sweep(mirror).unwrap(), left.len());
        assert!(left.iter().all(|path| !mirror.join(path).exists()));
        assert!(kept.iter().all(|path| mirror.join(path).exists()));
    }

    #[test]
    fn counts_are_of_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let mirror = folder.path();
        assert_eq!(
            (
                lines(&mirror.join("shallow")).unwrap(),
                loose_objects(mirror).unwrap(),
                packs(mirror).unwrap()
            ),
            (0, 0, 0)
        );
        for path in [
            "objects/aa/1",
            "objects/aa/2",
            "objects/bb/3",
            "objects/pack/p.pack",
            "objects/pack/p.idx",
            "objects/info/x",
        ] {
            fs::create_dir_all(mirror.join(path).parent().unwrap()).unwrap();
            fs::write(mirror.join(path), "x").unwrap();
        }
        fs::write(mirror.join("shallow"), "a\nb\n").unwrap();
        assert_eq!(
            (
                lines(&mirror.join("shallow")).unwrap(),
                loose_objects(mirror).unwrap(),
                packs(mirror).unwrap()
            ),
            (2, 3, 1)
        );
    }
}
