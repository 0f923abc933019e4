//! The product's two processes, run as a kubelet runs two containers.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use axum::http::Method;
use rustix::process::Signal;

use crate::daemon::{Daemon, Recipe};
use crate::metrics::Metrics;
use crate::mounts::{Available, Mount};
use crate::volume::Volume;
use crate::wait::{LONG, Look, until, until_blocking};
use crate::{git, guard, http_client, programs};

/// How long a process may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(30);

/// One of the two processes.
pub struct Role {
    recipe: Recipe,
    logs: PathBuf,
    daemon: Option<Daemon>,
    pid: u32,
    address: String,
}

/// How the processes are started beside what every start needs.
#[derive(Clone, Debug, Default)]
pub struct Extra {
    /// More arguments.
    pub args: Vec<String>,
    /// More variables.
    pub env: Vec<(String, String)>,
    mounts: Vec<(Available, Mount)>,
}

impl Extra {
    /// Only arguments.
    pub fn args<A: Into<String>>(args: impl IntoIterator<Item = A>) -> Self {
        Self {
            args: args.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// Mounts something for the process alone.
    #[must_use]
    pub fn inside(mut self, able: Available, mount: Mount) -> Self {
        self.mounts.push((able, mount));
        self
    }

    /// Adds a variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.push((name.to_owned(), value.into()));
        self
    }
}

/// mirror-sidecar over a volume; it is up when this returns.
///
/// # Errors
/// When it ends at once; its output stands in the error.
pub fn sidecar(volume: &Volume, extra: &Extra) -> Result<Role> {
    let mut recipe = Recipe::new(
        "mirror-sidecar",
        &programs::product()?.sidecar,
        [
            "--volume".to_owned(),
            volume.path().display().to_string(),
            "--credentials".to_owned(),
            volume.credentials().display().to_string(),
            "--listen=127.0.0.1:0".to_owned(),
        ],
    );
    for (name, value) in git::environment() {
        recipe = recipe.env(name, value);
    }
    Role::start(recipe, extra)
}

/// reconciler over a volume and a cluster; it is up when this returns.
///
/// # Errors
/// As [`sidecar`].
pub fn reconciler(
    volume: &Volume,
    kubeconfig: &std::path::Path,
    helm: &std::path::Path,
    extra: &Extra,
) -> Result<Role> {
    let recipe = Recipe::new(
        "reconciler",
        &programs::product()?.reconciler,
        [
            "--volume".to_owned(),
            volume.path().display().to_string(),
            "--credentials".to_owned(),
            volume.credentials().display().to_string(),
            "--kubeconfig".to_owned(),
            kubeconfig.display().to_string(),
            "--helm".to_owned(),
            helm.display().to_string(),
            "--listen=127.0.0.1:0".to_owned(),
        ],
    );
    Role::start(recipe, extra)
}

impl Role {
    fn start(mut recipe: Recipe, extra: &Extra) -> Result<Self> {
        // Killed, a process leaves its temporary files; in a pod they go with it.
        recipe = recipe
            .env("HOME", guard::folder("home")?.display().to_string())
            .env("TMPDIR", guard::folder("tmp")?.display().to_string());
        recipe.args.extend(extra.args.iter().cloned());
        recipe.env.extend(extra.env.iter().cloned());
        for (able, mount) in &extra.mounts {
            able.wrap(&mut recipe, mount);
        }
        let mut role = Self {
            logs: guard::folder("logs")?,
            recipe,
            daemon: None,
            pid: 0,
            address: String::new(),
        };
        role.restart()?;
        Ok(role)
    }

    /// Starts it again, with the arguments of the first start; it must have
    /// ended.
    pub fn restart(&mut self) -> Result<()> {
        let before = self.log().len();
        self.daemon = None;
        let mut daemon = Daemon::start(&self.recipe, &self.logs)?;
        let name = &self.recipe.name;
        self.address = until_blocking(format!("{name} to say where it listens"), LONG, || {
            if let Some(status) = daemon.exited()? {
                bail!("{name} ended with {status}:\n{}", daemon.log_tail());
            }
            let log = daemon.log();
            let said = log
                .get(before..)
                .unwrap_or_default()
                .lines()
                .find_map(listen_field)
                .map(str::to_owned);
            Ok(Look::from_option(said, log))
        })?;
        self.pid = daemon.pid();
        self.daemon = Some(daemon);
        Ok(())
    }

    fn daemon(&mut self) -> Result<&mut Daemon> {
        self.daemon
            .as_mut()
            .with_context(|| format!("{} isn't running", self.recipe.name))
    }

    /// The process id of the last start.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Where it serves http.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its output, over all starts.
    pub fn log(&self) -> String {
        let path = self.logs.join(format!("{}.log", self.recipe.name));
        String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
    }

    /// The file that holds its output.
    pub fn log_file(&self) -> PathBuf {
        self.logs.join(format!("{}.log", self.recipe.name))
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.daemon()?.exited()?.is_none())
    }

    /// `kill -9` of the process alone: its children live on.
    pub fn kill_alone(&mut self) -> Result<()> {
        self.daemon()?.kill_alone()
    }

    /// The end of the container: the process and all that it started.
    pub fn kill(&mut self) -> Result<()> {
        self.daemon()?.kill()
    }

    /// SIGTERM, and no wait for what follows.
    pub fn ask_to_end(&mut self) -> Result<()> {
        self.daemon()?.signal(Signal::TERM)
    }

    /// SIGTERM; the exit must be a success.
    pub fn terminate(&mut self) -> Result<()> {
        let status = self.daemon()?.terminate(GRACE)?;
        if !status.success() {
            bail!("{} ended with {status} after SIGTERM", self.recipe.name);
        }
        Ok(())
    }

    /// Its metrics now.
    pub async fn metrics(&self) -> Result<Metrics> {
        Metrics::scrape(&self.address).await
    }

    /// Waits until `/readyz` answers 200.
    pub async fn ready(&self) -> Result<()> {
        let url = format!("http://{}/readyz", self.address);
        until(
            format!("{} to be ready", self.recipe.name),
            LONG,
            || async {
                let (status, text) = http_client::get(&url).await?;
                Ok(Look::when(status == 200, format!("{status} {text}")))
            },
        )
        .await
    }

    /// `POST /api/v1/sync-git`, as a webhook calls it.
    pub async fn sync_git(&self) -> Result<()> {
        let (status, text) = http_client::request(
            Method::POST,
            &format!("http://{}/api/v1/sync-git", self.address),
        )
        .await?;
        if status != 200 {
            bail!("sync-git answered {status}: {text}");
        }
        Ok(())
    }
}

/// The value of the field `listen` in a log line of either format.
fn listen_field(line: &str) -> Option<&str> {
    let (_, rest) = line
        .split_once("\"listen\":\"")
        .or_else(|| line.split_once("listen="))?;
    let value = rest
        .trim_start_matches('"')
        .split(['"', ' ', ',', '}'])
        .next()?;
    value.parse::<std::net::SocketAddr>().ok().map(|_| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_log_formats_say_where() {
        for (line, expected) in [
            ("INFO serving listen=127.0.0.1:4711", Some("127.0.0.1:4711")),
            (
                "INFO serving listen=\"127.0.0.1:1\" role=x",
                Some("127.0.0.1:1"),
            ),
            (
                r#"{"fields":{"listen":"[::1]:80","message":"serving"}}"#,
                Some("[::1]:80"),
            ),
            ("INFO args --listen=127.0.0.1:0x", None),
        ] {
            assert_eq!(listen_field(line), expected, "{line}");
        }
    }
}
