//! The plain git commands that the sidecar is measured beside.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, ensure};
use tandem_tests::git::git;
use tandem_tests::guard;

use super::figures::{Taken, folder_bytes};
use super::wire::Wire;

/// A bare repository that plain git fetches into.
pub(crate) struct Floor {
    bare: PathBuf,
}

impl Floor {
    pub(crate) fn new() -> Result<Self> {
        let bare = guard::folder("floor")?.join("floor.git");
        run(git()?.args(["init", "--quiet", "--bare"]).arg(&bare))?;
        Ok(Self { bare })
    }

    /// `git fetch --depth 1` of `main`.
    pub(crate) fn fetch(&self, wire: &Wire, name: &str) -> Result<Taken> {
        let (before, begun) = (wire.received(), Instant::now());
        run(git()?
            .arg("--git-dir")
            .arg(&self.bare)
            .args([
                "-c",
                "gc.auto=0",
                "fetch",
                "--quiet",
                "--depth=1",
                "--no-tags",
            ])
            .arg(wire.url(name))
            .arg("+refs/heads/main:refs/heads/main"))?;
        Ok(Taken {
            seconds: begun.elapsed().as_secs_f64(),
            received: wire.received() - before,
            disk: folder_bytes(&self.bare),
        })
    }
}

/// `git ls-remote` of one ref.
pub(crate) fn ls_remote(wire: &Wire, name: &str) -> Result<Taken> {
    let (before, begun) = (wire.received(), Instant::now());
    run(git()?
        .args(["ls-remote", "--quiet"])
        .arg(wire.url(name))
        .arg("refs/heads/main"))?;
    Ok(Taken {
        seconds: begun.elapsed().as_secs_f64(),
        received: wire.received() - before,
        disk: folder_bytes(Path::new("")),
    })
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {said}");
    Ok(())
}
