//! Repositories to fetch charts from, and real servers in front of them.

mod cgi;
mod daemon;
mod files;
mod github;
mod http;
mod signer;
mod ssh;
mod upstream;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::guard;

pub use daemon::GitDaemon;
pub use github::{AppKey, Stated, TokenServer};
pub use http::{HttpServer, Knobs, Request, Scheme};
pub use signer::Signer;
pub use ssh::SshServer;
pub use upstream::{Upstream, Upstreams};

/// Variables that keep git from reading anything of the machine or the user,
/// and make commits that look the same everywhere.
pub fn environment() -> Vec<(&'static str, &'static str)> {
    vec![
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_SYSTEM", "/dev/null"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_AUTHOR_NAME", "Ada Test"),
        ("GIT_AUTHOR_EMAIL", "ada@example.org"),
        ("GIT_COMMITTER_NAME", "Ada Test"),
        ("GIT_COMMITTER_EMAIL", "ada@example.org"),
        ("LC_ALL", "C"),
    ]
}

/// git with nothing of the user's own configuration, credentials or agent.
pub fn git() -> Result<Command> {
    let mut command = Command::new("git");
    command
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .env("HOME", home()?)
        .envs(environment())
        .stdin(Stdio::null());
    Ok(command)
}

fn home() -> Result<PathBuf> {
    static HOME: std::sync::Mutex<Option<PathBuf>> = std::sync::Mutex::new(None);
    let mut home = HOME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if home.is_none() {
        *home = Some(guard::folder("home")?);
    }
    home.clone().context("no home")
}

/// Runs a prepared command and gives its standard output without the last newline.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("{command:?} did not start"))?;
    if !output.status.success() {
        bail!(
            "{command:?}: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
}
