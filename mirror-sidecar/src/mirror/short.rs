//! Commits by the beginning of their id.
//!
//! A remote only takes whole ids, so its history has to be looked at: commits
//! alone where the remote can leave out the rest. That makes a partial
//! repository, which git2 can't read, so it lies aside and goes again.

use git2::Oid;
use tandem_shared::publish;

use super::{Mirror, MirrorError};
use crate::metrics::GitCommand;

impl Mirror<'_> {
    /// The one commit of the remote's heads and tags whose id begins so. An
    /// `old` remote (see [`Mirror::list`]) is asked for everything: a plain
    /// folder behind a web server would have git fetch what was left out, by a
    /// git that would have git fetch what was left out, and so on.
    ///
    /// # Errors
    /// If there is none or more than one, or the remote can't be asked.
    pub fn find_short(&self, short: &str, old: bool) -> Result<Oid, MirrorError> {
        // One for each mirror: sources look for short ids at the same time.
        let own = self
            .path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let aside = self
            .path
            .with_file_name(format!("{}{own}", publish::TEMPORARY_PREFIX));
        publish::remove_folder(&aside)?;
        super::init(&aside)?;
        let result = self.find_short_in(&aside, short, old);
        publish::remove_folder(&aside)?;
        result
    }

    fn find_short_in(
        &self,
        aside: &std::path::Path,
        short: &str,
        old: bool,
    ) -> Result<Oid, MirrorError> {
        let url = self.remote.address.url.as_str();
        let mut fetch = vec![
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
            "--update-shallow",
        ];
        if !old {
            fetch.push("--filter=tree:0");
        }
        fetch.extend([
            "--",
            url,
            "+refs/heads/*:refs/heads/*",
            "+refs/tags/*:refs/tags/*",
        ]);
        self.run_in(aside, self.remote, GitCommand::Fetch, &fetch, b"")?;
        let named = self.run_in(
            aside,
            self.remote,
            GitCommand::Read,
            &["rev-parse", &format!("--disambiguate={short}")],
            b"",
        )?;
        let ids = String::from_utf8_lossy(&named.stdout).into_owned();
        let kinds = self.run_in(
            aside,
            self.remote,
            GitCommand::Read,
            &["cat-file", "--batch-check=%(objectname) %(objecttype)"],
            ids.as_bytes(),
        )?;
        let kinds = String::from_utf8_lossy(&kinds.stdout).into_owned();
        let commits: Vec<&str> = kinds
            .lines()
            .filter_map(|line| line.strip_suffix(" commit"))
            .collect();
        match commits.as_slice() {
            [] => Err(MirrorError::NoCommit(format!(
                "no branch or tag is called {short}, and no commit of any branch or tag begins so; push it, or write another ref"
            ))),
            [one] => Ok(Oid::from_str(one)?),
            several => Err(MirrorError::Ambiguous {
                short: short.to_owned(),
                count: several.len(),
            }),
        }
    }
}
