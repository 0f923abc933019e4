//! Walking a commit's tree as a checkout would look, without one.
//!
//! Links are followed as long as they stay in the repository; what they lead
//! to takes their place. Submodules are followed if that is asked for; if not,
//! those below a folder are passed over, as a plain clone leaves them empty.

use std::cell::Cell;
use std::collections::VecDeque;

use git2::{Blob, ObjectType, Oid, Repository, Tree, TreeEntry};
use tandem_shared::artifact::{Limits, PackError};

use super::SnapshotError;
use super::path::shown;
use super::submodule::Followed;

/// Links that one path may lead through.
const HOPS: usize = 40;
/// Bytes of a link's target, at most.
const TARGET: usize = 4096;
/// Parts of paths that are followed in one snapshot, at most: links to links multiply.
const STEPS: usize = 500_000;
/// Bytes of a path within an artifact, at most.
const PATH: usize = 1024;
/// The mode of a link.
pub(super) const LINK: i32 = 0o120_000;

/// The tree of one commit.
pub struct Snapshot<'r> {
    pub(super) repository: &'r Repository,
    pub(super) root: Oid,
    pub(super) followed: Followed,
    /// Parts of paths that were followed so far.
    steps: Cell<usize>,
}

/// What stands at a path, once all links are followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where it really is.
    pub path: Vec<String>,
    /// What it is.
    pub node: Node,
}

/// What a path may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// A file, and its object.
    File(Oid),
    /// A folder, and its object.
    Folder(Oid),
    /// A submodule that isn't followed.
    Submodule,
}

/// Why a path leads nowhere.
enum Stray {
    Outside,
    Nothing,
    Circle,
    /// Into a submodule that isn't followed.
    Submodule(String),
    Broken(SnapshotError),
}

impl From<git2::Error> for Stray {
    fn from(error: git2::Error) -> Self {
        Self::Broken(error.into())
    }
}

/// A file that a walk found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Its path below the folder that was walked.
    pub path: String,
    /// Where it really is in the repository, for messages.
    pub origin: String,
    /// Its object.
    pub id: Oid,
}

impl<'r> Snapshot<'r> {
    /// The tree of `commit`.
    ///
    /// # Errors
    /// If the mirror doesn't have it.
    pub fn of(repository: &'r Repository, commit: Oid) -> Result<Self, SnapshotError> {
        let root = repository.find_commit(commit)?.tree_id();
        Ok(Self {
            repository,
            root,
            followed: Followed::default(),
            steps: Cell::new(0),
        })
    }

    /// The same, with submodules followed or not. Without this they aren't.
    #[must_use]
    pub fn with_submodules(mut self, followed: bool) -> Self {
        self.followed.on = followed;
        self
    }

    /// What stands at `path`, seen from the folder `from`.
    ///
    /// # Errors
    /// If nothing is there, or a link on the way leads astray.
    pub fn find(
        &self,
        from: &[String],
        path: &str,
        what: &'static str,
    ) -> Result<Found, SnapshotError> {
        let asked = || {
            let mut parts = from.to_vec();
            parts.push(path.to_owned());
            if from.is_empty() {
                path.to_owned()
            } else {
                shown(&parts)
            }
        };
        self.resolve(from, path).map_err(|stray| match stray {
            Stray::Outside => SnapshotError::Escape {
                link: asked(),
                target: path.to_owned(),
            },
            Stray::Nothing => SnapshotError::NotFound {
                what,
                path: asked(),
            },
            Stray::Circle => SnapshotError::Loop(asked()),
            Stray::Submodule(path) => SnapshotError::Submodule {
                asked: asked(),
                path,
            },
            Stray::Broken(error) => error,
        })
    }

    /// All files below the folder `found`.
    ///
    /// # Errors
    /// If a link leads astray, or there are more entries than `limits` allow.
    pub fn walk(&self, found: &Found, limits: Limits) -> Result<Vec<Leaf>, SnapshotError> {
        let mut walk = Walk {
            snapshot: self,
            leaves: Vec::new(),
            active: Vec::new(),
            seen: 0,
            limits,
        };
        if let Node::Folder(id) = found.node {
            walk.folder(id, &found.path, "")?;
        }
        Ok(walk.leaves)
    }

    /// A file's content.
    ///
    /// # Errors
    /// If the mirror doesn't have it.
    pub fn blob(&self, id: Oid) -> Result<Blob<'r>, SnapshotError> {
        Ok(self.repository.find_blob(id)?)
    }

    /// A file's size in bytes, without reading it.
    ///
    /// # Errors
    /// If the mirror doesn't have it.
    pub fn size(&self, id: Oid) -> Result<usize, SnapshotError> {
        Ok(self.repository.odb()?.read_header(id)?.0)
    }

    fn tree(&self, id: Oid) -> Result<Tree<'r>, git2::Error> {
        self.repository.find_tree(id)
    }

    fn resolve(&self, from: &[String], path: &str) -> Result<Found, Stray> {
        let mut pending: VecDeque<String> = from.iter().cloned().collect();
        pending.extend(path.split('/').map(str::to_owned));
        // The folders that we are in, from the root's child on.
        let mut folders: Vec<(String, Oid)> = Vec::new();
        let mut hops = 0;
        while let Some(part) = pending.pop_front() {
            self.steps.set(self.steps.get() + 1);
            if self.steps.get() > STEPS {
                return Err(Stray::Broken(SnapshotError::Maze(STEPS)));
            }
            // What git2 would not even look for.
            if part.contains('\0') {
                return Err(Stray::Nothing);
            }
            match part.as_str() {
                "" | "." => continue,
                ".." => {
                    if folders.pop().is_none() {
                        return Err(Stray::Outside);
                    }
                    continue;
                }
                _ => {}
            }
            let tree = self.tree(folders.last().map_or(self.root, |(_, id)| *id))?;
            let Some(entry) = tree.get_name(&part) else {
                return Err(Stray::Nothing);
            };
            match (entry.kind(), entry.filemode()) {
                (Some(ObjectType::Tree), _) => folders.push((part, entry.id())),
                (Some(ObjectType::Blob), LINK) => {
                    hops += 1;
                    if hops > HOPS {
                        return Err(Stray::Circle);
                    }
                    let target = self.target(&entry)?.ok_or(Stray::Nothing)?;
                    if target.starts_with('/') {
                        return Err(Stray::Outside);
                    }
                    for part in target.split('/').rev() {
                        pending.push_front(part.to_owned());
                    }
                }
                (Some(ObjectType::Commit), _) if self.followed.on => {
                    let real: Vec<String> = folders
                        .iter()
                        .map(|(name, _)| name.clone())
                        .chain([part.clone()])
                        .collect();
                    let tree = self.enter(&real, entry.id()).map_err(Stray::Broken)?;
                    folders.push((part, tree));
                }
                (Some(ObjectType::Commit), _)
                    if pending.iter().all(|rest| rest.is_empty() || rest == ".") =>
                {
                    return Ok(Found {
                        path: names(folders, Some(part)),
                        node: Node::Submodule,
                    });
                }
                (Some(ObjectType::Blob), _)
                    if pending.iter().all(|rest| rest.is_empty() || rest == ".") =>
                {
                    return Ok(Found {
                        path: names(folders, Some(part)),
                        node: Node::File(entry.id()),
                    });
                }
                (Some(ObjectType::Commit), _) => {
                    return Err(Stray::Submodule(shown(&names(folders, Some(part)))));
                }
                _ => return Err(Stray::Nothing),
            }
        }
        let id = folders.last().map_or(self.root, |(_, id)| *id);
        Ok(Found {
            path: names(folders, None),
            node: Node::Folder(id),
        })
    }

    /// Where a link leads, as it is written. Nowhere, if no system would follow it.
    fn target(&self, entry: &TreeEntry<'_>) -> Result<Option<String>, git2::Error> {
        // Nothing is in the way of a link of a gigabyte.
        if self.repository.odb()?.read_header(entry.id())?.0 > TARGET {
            return Ok(None);
        }
        let blob = self.repository.find_blob(entry.id())?;
        Ok(Some(String::from_utf8_lossy(blob.content()).into_owned()))
    }
}

fn names(folders: Vec<(String, Oid)>, last: Option<String>) -> Vec<String> {
    folders
        .into_iter()
        .map(|(name, _)| name)
        .chain(last)
        .collect()
}

struct Walk<'s, 'r> {
    snapshot: &'s Snapshot<'r>,
    leaves: Vec<Leaf>,
    /// Where the folders that are being walked really are.
    active: Vec<Vec<String>>,
    seen: usize,
    limits: Limits,
}

impl Walk<'_, '_> {
    fn folder(&mut self, id: Oid, real: &[String], prefix: &str) -> Result<(), SnapshotError> {
        self.active.push(real.to_vec());
        let tree = self.snapshot.tree(id)?;
        for entry in &tree {
            self.seen += 1;
            if self.seen > self.limits.entries {
                return Err(SnapshotError::too_large(&shown(real), self.limits));
            }
            let name = match entry.name() {
                Ok(name) => name.to_owned(),
                Err(_) => {
                    let bytes = String::from_utf8_lossy(entry.name_bytes()).into_owned();
                    return Err(SnapshotError::Unpackable(PackError::Path(bytes)));
                }
            };
            let path = if prefix.is_empty() {
                name.clone()
            } else {
                format!("{prefix}/{name}")
            };
            // No artifact holds a longer one, and folders can be as deep as it takes to end us.
            if path.len() > PATH {
                return Err(SnapshotError::Unpackable(PackError::Path(path)));
            }
            let mut here = real.to_vec();
            here.push(name.clone());
            match (entry.kind(), entry.filemode()) {
                (Some(ObjectType::Blob), LINK) => self.link(&entry, real, &name, &path)?,
                (Some(ObjectType::Blob), _) => self.leaves.push(Leaf {
                    path,
                    origin: shown(&here),
                    id: entry.id(),
                }),
                (Some(ObjectType::Tree), _) => self.folder(entry.id(), &here, &path)?,
                (Some(ObjectType::Commit), _) if self.snapshot.followed.on => {
                    let tree = self.snapshot.enter(&here, entry.id())?;
                    self.folder(tree, &here, &path)?;
                }
                _ => {}
            }
        }
        self.active.pop();
        Ok(())
    }

    fn link(
        &mut self,
        entry: &TreeEntry<'_>,
        folder: &[String],
        name: &str,
        path: &str,
    ) -> Result<(), SnapshotError> {
        let mut link = folder.to_vec();
        link.push(name.to_owned());
        let link = shown(&link);
        let target = || {
            self.snapshot.target(entry).map(|target| {
                let too_long = || format!("(more than {TARGET} bytes)");
                target
                    .unwrap_or_else(too_long)
                    .chars()
                    .filter(|c| !c.is_control())
                    .take(200)
                    .collect()
            })
        };
        let found = match self.snapshot.resolve(folder, name) {
            Ok(found) => found,
            Err(Stray::Outside) => {
                return Err(SnapshotError::Escape {
                    link,
                    target: target()?,
                });
            }
            Err(Stray::Nothing) => {
                return Err(SnapshotError::Dangling {
                    link,
                    target: target()?,
                });
            }
            Err(Stray::Circle) => return Err(SnapshotError::Loop(link)),
            Err(Stray::Submodule(path)) => {
                return Err(SnapshotError::Submodule { asked: link, path });
            }
            Err(Stray::Broken(error)) => return Err(error),
        };
        match found.node {
            Node::File(id) => self.leaves.push(Leaf {
                path: path.to_owned(),
                origin: shown(&found.path),
                id,
            }),
            Node::Folder(_)
                if self
                    .active
                    .iter()
                    .any(|active| active.starts_with(&found.path)) =>
            {
                return Err(SnapshotError::Loop(link));
            }
            Node::Folder(id) => self.folder(id, &found.path, path)?,
            Node::Submodule => {}
        }
        Ok(())
    }
}
