//! Submodules on the way of a walk: the tree of the commit that a folder names
//! takes that folder's place, as in a checkout with submodules.
//!
//! Nothing is fetched here. What isn't held ends the walk, and the error says
//! how to come by it.

use std::cell::RefCell;
use std::collections::BTreeSet;

use git2::{ErrorCode, ObjectType, Oid};

use super::path::shown;
use super::tree::LINK;
use super::{Snapshot, SnapshotError};
use crate::mirror::refs::{held_as, submodule};

/// Submodules of one chart, at most.
const MOST: usize = 64;
/// Submodules within submodules, at most.
const DEPTH: usize = 8;

/// Which submodules a walk came through.
#[derive(Debug, Default)]
pub(super) struct Followed {
    /// Whether they are followed at all.
    pub(super) on: bool,
    entered: RefCell<BTreeSet<Oid>>,
}

/// A submodule that isn't held, and how to find out where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent {
    /// Where it is, from the root of the repository.
    pub path: String,
    /// Its commit.
    pub commit: Oid,
    /// The submodules that lead to it, the outermost first, itself the last.
    pub chain: Vec<Link>,
}

/// One submodule, as the repository that it is in knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The `.gitmodules` of that repository's commit, if it has one.
    pub gitmodules: Option<Oid>,
    /// The submodule's path in that repository.
    pub path: String,
}

impl Snapshot<'_> {
    /// The commits of all submodules that were entered so far.
    #[must_use]
    pub fn entered(&self) -> BTreeSet<Oid> {
        self.followed.entered.borrow().clone()
    }

    /// The tree of the submodule at `real`, a path without links.
    pub(super) fn enter(&self, real: &[String], commit: Oid) -> Result<Oid, SnapshotError> {
        let Some(tree) = self.submodule_tree(commit)? else {
            let chain = self.chain(real)?;
            return Err(SnapshotError::Absent(Box::new(Absent {
                path: shown(real),
                commit,
                chain,
            })));
        };
        let mut entered = self.followed.entered.borrow_mut();
        entered.insert(commit);
        if entered.len() > MOST {
            return Err(SnapshotError::Submodules(format!(
                "more than {MOST} submodules would have to be fetched for it"
            )));
        }
        Ok(tree)
    }

    /// The tree of a submodule's commit, if it is held.
    fn submodule_tree(&self, commit: Oid) -> Result<Option<Oid>, SnapshotError> {
        let name = held_as(&submodule(&commit.to_string()));
        match self.repository.find_reference(&name) {
            Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
            other => Ok(Some(other?.peel_to_commit()?.tree_id())),
        }
    }

    /// The submodules from the root to the one at `real`, of which all but the last are held.
    fn chain(&self, real: &[String]) -> Result<Vec<Link>, SnapshotError> {
        let mut chain = Vec::new();
        let (mut owner, mut here) = (self.root, self.root);
        let mut path: Vec<String> = Vec::new();
        for part in real {
            path.push(part.clone());
            let tree = self.repository.find_tree(here)?;
            let Some(entry) = tree.get_name(part) else {
                break;
            };
            if entry.kind() != Some(ObjectType::Commit) {
                here = entry.id();
                continue;
            }
            let owners = self.repository.find_tree(owner)?;
            let gitmodules = owners
                .get_name(".gitmodules")
                .filter(|file| file.kind() == Some(ObjectType::Blob) && file.filemode() != LINK)
                .map(|file| file.id());
            chain.push(Link {
                gitmodules,
                path: shown(&path),
            });
            if chain.len() > DEPTH {
                return Err(SnapshotError::Submodules(format!(
                    "submodules lie more than {DEPTH} deep in each other at {:?}",
                    shown(real)
                )));
            }
            let Some(tree) = self.submodule_tree(entry.id())? else {
                break;
            };
            (owner, here) = (tree, tree);
            path.clear();
        }
        Ok(chain)
    }
}
