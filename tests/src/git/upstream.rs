//! Bare repositories with a working copy beside each, for tests to push to.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{git, output};
use crate::guard::{self, write};

/// A folder of bare repositories, which one server of each kind can serve.
#[derive(Clone, Debug)]
pub struct Upstreams {
    root: PathBuf,
}

impl Upstreams {
    /// An empty folder.
    pub fn new() -> Result<Self> {
        Ok(Self {
            root: guard::folder("upstreams")?,
        })
    }

    /// The folder that holds `<name>.git`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A new bare repository with an empty branch `main`.
    pub fn create(&self, name: &str) -> Result<Upstream> {
        let bare = self.root.join(format!("{name}.git"));
        let work = guard::folder("work")?;
        output(
            git()?
                .args(["init", "--quiet", "--bare", "--initial-branch=main"])
                .arg(&bare),
        )?;
        output(
            git()?
                .args(["init", "--quiet", "--initial-branch=main"])
                .arg(&work),
        )?;
        let upstream = Upstream {
            name: name.to_owned(),
            bare,
            work,
        };
        upstream.run(&[
            "remote",
            "add",
            "origin",
            &upstream.bare.display().to_string(),
        ])?;
        // For people who go on in the working copy with a git of their own.
        for (key, value) in [
            ("user.name", "Ada Test"),
            ("user.email", "ada@example.org"),
            ("branch.main.remote", "origin"),
            ("branch.main.merge", "refs/heads/main"),
        ] {
            upstream.run(&["config", key, value])?;
        }
        // The server's own maintenance would run beside the test.
        upstream.run_bare(&["config", "gc.auto", "0"])?;
        Ok(upstream)
    }
}

/// One repository.
#[derive(Clone, Debug)]
pub struct Upstream {
    name: String,
    bare: PathBuf,
    work: PathBuf,
}

impl Upstream {
    /// Its name, without `.git`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The bare repository.
    pub fn bare(&self) -> &Path {
        &self.bare
    }

    /// The working copy.
    pub fn work(&self) -> &Path {
        &self.work
    }

    /// `file://` address.
    pub fn file_url(&self) -> String {
        format!("file://{}", self.bare.display())
    }

    /// Runs git in the working copy and gives its output.
    pub fn run(&self, args: &[&str]) -> Result<String> {
        output(git()?.arg("-C").arg(&self.work).args(args))
    }

    /// Runs git in the bare repository and gives its output.
    pub fn run_bare(&self, args: &[&str]) -> Result<String> {
        output(git()?.arg("--git-dir").arg(&self.bare).args(args))
    }

    /// Writes a file of the working copy.
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) -> Result<()> {
        write(&self.work.join(path), content)
    }

    /// Makes a symbolic link in the working copy.
    pub fn link(&self, path: &str, target: &str) -> Result<()> {
        let path = self.work.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        symlink(target, &path).with_context(|| path.display().to_string())
    }

    /// Writes several files.
    pub fn write_all<'a>(
        &self,
        files: impl IntoIterator<Item = &'a (String, String)>,
    ) -> Result<()> {
        files
            .into_iter()
            .try_for_each(|(path, content)| self.write(path, content))
    }

    /// Commits everything in the working copy and gives the commit's id.
    pub fn commit(&self, message: &str) -> Result<String> {
        self.run(&["add", "--all"])?;
        self.run(&["commit", "--quiet", "--allow-empty", "--message", message])?;
        self.head()
    }

    /// The working copy's commit.
    pub fn head(&self) -> Result<String> {
        self.run(&["rev-parse", "HEAD"])
    }

    /// Commits everything, pushes the working copy's commit to `branch` and
    /// gives the commit's id.
    pub fn push(&self, branch: &str, message: &str) -> Result<String> {
        let commit = self.commit(message)?;
        self.run(&[
            "push",
            "--quiet",
            "origin",
            &format!("HEAD:refs/heads/{branch}"),
        ])?;
        Ok(commit)
    }

    /// Replaces `branch` by a commit without parents that holds the working
    /// copy, and drops the old history from the server.
    pub fn push_orphan(&self, branch: &str, message: &str) -> Result<String> {
        self.run(&["checkout", "--quiet", "--orphan", "replacement"])?;
        let commit = self.commit(message)?;
        self.run(&[
            "branch",
            "--quiet",
            "--force",
            "--move",
            "replacement",
            "main",
        ])?;
        self.run(&[
            "push",
            "--quiet",
            "--force",
            "origin",
            &format!("HEAD:refs/heads/{branch}"),
        ])?;
        self.run_bare(&["gc", "--quiet", "--prune=now"])?;
        Ok(commit)
    }

    /// Makes an annotated tag of the working copy's commit and pushes it.
    pub fn push_tag(&self, tag: &str) -> Result<()> {
        self.run(&["tag", "--annotate", "--message", tag, tag])?;
        self.run(&["push", "--quiet", "origin", &format!("refs/tags/{tag}")])
            .map(drop)
    }

    /// Removes a branch from the server.
    pub fn delete_branch(&self, branch: &str) -> Result<()> {
        self.run(&[
            "push",
            "--quiet",
            "origin",
            &format!(":refs/heads/{branch}"),
        ])
        .map(drop)
    }
}
