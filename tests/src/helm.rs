//! helm, as a person at a terminal uses it beside the product.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::{guard, programs};

/// helm with one cluster and a home of its own.
#[derive(Clone, Debug)]
pub struct Helm {
    program: PathBuf,
    kubeconfig: PathBuf,
    home: PathBuf,
}

/// One line of `helm history`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Revision {
    /// Its number.
    pub revision: u32,
    /// `deployed`, `superseded`, `failed`, …
    pub status: String,
    /// What helm says about it.
    pub description: String,
}

impl Helm {
    /// The default helm.
    pub fn new(kubeconfig: &Path) -> Result<Self> {
        Self::with(programs::helm()?.program, kubeconfig)
    }

    /// A given helm.
    pub fn with(program: PathBuf, kubeconfig: &Path) -> Result<Self> {
        Ok(Self {
            program,
            kubeconfig: kubeconfig.to_owned(),
            home: guard::folder("helm-home")?,
        })
    }

    /// The program's path.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// helm with arguments, ready to start.
    pub fn command(&self, namespace: &str, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(args)
            .args(["--namespace", namespace, "--kubeconfig"])
            .arg(&self.kubeconfig)
            .env("HOME", &self.home)
            .stdin(Stdio::null());
        command
    }

    /// Runs helm to its end.
    pub fn run(&self, namespace: &str, args: &[&str]) -> Result<Output> {
        self.command(namespace, args)
            .output()
            .context("helm did not start")
    }

    /// Runs helm, which must succeed; gives its standard output.
    pub fn ok(&self, namespace: &str, args: &[&str]) -> Result<String> {
        let output = self.run(namespace, args)?;
        if !output.status.success() {
            bail!(
                "helm {}: {}",
                args.join(" "),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// The revisions that Helm keeps, oldest first; none when there is no
    /// release.
    pub fn history(&self, namespace: &str, release: &str) -> Result<Vec<Revision>> {
        let output = self.run(
            namespace,
            &["history", release, "--output", "json", "--max", "1000"],
        )?;
        if output.status.success() {
            return Ok(serde_json::from_slice(&output.stdout)?);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("not found") {
            return Ok(Vec::new());
        }
        bail!("helm history {release}: {said}");
    }

    /// `(revision, status)` of every revision, oldest first.
    pub fn revisions(&self, namespace: &str, release: &str) -> Result<Vec<(u32, String)>> {
        Ok(self
            .history(namespace, release)?
            .into_iter()
            .map(|one| (one.revision, one.status))
            .collect())
    }

    /// The state of every revision; all that there ever were, from the first one on.
    pub fn states(&self, namespace: &str, release: &str) -> Result<Vec<String>> {
        let history = self.revisions(namespace, release)?;
        let numbered = history.iter().zip(1..).all(|(one, number)| one.0 == number);
        ensure!(numbered, "not from the first one on: {history:?}");
        Ok(history.into_iter().map(|(_, state)| state).collect())
    }

    /// The names of the releases in a namespace, in any state.
    pub fn list(&self, namespace: &str) -> Result<Vec<String>> {
        #[derive(Deserialize)]
        struct Listed {
            name: String,
        }
        let mut args = vec!["list", "--output", "json", "--max", "0"];
        // helm 4 lists every state by itself and doesn't know the flag.
        if programs::ask(&self.program)?.version.major == 3 {
            args.push("--all");
        }
        let listed: Vec<Listed> = serde_json::from_str(&self.ok(namespace, &args)?)?;
        Ok(listed.into_iter().map(|one| one.name).collect())
    }

    /// The values that a user gave to the newest revision.
    pub fn values(&self, namespace: &str, release: &str) -> Result<serde_json::Value> {
        Ok(serde_json::from_str(&self.ok(
            namespace,
            &["get", "values", release, "--output", "json"],
        )?)?)
    }
}
