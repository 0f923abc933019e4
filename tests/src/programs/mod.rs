//! The programs that the harness runs: Kubernetes' and etcd's, helm, and the
//! product's own two.
//!
//! What the reader already has is used; the rest is built once from the pinned
//! Go modules beside this package and kept outside the checkout, under a name
//! that changes whenever a module does.

mod cargo;
mod go;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use semver::{Version, VersionReq};

pub use cargo::{Product, product};

/// The control plane's programs, each as a program and its first arguments.
#[derive(Clone, Debug)]
pub struct ControlPlane {
    /// etcd.
    pub etcd: Invocation,
    /// kube-apiserver.
    pub apiserver: Invocation,
    /// kube-controller-manager.
    pub controllers: Invocation,
}

/// A program, perhaps with the sub-command that makes it the wanted one.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// The program's path.
    pub program: PathBuf,
    /// What comes before the caller's arguments.
    pub first: Vec<String>,
}

impl Invocation {
    fn alone(program: PathBuf) -> Self {
        Self {
            program,
            first: Vec::new(),
        }
    }

    fn of(program: &Path, command: &str) -> Self {
        Self {
            program: program.to_owned(),
            first: vec![command.to_owned()],
        }
    }
}

/// A helm program and what it says about itself.
#[derive(Clone, Debug)]
pub struct Helm {
    /// The program's path.
    pub program: PathBuf,
    /// Its version.
    pub version: Version,
}

/// etcd, kube-apiserver and kube-controller-manager: those in
/// `$KUBEBUILDER_ASSETS` where that is set, else the ones built here.
///
/// # Errors
/// When a build fails, with the end of its output.
pub fn control_plane() -> Result<ControlPlane> {
    let given = |name: &str| -> Option<PathBuf> {
        let path = Path::new(&env::var_os("KUBEBUILDER_ASSETS")?).join(name);
        path.is_file().then_some(path)
    };
    let (etcd, apiserver) = (given("etcd"), given("kube-apiserver"));
    let controllers = given("kube-controller-manager");
    if let (Some(etcd), Some(apiserver)) = (etcd, apiserver) {
        let controllers = match controllers {
            Some(program) => Invocation::alone(program),
            None => Invocation::of(&go::controlplane()?, "kube-controller-manager"),
        };
        return Ok(ControlPlane {
            etcd: Invocation::alone(etcd),
            apiserver: Invocation::alone(apiserver),
            controllers,
        });
    }
    let built = go::controlplane()?;
    Ok(ControlPlane {
        etcd: Invocation::of(&built, "etcd"),
        apiserver: Invocation::of(&built, "kube-apiserver"),
        controllers: Invocation::of(&built, "kube-controller-manager"),
    })
}

/// The git server over ssh.
///
/// # Errors
/// As [`control_plane`].
pub fn git_ssh() -> Result<Invocation> {
    Ok(Invocation::of(&go::controlplane()?, "git-ssh"))
}

/// The `helm` on `PATH` when the product supports its version, else the one
/// built here.
///
/// # Errors
/// As [`control_plane`].
pub fn helm() -> Result<Helm> {
    if let Some(found) = on_path("helm").and_then(|program| ask(&program).ok())
        && supported(&found.version)
    {
        return Ok(found);
    }
    ask(&go::helm()?)
}

/// A helm of the third major version, built here when it is first asked for.
///
/// # Errors
/// As [`control_plane`].
pub fn helm3() -> Result<Helm> {
    ask(&go::helm3()?)
}

/// An OCI registry, and the server of its tokens.
///
/// # Errors
/// As [`control_plane`].
pub fn registry() -> Result<PathBuf> {
    go::registry()
}

/// A program of that name in one of `PATH`'s folders.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

fn supported(version: &Version) -> bool {
    // The product's own limits: helm 4, or 3 from 3.14 on.
    [">=3.14.0, <4", ">=4.0.0, <5"]
        .iter()
        .any(|range| VersionReq::parse(range).is_ok_and(|range| range.matches(version)))
}

pub(crate) fn ask(program: &Path) -> Result<Helm> {
    let output = Command::new(program)
        .args(["version", "--template", "{{.Version}}"])
        .output()
        .with_context(|| format!("{} did not start", program.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let version = Version::parse(said.trim().trim_start_matches('v'))
        .with_context(|| format!("{} says {said:?} for its version", program.display()))?;
    Ok(Helm {
        program: program.to_owned(),
        version,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn supported_versions() {
        for (version, expected) in [
            ("3.13.9", false),
            ("3.14.0", true),
            ("3.22.1", true),
            ("4.0.0", true),
            ("5.0.0", false),
        ] {
            assert_eq!(
                Version::parse(version).map(|one| supported(&one)).ok(),
                Some(expected),
                "{version}"
            );
        }
    }
}
