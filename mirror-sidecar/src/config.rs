//! What the command line amounts to, checked.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tandem_shared::artifact::Limits;
use tandem_shared::layout::Volume;
use thiserror::Error;

use crate::address::Scheme;
use crate::args::Args;
use crate::credentials::{Netrc, NetrcError};

/// How the sidecar runs.
#[derive(Clone, Debug)]
pub struct Config {
    /// The folder that holds both mounts.
    pub root: PathBuf,
    /// The two mounts.
    pub volume: Volume,
    /// The credentials volume, if there is one.
    pub credentials: Option<PathBuf>,
    /// Where the HTTP endpoints are.
    pub listen: SocketAddr,
    /// The git program.
    pub git: PathBuf,
    /// The helm program.
    pub helm: PathBuf,
    /// This program, which git asks for passwords.
    pub askpass: PathBuf,
    /// The operator's private key for ssh.
    pub ssh_key: Option<PathBuf>,
    /// The host keys that the operator trusts.
    pub known_hosts: Option<PathBuf>,
    /// The operator's user names and passwords by host.
    pub netrc: Option<PathBuf>,
    /// Address schemes that are accepted.
    pub schemes: BTreeSet<Scheme>,
    /// Registries that are asked in the clear, as `host:port`.
    pub plain_registries: BTreeSet<String>,
    /// How long what nothing asks for stays.
    pub grace: Duration,
    /// How often everything is looked at again.
    pub rescan: Duration,
    /// How long the role lock is waited for.
    pub lock_wait: Duration,
    /// Sources worked on at once.
    pub concurrent: usize,
    /// What one artifact may amount to.
    pub limits: Limits,
    /// Bytes that the volume may hold.
    pub volume_limit: Option<u64>,
}

/// A command line that can't be followed.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// An unknown address scheme.
    #[error("--schemes: `{0}` is none of file, git, http, https, ssh")]
    Scheme(String),
    /// No host.
    #[error(
        "--plain-http-registries: `{0}` is no host with or without a port, such as localhost:5000"
    )]
    Registry(String),
    /// A number that must not be zero.
    #[error("{0} must be at least 1")]
    Zero(&'static str),
    /// This program's own file can't be found.
    #[error("can't tell where this program's file is, which git needs to ask for passwords: {0}")]
    Program(std::io::Error),
    /// A netrc file that isn't one.
    #[error("--netrc-file {}: {why}", path.display())]
    Netrc {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        why: NetrcError,
    },
    /// A file that was named isn't there.
    #[error("{option}: can't read {}: {source}", path.display())]
    File {
        /// The option.
        option: &'static str,
        /// The path.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}

impl TryFrom<Args> for Config {
    type Error = ConfigError;

    fn try_from(args: Args) -> Result<Self, ConfigError> {
        let schemes = args
            .schemes
            .iter()
            .map(|word| {
                Scheme::from_str(word.trim()).map_err(|()| ConfigError::Scheme(word.clone()))
            })
            .collect::<Result<_, _>>()?;
        let registry = |word: &String| {
            let host = word.trim().to_ascii_lowercase();
            let sound = !host.is_empty() && !host.contains(['/', '@', ' ']);
            sound
                .then_some(host)
                .ok_or_else(|| ConfigError::Registry(word.clone()))
        };
        let plain_registries = args.plain_http_registries.iter().map(registry);
        let plain_registries = plain_registries.collect::<Result<_, _>>()?;
        if args.max_concurrent == 0 {
            return Err(ConfigError::Zero("--max-concurrent"));
        }
        if args.rescan_interval.is_zero() {
            return Err(ConfigError::Zero("--rescan-interval"));
        }
        // git and helm run in other folders, so no path may be relative.
        let absolute = |option, path: PathBuf| {
            std::path::absolute(&path).map_err(|source| ConfigError::File {
                option,
                path,
                source,
            })
        };
        let readable = |option, path: Option<PathBuf>| {
            let Some(path) = path else { return Ok(None) };
            // Opened once, so that a wrong mount is told at the start and not at the first fetch.
            match std::fs::File::open(&path) {
                Ok(_) => absolute(option, path).map(Some),
                Err(source) => Err(ConfigError::File {
                    option,
                    path,
                    source,
                }),
            }
        };
        let netrc = readable("--netrc-file", args.netrc_file)?;
        if let Some(path) = &netrc {
            Netrc::read(path).map_err(|why| ConfigError::Netrc {
                path: path.clone(),
                why,
            })?;
        }
        let root = absolute("--volume", args.volume)?;
        // What is no mere name lies where it says.
        let program = |option, path: PathBuf| match path.components().count() {
            0 | 1 => Ok(path),
            _ => absolute(option, path),
        };
        Ok(Self {
            volume: Volume::at(&root),
            root,
            credentials: args
                .credentials
                .map(|path| absolute("--credentials", path))
                .transpose()?,
            listen: args.listen,
            git: program("--git", args.git)?,
            helm: program("--helm", args.helm)?,
            askpass: std::env::current_exe().map_err(ConfigError::Program)?,
            ssh_key: readable("--ssh-key-file", args.ssh_key_file)?,
            known_hosts: readable("--ssh-known-hosts-file", args.ssh_known_hosts_file)?,
            netrc,
            schemes,
            plain_registries,
            grace: args.grace.unsigned_abs(),
            rescan: args.rescan_interval.unsigned_abs(),
            lock_wait: args.lock_wait.unsigned_abs(),
            concurrent: args.max_concurrent,
            limits: Limits {
                bytes: args.max_chart_bytes,
                entries: args.max_chart_files,
            },
            volume_limit: args.volume_limit,
        })
    }
}
