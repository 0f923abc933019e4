//! The arguments of each action. Pure: what is run can be read and tested here.
//!
//! Never among them: an atomic flag, a value, a secret.

#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

use super::Major;
use crate::crd::Target;
use crate::storage::ApplyMethod;

/// How objects are applied.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Apply {
    /// By the API server, over the changes of others.
    ServerSide,
    /// By helm.
    ClientSide,
    /// By helm, replacing objects that can't be changed.
    Replace,
}

impl Apply {
    /// How to go on with a release whose last record says `last` (`None`: a new one).
    #[must_use]
    pub fn choose(major: Major, last: Option<ApplyMethod>, force: bool) -> Self {
        match (major, last) {
            _ if force => Self::Replace,
            (Major::Four, None | Some(ApplyMethod::ServerSide)) => Self::ServerSide,
            (Major::Four, Some(ApplyMethod::ClientSide)) | (Major::Three, _) => Self::ClientSide,
        }
    }
}

/// `helm install`.
#[derive(Clone, Debug)]
pub struct Install<'a> {
    /// The release.
    pub target: &'a Target,
    /// Directory of the chart.
    pub chart: &'a Path,
    /// `key=value` for Helm's record.
    pub label: String,
    /// Helm's description of the revision, if it succeeds.
    pub description: &'a str,
    /// How objects are applied.
    pub apply: Apply,
    /// For each step.
    pub timeout: Duration,
    /// Wait for readiness.
    pub wait: bool,
    /// Leave out CRDs.
    pub skip_crds: bool,
    /// Leave out helm's own validation, wherever it is left to us.
    pub skip_validation: bool,
    /// Build on the history of an uninstalled release.
    pub replace: bool,
}

/// `helm upgrade`.
#[derive(Clone, Debug)]
pub struct Upgrade<'a> {
    /// The release.
    pub target: &'a Target,
    /// Directory of the chart.
    pub chart: &'a Path,
    /// `key=value` for Helm's record.
    pub label: String,
    /// Helm's description of the revision, if it succeeds.
    pub description: &'a str,
    /// How objects are applied.
    pub apply: Apply,
    /// For each step.
    pub timeout: Duration,
    /// Wait for readiness.
    pub wait: bool,
    /// Leave out helm's own validation, wherever it is left to us.
    pub skip_validation: bool,
    /// Start from the chart's defaults.
    pub reset_values: bool,
    /// Revisions kept; 0 keeps all.
    pub history: u32,
}

/// `helm rollback`.
#[derive(Clone, Debug)]
pub struct Rollback<'a> {
    /// The release.
    pub target: &'a Target,
    /// The revision to return to.
    pub to: i64,
    /// How objects are applied.
    pub apply: Apply,
    /// For each step.
    pub timeout: Duration,
    /// Wait for readiness.
    pub wait: bool,
    /// Run no hooks.
    pub no_hooks: bool,
    /// Restart Pods, where helm still can.
    pub recreate_pods: bool,
    /// Revisions kept; 0 keeps all.
    pub history: u32,
}

/// `helm uninstall`. It always waits until the objects are gone.
#[derive(Clone, Debug)]
pub struct Uninstall<'a> {
    /// The release.
    pub target: &'a Target,
    /// For each step.
    pub timeout: Duration,
    /// Run no hooks.
    pub no_hooks: bool,
}

/// `helm test`.
#[derive(Clone, Debug)]
pub struct Test<'a> {
    /// The release.
    pub target: &'a Target,
    /// For each test.
    pub timeout: Duration,
}

impl Install<'_> {
    /// The arguments.
    #[must_use]
    pub fn args(&self, major: Major) -> Vec<String> {
        let mut args = Args::new("install", self.target);
        args.add([self.chart.display().to_string()]);
        args.add([
            "--values".into(),
            "-".into(),
            "--labels".into(),
            self.label.clone(),
        ]);
        args.add(["--description".into(), self.description.to_owned()]);
        args.timeout(self.timeout);
        args.flag("--wait", self.wait);
        args.flag("--skip-crds", self.skip_crds);
        args.flag("--replace", self.replace);
        match (major, self.apply) {
            (Major::Four, Apply::ServerSide) => {
                args.add(["--server-side=true".into(), "--force-conflicts".into()]);
            }
            // There is nothing yet that would have to be replaced.
            (Major::Four, Apply::ClientSide | Apply::Replace) => {
                args.add(["--server-side=false".into()]);
            }
            (Major::Three, _) => {}
        }
        args.validation(self.skip_validation, self.apply);
        args.0
    }
}

impl Upgrade<'_> {
    /// The arguments.
    #[must_use]
    pub fn args(&self, major: Major) -> Vec<String> {
        let mut args = Args::new("upgrade", self.target);
        args.add([self.chart.display().to_string()]);
        args.add([
            "--values".into(),
            "-".into(),
            "--labels".into(),
            self.label.clone(),
        ]);
        args.add(["--description".into(), self.description.to_owned()]);
        let values = if self.reset_values {
            "--reset-values"
        } else {
            "--reuse-values"
        };
        args.add([values.into()]);
        args.timeout(self.timeout);
        args.history(self.history);
        args.flag("--wait", self.wait);
        args.apply(major, self.apply);
        args.validation(self.skip_validation, self.apply);
        args.0
    }
}

impl Rollback<'_> {
    /// The arguments.
    #[must_use]
    pub fn args(&self, major: Major) -> Vec<String> {
        let mut args = Args::new("rollback", self.target);
        args.add([self.to.to_string()]);
        args.timeout(self.timeout);
        args.history(self.history);
        args.flag("--wait", self.wait);
        args.flag("--no-hooks", self.no_hooks);
        args.flag(
            "--recreate-pods",
            self.recreate_pods && major == Major::Three,
        );
        args.apply(major, self.apply);
        args.0
    }
}

impl Uninstall<'_> {
    /// The arguments.
    #[must_use]
    pub fn args(&self) -> Vec<String> {
        let mut args = Args::new("uninstall", self.target);
        args.timeout(self.timeout);
        args.flag("--wait", true);
        args.flag("--no-hooks", self.no_hooks);
        args.0
    }
}

impl Test<'_> {
    /// The arguments.
    #[must_use]
    pub fn args(&self) -> Vec<String> {
        let mut args = Args::new("test", self.target);
        args.timeout(self.timeout);
        args.0
    }
}

struct Args(Vec<String>);

impl Args {
    fn new(command: &str, target: &Target) -> Self {
        let namespace = ["--namespace".to_owned(), target.namespace.clone()];
        let mut args = Self(vec![command.to_owned(), target.name.clone()]);
        args.add(namespace);
        args
    }

    fn add<const N: usize>(&mut self, more: [String; N]) {
        self.0.extend(more);
    }

    fn flag(&mut self, flag: &str, set: bool) {
        if set {
            self.0.push(flag.to_owned());
        }
    }

    fn timeout(&mut self, timeout: Duration) {
        self.add(["--timeout".into(), format!("{}s", timeout.as_secs().max(1))]);
    }

    fn history(&mut self, kept: u32) {
        self.add(["--history-max".into(), kept.to_string()]);
    }

    fn apply(&mut self, major: Major, apply: Apply) {
        match (major, apply) {
            (Major::Four, Apply::ServerSide) => {
                self.add(["--server-side=true".into(), "--force-conflicts".into()]);
            }
            (Major::Four, Apply::ClientSide) => self.add(["--server-side=false".into()]),
            (Major::Four, Apply::Replace) => {
                self.add(["--server-side=false".into(), "--force-replace".into()]);
            }
            (Major::Three, Apply::Replace) => self.add(["--force".into()]),
            (Major::Three, _) => {}
        }
    }

    /// Under server-side apply the API server checks every field itself; helm's download of
    /// its schema checks nothing and costs two thirds of helm's time.
    fn validation(&mut self, skip: bool, apply: Apply) {
        self.flag(
            "--disable-openapi-validation",
            skip || apply == Apply::ServerSide,
        );
    }
}
