//! The real helm program, and the only place that runs it.
//!
//! One short-lived child per action, in a private environment: no plugins, no repositories,
//! nothing of ours, and nothing of the user's helm settings.

mod args;
mod environment;
mod version;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tandem_shared::child::{self, Cancel, ChildError, Limits};
use tandem_shared::lock::Guard;

use environment::Home;

pub use args::{Apply, Install, Rollback, Test, Uninstall, Upgrade};
pub use version::{HelmVersion, Major};

/// Bytes kept of each of a child's outputs.
const OUTPUT: usize = 64 * 1024;
/// `helm version` contacts nothing.
const VERSION_DEADLINE: Duration = Duration::from_secs(30);

/// How helm finds the cluster.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Cluster {
    /// As a pod does: service account token and `KUBERNETES_SERVICE_*`.
    #[default]
    InCluster,
    /// By a kubeconfig file.
    Kubeconfig(PathBuf),
}

/// A helm program that can be used.
#[derive(Clone, Debug)]
pub struct Helm {
    program: PathBuf,
    version: HelmVersion,
    cluster: Cluster,
    home: Home,
}

/// Helm can't be used, or couldn't be run.
#[derive(Debug, thiserror::Error)]
pub enum HelmError {
    /// Release records elsewhere than in Secrets can't be followed.
    #[error(
        "HELM_DRIVER is {0:?}, but only Helm's default, release records in Secrets, is \
         supported: unset HELM_DRIVER, and move releases stored elsewhere first"
    )]
    Driver(String),
    /// A version that isn't supported.
    #[error("{} is helm {version}; use helm 4, or helm 3 from 3.14 on", program.display())]
    Version {
        /// The program.
        program: PathBuf,
        /// What it says it is.
        version: String,
    },
    /// It printed something else than a version.
    #[error("{} doesn't tell its version: {output}", program.display())]
    NoVersion {
        /// The program.
        program: PathBuf,
        /// What it printed.
        output: String,
    },
    /// The private home can't be made.
    #[error("can't make a private home for helm in {}: {source}", path.display())]
    Home {
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The child couldn't be run.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// No descriptors for a child.
    #[error("can't start a helm child: {0}")]
    Start(#[from] std::io::Error),
}

/// How a helm child ended.
#[derive(Clone, Debug)]
pub struct Run {
    /// How it ended.
    pub end: child::End,
    /// The end of its standard error, not masked yet.
    pub stderr: String,
    /// How long it ran.
    pub took: Duration,
}

impl Helm {
    /// Asks the program for its version and makes it a private home in `scratch`, a
    /// directory of ours on this machine. Blocks for as long as `helm version` takes.
    ///
    /// # Errors
    /// If the program can't be run, isn't supported, or the environment asks for a storage
    /// driver that isn't.
    pub fn detect(program: &Path, cluster: Cluster, scratch: &Path) -> Result<Self, HelmError> {
        environment::check_driver(std::env::var("HELM_DRIVER").ok())?;
        let home = Home::new(scratch).map_err(|source| HelmError::Home {
            path: scratch.to_owned(),
            source,
        })?;
        let mut command = environment::command(program, &home);
        command.args(["version", "--template", "{{.Version}}"]);
        let limits = Limits {
            deadline: VERSION_DEADLINE,
            output: OUTPUT,
        };
        let outcome = child::run(command, &[], None, &limits, &Cancel::new()?)?;
        let output = String::from_utf8_lossy(&outcome.stdout).trim().to_owned();
        let version = HelmVersion::parse(&output).ok_or_else(|| HelmError::NoVersion {
            program: program.to_owned(),
            output: format!("{output} {}", outcome.stderr).trim().to_owned(),
        })?;
        if !version.is_supported() {
            return Err(HelmError::Version {
                program: program.to_owned(),
                version: output,
            });
        }
        Ok(Self {
            program: program.to_owned(),
            version,
            cluster,
            home,
        })
    }

    /// The version that was detected.
    #[must_use]
    pub fn version(&self) -> &HelmVersion {
        &self.version
    }

    /// Runs helm to its end with these arguments. Blocks its thread; `lock` is held until
    /// the child is gone.
    ///
    /// # Errors
    /// If the child can't be run. How it ended is no error.
    pub fn run(
        &self,
        arguments: &[String],
        stdin: &[u8],
        deadline: Duration,
        lock: Option<&Guard>,
        cancel: &Cancel,
    ) -> Result<Run, HelmError> {
        let mut command = self.command();
        command.args(arguments);
        let limits = Limits {
            deadline,
            output: OUTPUT,
        };
        let outcome = child::run(command, stdin, lock, &limits, cancel)?;
        Ok(Run {
            end: outcome.end,
            stderr: outcome.stderr,
            took: outcome.took,
        })
    }

    fn command(&self) -> Command {
        let mut command = environment::command(&self.program, &self.home);
        if let Cluster::Kubeconfig(path) = &self.cluster {
            command.arg("--kubeconfig").arg(path);
        }
        command
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn refusal(program: &str) -> String {
        let scratch = tempfile::tempdir().unwrap();
        let found = Helm::detect(Path::new(program), Cluster::InCluster, scratch.path());
        found.unwrap_err().to_string()
    }

    #[test]
    fn a_program_that_is_no_helm_is_refused() {
        let error = refusal("/bin/echo");
        assert!(
            error.starts_with("/bin/echo doesn't tell its version: version"),
            "{error}"
        );
        assert!(refusal("/nonexistent/helm").contains("/nonexistent/helm"));
    }

    #[test]
    fn a_home_that_can_not_be_made_is_told() {
        let found = Helm::detect(
            Path::new("helm"),
            Cluster::InCluster,
            Path::new("/nonexistent"),
        );
        let error = found.unwrap_err().to_string();
        assert!(
            error.starts_with("can't make a private home for helm in /nonexistent"),
            "{error}"
        );
    }
}
