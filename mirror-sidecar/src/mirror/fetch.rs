//! Bringing objects into a mirror, the narrowest way that the remote allows.
//!
//! All at once and shallow; if that fails for one of them, each one singly, so that one
//! of them never stops the others; if it is refused alone, at last the whole history
//! of heads and tags, since an old server only gives what it advertises.

use std::collections::BTreeMap;

use git2::Oid;

use super::classify::Meaning;
use super::refs::held_as;
use super::{Mirror, MirrorError, Remote, housekeeping};
use crate::metrics::GitCommand;

/// Where a whole history lies until the one commit of it is held.
const WHOLE: &str = "refs/tandem-whole/";

/// What is to be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The asked name that shall hold it.
    pub asked: String,
    /// The object, as the remote listed it or as it was asked for.
    pub object: Oid,
    /// Whether all heads and tags may be fetched with their history to come by it.
    pub whole: bool,
}

/// Items that fail singly, and nothing else, before the rest isn't tried.
const FAILURES: usize = 3;

impl Mirror<'_> {
    /// Fetches `items`. What is missing from the answer is held now.
    ///
    /// # Errors
    /// If the remote can't be asked at all. Refusals of single items are in
    /// the answer.
    pub fn fetch(&self, items: &[Item]) -> Result<BTreeMap<String, MirrorError>, MirrorError> {
        self.fetch_from(self.remote, items)
    }

    /// The same from elsewhere: submodules come from repositories of their own.
    ///
    /// # Errors
    /// As [`Mirror::fetch`].
    pub fn fetch_from(
        &self,
        remote: Remote<'_>,
        items: &[Item],
    ) -> Result<BTreeMap<String, MirrorError>, MirrorError> {
        let mut refused = BTreeMap::new();
        if items.is_empty() {
            return Ok(refused);
        }
        // We alone may write here, so what lies around is a killed child's.
        housekeeping::sweep(&self.path)?;
        let mut joint = match self.fetch_shallow(remote, items) {
            Ok(()) => return Ok(refused),
            Err(error) if !error.is_of_what_came() => return Err(error),
            Err(error) => Some(error),
        };
        let mut wholes = Vec::new();
        let (mut fetched, mut failures) = (false, 0);
        for item in items {
            let alone = match joint.take_if(|_| items.len() == 1) {
                Some(error) => Err(error),
                None => self.fetch_shallow(remote, std::slice::from_ref(item)),
            };
            match alone {
                Ok(()) => fetched = true,
                Err(error) if self.git.is_cancelled() => return Err(error),
                Err(error) if error.means(Meaning::Refused) => wholes.push(item),
                Err(error) if error.means(Meaning::Unsound) => {
                    refused.insert(item.asked.clone(), error);
                }
                Err(error) if error.is_of_what_came() => {
                    failures += 1;
                    // Who gives nothing at all is at fault, not what was asked for.
                    let rest = failures < items.len() && failures < FAILURES;
                    if !fetched && !rest {
                        return Err(error);
                    }
                    refused.insert(item.asked.clone(), error);
                }
                Err(error) => return Err(error),
            }
        }
        // They take longest, and concern nobody else.
        let (looked_for, spared): (Vec<&Item>, _) = wholes.into_iter().partition(|one| one.whole);
        let mut missing = spared;
        match self.fetch_whole(remote, &looked_for) {
            Ok(not_there) => missing.extend(not_there),
            Err(error) if error.is_local() || self.git.is_cancelled() => return Err(error),
            Err(error) => {
                let each = |item: &&Item| (item.asked.clone(), error.repeated());
                refused.extend(looked_for.iter().map(each));
            }
        }
        let each = |item: &Item| (item.asked.clone(), refusal(item));
        refused.extend(missing.into_iter().map(each));
        Ok(refused)
    }

    fn fetch_shallow(&self, remote: Remote<'_>, items: &[Item]) -> Result<(), MirrorError> {
        let specs: String = items
            .iter()
            .map(|item| format!("+{}:{}\n", item.object, held_as(&item.asked)))
            .collect();
        match self.fetch_specs(remote, &["--depth=1"], &specs) {
            // A plain folder of files behind a web server knows no depth.
            Err(error) if error.means(Meaning::NoShallow) => self.fetch_specs(remote, &[], &specs),
            other => other,
        }
    }

    /// Fetches all heads and tags with their history, and keeps the commits of `items`. Those
    /// that aren't in it are the answer.
    fn fetch_whole<'i>(
        &self,
        remote: Remote<'_>,
        items: &[&'i Item],
    ) -> Result<Vec<&'i Item>, MirrorError> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        // What a killed predecessor left would be in the way of other names.
        self.drop_whole()?;
        let specs = format!("+refs/heads/*:{WHOLE}heads/*\n+refs/tags/*:{WHOLE}tags/*\n");
        let shallow = self.path.join("shallow").exists();
        let depth: &[&str] = if shallow { &["--unshallow"] } else { &[] };
        let fetched = self.fetch_specs(remote, depth, &specs);
        let mut missing = Vec::new();
        if fetched.is_ok() {
            for item in items {
                match self.repository().find_object(item.object, None) {
                    Ok(_) => self.hold(&item.asked, item.object)?,
                    Err(_) => missing.push(*item),
                }
            }
        }
        self.drop_whole()?;
        fetched.map(|()| missing)
    }

    /// Drops what was only fetched to look for a commit in it.
    pub(super) fn drop_whole(&self) -> Result<(), MirrorError> {
        for reference in self.repository().references_glob(&format!("{WHOLE}*"))? {
            reference?.delete()?;
        }
        Ok(())
    }

    fn fetch_specs(
        &self,
        remote: Remote<'_>,
        depth: &[&str],
        specs: &str,
    ) -> Result<(), MirrorError> {
        let mut arguments = vec![
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
            "--update-shallow",
        ];
        arguments.extend(depth);
        arguments.extend(["--stdin", "--", remote.address.url.as_str()]);
        let result = match self.run_in(
            &self.path,
            remote,
            GitCommand::Fetch,
            &arguments,
            specs.as_bytes(),
        ) {
            Err(error) if error.means(Meaning::Locked) => {
                housekeeping::sweep(&self.path)?;
                self.run_in(
                    &self.path,
                    remote,
                    GitCommand::Fetch,
                    &arguments,
                    specs.as_bytes(),
                )
            }
            other => other,
        };
        result.map(drop)
    }
}

fn refusal(item: &Item) -> MirrorError {
    MirrorError::NoCommit(format!(
        "the remote has no commit {} (any more) that it would give; push it, or name another ref",
        item.object
    ))
}
