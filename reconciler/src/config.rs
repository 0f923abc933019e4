//! What the flags amount to, checked.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use tandem_shared::layout::Volume;
use tandem_shared::names;
use thiserror::Error;

use crate::args::RunArgs;

/// Flags that make no sense.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// `--listen` is no address.
    #[error("--listen {0:?} is no address to listen on: write :3030, 127.0.0.1:3030 or [::1]:3030")]
    Listen(String),
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
    /// Private folder, made and emptied at the start.
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
}

impl Config {
    /// Checks the flags.
    ///
    /// # Errors
    /// Names the flag that makes no sense.
    pub fn new(args: &RunArgs) -> Result<Self, ConfigError> {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        // Helm children have another working directory.
        let volume = std::path::absolute(&args.volume).unwrap_or_else(|_| args.volume.clone());
        Ok(Self {
            volume: Volume::at(&volume),
            credentials: args.credentials.clone(),
            helm: args.helm.clone(),
            // One per volume unless named: the lock of the volume then guards it as well.
            work: args.work_dir.clone().unwrap_or_else(|| {
                let id = names::short_hex(&[volume.as_os_str().as_encoded_bytes()]);
                std::env::temp_dir().join(format!("tandem-reconciler-{id}"))
            }),
            kubeconfig: args.kubeconfig.clone(),
            namespace: some(&args.allow_namespace),
            workers: usize::from(args.workers),
            resync: args.charts_sync_interval,
            sources: SourceDefaults {
                interval: args.git_poll_interval,
                timeout: args.git_timeout,
                reference: args.git_default_ref.as_deref().and_then(some),
            },
            listen: address(&args.listen)
                .ok_or_else(|| ConfigError::Listen(args.listen.clone()))?,
        })
    }
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
    use super::*;

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
