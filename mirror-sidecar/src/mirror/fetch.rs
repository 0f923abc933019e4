//! Bringing objects into a mirror, the narrowest way that the remote allows.
//!
//! All at once and shallow; if an id is refused, each one singly, so that one
//! of them never stops the others; if it is refused alone, the whole history
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
}

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
        match self.fetch_shallow(remote, items) {
            Ok(()) => return Ok(refused),
            Err(error) if !error.means(Meaning::Refused) => return Err(error),
            Err(_) => {}
        }
        for item in items {
            // A single one was just refused.
            let alone = if items.len() > 1 {
                self.fetch_shallow(remote, std::slice::from_ref(item))
            } else {
                self.fetch_whole(remote, item)
            };
            let result = match alone {
                Err(error) if error.means(Meaning::Refused) => self.fetch_whole(remote, item),
                other => other,
            };
            match result {
                Ok(()) => {}
                Err(error) if error.is_about_one_ref() => {
                    refused.insert(item.asked.clone(), error);
                }
                Err(error) => return Err(error),
            }
        }
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

    /// Fetches all heads and tags with their history, and keeps the one commit.
    fn fetch_whole(&self, remote: Remote<'_>, item: &Item) -> Result<(), MirrorError> {
        let specs = format!("+refs/heads/*:{WHOLE}heads/*\n+refs/tags/*:{WHOLE}tags/*\n");
        let shallow = self.path.join("shallow").exists();
        let depth: &[&str] = if shallow { &["--unshallow"] } else { &[] };
        self.fetch_specs(remote, depth, &specs)?;
        let found = self.repository().find_object(item.object, None).is_ok();
        if found {
            self.hold(&item.asked, item.object)?;
        }
        for reference in self.repository().references_glob(&format!("{WHOLE}*"))? {
            reference?.delete()?;
        }
        if found { Ok(()) } else { Err(refusal(item)) }
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
