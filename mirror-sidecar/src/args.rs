//! The command line, as it is typed. [`crate::config`] makes sense of it.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use jiff::SignedDuration;

/// Brings charts from git and Helm repositories and OCI registries, and values files
/// from URLs, onto a volume.
///
/// Reads what is wanted from wanted/requests and serves it below
/// served: one manifest per source (what each ref stands for, what
/// there is, and why something is missing) and one tar per chart, named by its
/// content. It needs no Kubernetes: a request file written by hand works.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
pub struct Args {
    /// The folder with `wanted/` (read only for this process) and `served/`.
    #[arg(long, env = "MIRROR_VOLUME", value_name = "DIR")]
    pub volume: PathBuf,

    /// The folder with the credentials that requests name, one folder each.
    /// Without it every request that names one waits.
    #[arg(long, env = "MIRROR_CREDENTIALS", value_name = "DIR")]
    pub credentials: Option<PathBuf>,

    /// Where /healthz, /readyz and /metrics are served. Port 0 takes a free one.
    #[arg(
        long,
        env = "MIRROR_LISTEN",
        default_value = "127.0.0.1:3031",
        value_name = "ADDRESS"
    )]
    pub listen: SocketAddr,

    /// The git program. It needs 2.31 or newer; ssh is taken from PATH.
    #[arg(long, env = "MIRROR_GIT", default_value = "git", value_name = "PATH")]
    pub git: PathBuf,

    /// The helm program (4, or 3 from 3.14 on), which downloads the dependencies of
    /// charts from git. Where no chart has any, none is needed.
    #[arg(long, env = "MIRROR_HELM", default_value = "helm", value_name = "PATH")]
    pub helm: PathBuf,

    /// A private key for ssh sources whose request names no credential. It is
    /// read anew at every use, and so are the host keys.
    #[arg(long, env = "MIRROR_SSH_KEY_FILE", value_name = "PATH")]
    pub ssh_key_file: Option<PathBuf>,

    /// The host keys that are trusted, for sources without `known_hosts` in
    /// their credential. Unknown hosts are refused.
    #[arg(long, env = "MIRROR_SSH_KNOWN_HOSTS_FILE", value_name = "PATH")]
    pub ssh_known_hosts_file: Option<PathBuf>,

    /// A netrc file with user names and passwords by host, for http sources whose
    /// request names no credential and whose URL holds none. It is read anew at
    /// every use. `default` entries are refused.
    #[arg(long, env = "MIRROR_NETRC_FILE", value_name = "PATH")]
    pub netrc_file: Option<PathBuf>,

    /// The kinds of addresses that are accepted. `file` reads repositories of
    /// this machine (never the volume's own); leave it out where people that
    /// you don't trust with that write HelmReleases. Files behind URLs come over
    /// `http` and `https`.
    #[arg(
        long,
        env = "MIRROR_SCHEMES",
        default_value = "file,git,http,https,ssh",
        value_delimiter = ',',
        value_name = "SCHEME"
    )]
    pub schemes: Vec<String>,

    /// Registries that are asked over http, which everybody on the way can read: host and
    /// port as in their `oci://` URLs, also in those of charts' dependencies. All others are
    /// asked over https.
    #[arg(
        long,
        env = "MIRROR_PLAIN_HTTP_REGISTRIES",
        value_delimiter = ',',
        value_name = "HOST"
    )]
    pub plain_http_registries: Vec<String>,

    /// How long mirrors, manifests and artifacts stay once nothing asks for them.
    #[arg(long, env = "MIRROR_GRACE", default_value = "15m", value_parser = duration, value_name = "DURATION")]
    pub grace: SignedDuration,

    /// How often all requests are read again, should a change notice get lost.
    #[arg(long, env = "MIRROR_RESCAN_INTERVAL", default_value = "1m", value_parser = duration, value_name = "DURATION")]
    pub rescan_interval: SignedDuration,

    /// How long another live mirror-sidecar on this volume is waited for.
    #[arg(long, env = "MIRROR_LOCK_WAIT", default_value = "30s", value_parser = duration, value_name = "DURATION")]
    pub lock_wait: SignedDuration,

    /// Sources that are worked on at the same time; four times as many may be
    /// waiting for a remote's answer. New and failing ones have places of their
    /// own, so that they never delay the others.
    #[arg(
        long,
        env = "MIRROR_MAX_CONCURRENT",
        default_value_t = 4,
        value_name = "N"
    )]
    pub max_concurrent: usize,

    /// Bytes of all files of one chart, at most.
    #[arg(long, env = "MIRROR_MAX_CHART_BYTES", default_value_t = 64 * 1024 * 1024, value_name = "BYTES")]
    pub max_chart_bytes: u64,

    /// Files of one chart, at most.
    #[arg(
        long,
        env = "MIRROR_MAX_CHART_FILES",
        default_value_t = 20_000,
        value_name = "N"
    )]
    pub max_chart_files: usize,

    /// Bytes that the volume may hold (an emptyDir's sizeLimit). From 80 % of
    /// it on nothing more is fetched, since passing it would evict the pod.
    #[arg(long, env = "MIRROR_VOLUME_LIMIT", value_name = "BYTES")]
    pub volume_limit: Option<u64>,

    /// How log lines look. Which ones are shown: RUST_LOG, such as `debug`.
    #[arg(
        long,
        env = "MIRROR_LOG_FORMAT",
        default_value = "fmt",
        value_name = "FORMAT"
    )]
    pub log_format: LogFormat,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text for people.
    Fmt,
    /// One JSON object a line.
    Json,
}

fn duration(text: &str) -> Result<SignedDuration, String> {
    if text == "0" {
        return Ok(SignedDuration::ZERO);
    }
    match text.parse::<SignedDuration>() {
        Ok(duration) if !duration.is_negative() => Ok(duration),
        _ => Err("write it like 15m, 1h30m, 20s or 500ms".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn durations_are_written_as_in_go() {
        for (text, seconds) in [
            ("15m", 900),
            ("1h30m", 5400),
            ("20s", 20),
            ("0", 0),
            ("0s", 0),
        ] {
            assert_eq!(duration(text).unwrap().as_secs(), seconds, "{text}");
        }
        assert_eq!(duration("500ms").unwrap().as_millis(), 500);
        for bad in ["", "15", "-1m", "soon"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
