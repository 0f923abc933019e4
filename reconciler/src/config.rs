//! What the flags amount to, checked.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tandem_shared::layout::Volume;
use tandem_shared::names;
use thiserror::Error;

use crate::args::RunArgs;

/// Flags that make no sense.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// An address to listen on is none.
    #[error("{0} {1:?} is no address to listen on: write :3030, 127.0.0.1:3030 or [::1]:3030")]
    Listen(&'static str, String),
    /// Nobody would ask for the secrets.
    #[error("--webhook-secret-file has no effect without --webhook-listen; give both")]
    NoWebhooks,
}

/// Everything that a running reconciler needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// Both mounts.
    pub volume: Volume,
    /// Folder of the credentials volume, if there is one.
    pub credentials: Option<PathBuf>,
    /// The helm program.
    pub helm: PathBuf,
    /// Private folder, made at the start, removed at the end; nobody else's.
    pub work: PathBuf,
    /// Kubeconfig, if one was named.
    pub kubeconfig: Option<PathBuf>,
    /// The one namespace that is looked at, or all.
    pub namespace: Option<String>,
    /// Helm programs at the same time, at least one.
    pub workers: usize,
    /// Time between looks at everything.
    pub resync: Duration,
    /// What HelmReleases leave to the operator about their sources.
    pub sources: SourceDefaults,
    /// Where HTTP is served.
    pub listen: SocketAddr,
    /// How webhooks are received, if they are.
    pub webhooks: Option<Webhooks>,
}

/// How webhooks are received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhooks {
    /// Where.
    pub listen: SocketAddr,
    /// The file with the secrets; without one, all are refused.
    pub secret_file: Option<PathBuf>,
}

/// What HelmReleases leave to the operator about their sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceDefaults {
    /// Time between checks of a source.
    pub interval: Duration,
    /// Time that one exchange may take.
    pub timeout: Duration,
    /// The ref where none is named; `None` is the remote's HEAD.
    pub reference: Option<String>,
    /// Whether every chart's dependencies are taken as they lie in its `charts`.
    pub skip_dependencies: bool,
    /// Whether HelmReleases may name objects of their own namespace alone.
    pub own_namespace_alone: bool,
}

impl Config {
    /// Checks the flags.
    ///
    /// # Errors
    /// Names the flag that makes no sense.
    pub fn new(args: &RunArgs) -> Result<Self, ConfigError> {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let volume = absolute(&args.volume);
        let id = names::short_hex(&[volume.as_os_str().as_encoded_bytes()]);
        // A plain name is looked up in PATH.
        let is_path = args.helm.components().count() > 1;
        Ok(Self {
            volume: Volume::at(&volume),
            credentials: args.credentials.clone(),
            helm: if is_path {
                absolute(&args.helm)
            } else {
                args.helm.clone()
            },
            // One per volume: the lock of the volume guards it as well.
            work: args
                .work_dir
                .as_deref()
                .map_or_else(std::env::temp_dir, absolute)
                .join(format!("tandem-reconciler-{id}")),
            kubeconfig: args.kubeconfig.clone(),
            namespace: some(&args.allow_namespace),
            workers: usize::from(args.workers),
            resync: args.charts_sync_interval,
            sources: SourceDefaults {
                interval: args.git_poll_interval,
                timeout: args.git_timeout,
                reference: args.git_default_ref.as_deref().and_then(some),
                skip_dependencies: !args.update_chart_deps,
                own_namespace_alone: args.no_cross_namespace_refs,
            },
            listen: listen("--listen", &args.listen)?,
            webhooks: webhooks(args)?,
        })
    }
}

/// Helm children have another working directory.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn webhooks(args: &RunArgs) -> Result<Option<Webhooks>, ConfigError> {
    let secret_file = args.webhook_secret_file.clone();
    match args
        .webhook_listen
        .as_deref()
        .filter(|text| !text.is_empty())
    {
        Some(text) => Ok(Some(Webhooks {
            listen: listen("--webhook-listen", text)?,
            secret_file,
        })),
        None if secret_file.is_some() => Err(ConfigError::NoWebhooks),
        None => Ok(None),
    }
}

fn listen(flag: &'static str, text: &str) -> Result<SocketAddr, ConfigError> {
    address(text).ok_or_else(|| ConfigError::Listen(flag, text.to_owned()))
}

/// `:port` means every address, as in Go programs.
fn address(text: &str) -> Option<SocketAddr> {
    if let Some(port) = text.strip_prefix(':') {
        return Some(SocketAddr::new(
            IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            port.parse().ok()?,
        ));
    }
    text.to_socket_addrs().ok()?.next()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::Parser;

    use super::*;
    use crate::args::Args;

    #[test]
    fn children_find_what_was_named_relative_to_us() {
        let flags = "r --volume v --work-dir w --helm ./h";
        let args = Args::parse_from(flags.split(' ')).run.unwrap();
        let config = Config::new(&args).unwrap();
        assert!(config.helm.is_absolute());
        // Whatever else is in the folder stays there.
        assert!(config.work.parent().unwrap().ends_with("w"));
        let args = Args::parse_from(["r", "--volume", "v"]).run.unwrap();
        assert_eq!(Config::new(&args).unwrap().helm, PathBuf::from("helm"));
    }

    #[test]
    fn webhooks_are_received_only_where_it_is_said() {
        let config = |flags: &str| {
            let args = ["r", "--volume", "v"].into_iter();
            let args = Args::parse_from(args.chain(flags.split_whitespace()));
            Config::new(&args.run.unwrap()).map(|config| config.webhooks)
        };
        assert_eq!(config("").unwrap(), None);
        assert_eq!(config("--webhook-listen=").unwrap(), None);
        let told = config("--webhook-listen=nowhere").unwrap_err().to_string();
        assert!(told.starts_with("--webhook-listen"), "{told}");
        let told = config("--webhook-secret-file=s").unwrap_err().to_string();
        assert!(told.contains("--webhook-listen"), "{told}");
        let webhooks = config("--webhook-listen=127.0.0.1:0 --webhook-secret-file=s").unwrap();
        let webhooks = webhooks.unwrap();
        assert_eq!(webhooks.listen, "127.0.0.1:0".parse().unwrap());
        assert_eq!(webhooks.secret_file, Some("s".into()));
    }

    #[test]
    fn addresses_read_as_in_go() {
        assert_eq!(address(":3030"), "[::]:3030".parse().ok());
        assert_eq!(address("127.0.0.1:0"), "127.0.0.1:0".parse().ok());
        assert_eq!(address("[::1]:80"), "[::1]:80".parse().ok());
        for bad in ["", ":", "3030", ":x", ":99999"] {
            assert_eq!(address(bad), None, "{bad}");
        }
    }
}
