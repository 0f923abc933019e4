//! The product's two binaries, as cargo builds them for this very run.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use crate::progress::Step;

/// The binaries of one build.
#[derive(Clone, Debug)]
pub struct Product {
    /// `mirror-sidecar`.
    pub sidecar: PathBuf,
    /// `reconciler`.
    pub reconciler: PathBuf,
}

/// Builds both binaries, in the profile of the calling program and once per
/// process, and says where they are.
///
/// # Errors
/// When cargo fails; what the compiler said has gone to standard error.
pub fn product() -> Result<Product> {
    // A failure is kept as well: every test of a binary would meet it again.
    static BUILT: OnceLock<Result<Product, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| build().map_err(|error| format!("{error:#}")));
    built.clone().map_err(|error| anyhow!(error))
}

fn build() -> Result<Product> {
    let step = Step::start("mirror-sidecar and reconciler");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    let mut command = Command::new(cargo);
    command
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .args([
            "build",
            "--quiet",
            "--package=mirror-sidecar",
            "--package=reconciler",
            // Named too, so that dependencies have the features that they were just built
            // with; alone, the two would have them all built again.
            "--package=tandem-tests",
            "--bins",
        ])
        .arg("--message-format=json-render-diagnostics")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let output = command.output().context("cargo did not start")?;
    if !output.status.success() {
        bail!("cargo could not build mirror-sidecar and reconciler; its messages stand above");
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let product = Product {
        sidecar: executable(&messages, "mirror-sidecar")?,
        reconciler: executable(&messages, "reconciler")?,
    };
    step.done("");
    Ok(product)
}

fn executable(messages: &str, name: &str) -> Result<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| {
            message["reason"] == "compiler-artifact" && message["target"]["name"] == name
        })
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .with_context(|| format!("cargo names no executable {name}"))
}
