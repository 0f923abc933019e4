//! Builds the Go modules beside this package, once for all checkouts and all
//! parallel suites of this user.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use super::on_path;
use crate::progress::Step;

/// A program of a Go module.
struct Target {
    /// The module's folder below this package.
    module: &'static str,
    /// The program's file name in the cache.
    program: &'static str,
    /// The package that go builds.
    package: &'static str,
    /// Module and variable prefixes whose version is linked in: Go programs
    /// built outside their release process don't know their version, and
    /// clients fail to read what they say instead.
    versions: &'static [(&'static str, &'static str, VersionStyle)],
    /// What the reader is told on the first build.
    notice: &'static str,
}

enum VersionStyle {
    /// `<prefix>.version`.
    Helm,
    /// `<prefix>.gitVersion`, `.gitMajor` and `.gitMinor`.
    Kubernetes,
}

pub(super) fn controlplane() -> Result<PathBuf> {
    build(&Target {
        module: "controlplane",
        program: "controlplane",
        package: ".",
        versions: &[(
            "k8s.io/kubernetes",
            "k8s.io/component-base/version",
            VersionStyle::Kubernetes,
        )],
        notice: "etcd, kube-apiserver and kube-controller-manager: first build, about 8 minutes on two cores",
    })
}

pub(super) fn helm() -> Result<PathBuf> {
    build(&Target {
        module: "controlplane",
        program: "helm",
        package: "helm.sh/helm/v4/cmd/helm",
        versions: &[(
            "helm.sh/helm/v4",
            "helm.sh/helm/v4/internal/version",
            VersionStyle::Helm,
        )],
        notice: "helm 4: first build",
    })
}

pub(super) fn helm3() -> Result<PathBuf> {
    build(&Target {
        module: "helm3",
        program: "helm3",
        package: "helm.sh/helm/v3/cmd/helm",
        versions: &[(
            "helm.sh/helm/v3",
            "helm.sh/helm/v3/internal/version",
            VersionStyle::Helm,
        )],
        notice: "helm 3: first build, about 3 minutes on two cores",
    })
}

pub(super) fn registry() -> Result<PathBuf> {
    build(&Target {
        module: "registry",
        program: "registry",
        package: ".",
        versions: &[],
        notice: "an OCI registry: first build, about a minute on two cores",
    })
}

/// `$TANDEM_CACHE`, else `tandem` in the user's cache folder.
fn cache() -> Result<PathBuf> {
    if let Some(given) = env::var_os("TANDEM_CACHE") {
        return Ok(PathBuf::from(given));
    }
    let base = match (env::var_os("XDG_CACHE_HOME"), env::var_os("HOME")) {
        (Some(base), _) if Path::new(&base).is_absolute() => PathBuf::from(base),
        (_, Some(home)) => Path::new(&home).join(".cache"),
        _ => bail!("no folder for built programs: set TANDEM_CACHE, XDG_CACHE_HOME or HOME"),
    };
    Ok(base.join("tandem"))
}

fn build(target: &Target) -> Result<PathBuf> {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join(target.module);
    let folder = cache()?.join(format!("{}-{}", target.module, key(&module)?));
    let program = folder.join(target.program);
    if program.is_file() {
        return Ok(program);
    }
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let lock = File::create(folder.join("build.lock"))?;
    if lock.try_lock().is_err() {
        let waiting = Step::start(format!("{} (another process builds it)", target.notice));
        lock.lock()?;
        waiting.done("");
    }
    if program.is_file() {
        return Ok(program);
    }
    let step = Step::start(target.notice);
    let new = folder.join(format!("{}.{}.new", target.program, std::process::id()));
    let result = go_build(target, &module, &new);
    if let Err(error) = result {
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    fs::rename(&new, &program)?;
    step.done(format!("kept in {}", folder.display()));
    Ok(program)
}

fn go_build(target: &Target, module: &Path, out: &Path) -> Result<()> {
    let go = on_path("go").context(
        "go is not on PATH: install Go from https://go.dev/dl, or set KUBEBUILDER_ASSETS to a folder with etcd, \
         kube-apiserver and kube-controller-manager and put helm on PATH",
    )?;
    let output = Command::new(go)
        .current_dir(module)
        .args([
            "build",
            "-trimpath",
            "-ldflags",
            &linker_flags(target, module)?,
            "-o",
        ])
        .arg(out)
        .arg(target.package)
        .output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let tail: Vec<&str> = said.lines().rev().take(20).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        bail!(
            "go build of {} in {} failed:\n{}",
            target.program,
            module.display(),
            tail.join("\n")
        );
    }
    Ok(())
}

fn linker_flags(target: &Target, module: &Path) -> Result<String> {
    let listing = fs::read_to_string(module.join("go.mod"))?;
    let mut flags = "-s -w".to_owned();
    for (required, prefix, style) in target.versions {
        let version = required_version(&listing, required)
            .with_context(|| format!("{}/go.mod doesn't require {required}", module.display()))?;
        match style {
            VersionStyle::Helm => flags += &format!(" -X {prefix}.version={version}"),
            VersionStyle::Kubernetes => {
                let mut parts = version.trim_start_matches('v').split('.');
                let (major, minor) = (
                    parts.next().unwrap_or_default(),
                    parts.next().unwrap_or_default(),
                );
                flags += &format!(
                    " -X {prefix}.gitVersion={version} -X {prefix}.gitMajor={major} -X {prefix}.gitMinor={minor}"
                );
            }
        }
    }
    Ok(flags)
}

fn required_version<'a>(go_mod: &'a str, module: &str) -> Option<&'a str> {
    go_mod.lines().find_map(|line| {
        let line = line.trim().trim_start_matches("require ").trim();
        let version = line.strip_prefix(module)?.strip_prefix(' ')?;
        version
            .split_whitespace()
            .next()
            .filter(|word| word.starts_with('v'))
    })
}

/// A digest of everything of the module that decides what is built.
fn key(module: &Path) -> Result<String> {
    let mut files: Vec<PathBuf> = fs::read_dir(module)
        .with_context(|| module.display().to_string())?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.extension()
                .is_some_and(|ending| ["go", "mod", "sum"].iter().any(|one| ending == *one))
        })
        .collect();
    files.sort();
    let mut digest = Sha256::new();
    digest.update(env::consts::ARCH);
    for file in files {
        let content = fs::read(&file)?;
        digest.update(
            file.file_name()
                .map(|name| name.as_encoded_bytes())
                .unwrap_or_default(),
        );
        digest.update(content.len().to_le_bytes());
        digest.update(content);
    }
    let mut key = HEXLOWER.encode(&digest.finalize());
    key.truncate(16);
    Ok(key)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn versions_come_from_go_mod() {
        let listing = "module x\n\nrequire a.b/c/v4 v4.3.1\n\nrequire (\n\ta.b/c v1.37.2\n\tz v0.1.0 // indirect\n)\n";
        assert_eq!(required_version(listing, "a.b/c/v4"), Some("v4.3.1"));
        assert_eq!(required_version(listing, "a.b/c"), Some("v1.37.2"));
        assert_eq!(required_version(listing, "z"), Some("v0.1.0"));
        assert_eq!(required_version(listing, "y"), None);
    }

    #[test]
    fn the_pinned_modules_name_their_versions() {
        let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("controlplane");
        let listing = fs::read_to_string(module.join("go.mod")).unwrap();
        for required in ["k8s.io/kubernetes", "helm.sh/helm/v4"] {
            assert!(required_version(&listing, required).is_some(), "{required}");
        }
        assert_eq!(key(&module).unwrap().len(), 16);
    }
}
