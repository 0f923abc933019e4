//! Flags, as they are written. What they amount to is [`crate::config`].
//!
//! Names are helm-operator's where the flag still means something; what becomes of its others
//! is [`crate::upstream_flags`].

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Parser, Subcommand, ValueEnum};

/// Performs Helm releases from charts that a mirror-sidecar puts on the shared volume.
#[derive(Debug, Parser)]
#[command(
    name = "reconciler",
    version,
    subcommand_negates_reqs = true,
    args_conflicts_with_subcommands = true,
    after_help = "MIGRATION.md tells what becomes of each flag of helm-operator that isn't listed here."
)]
pub struct Args {
    /// What to do instead of reconciling.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// How to reconcile.
    #[command(flatten)]
    pub run: Option<RunArgs>,
}

/// What the program does besides reconciling.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show source, ref, commit, chart and release of everything on a volume. Needs the
    /// volume alone, no cluster. Exit status: 0 if all is well, 1 if something is wrong or
    /// still under way.
    Status {
        /// Folder of the volume, with `wanted` and `served` in it.
        #[arg(long, value_name = "DIR", env = "RECONCILER_VOLUME")]
        volume: PathBuf,
        /// How to print it.
        #[arg(long, short, value_enum, default_value_t)]
        output: Output,
    },
    /// Print the CustomResourceDefinition of HelmRelease as YAML.
    Crd,
}

/// How `status` prints.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum Output {
    /// A table for people.
    #[default]
    Table,
    /// JSON for programs.
    Json,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text for people.
    #[default]
    Fmt,
    /// One JSON object a line.
    Json,
}

/// How to reconcile.
#[derive(Clone, Debug, clap::Args)]
pub struct RunArgs {
    /// Folder of the volume; `wanted` in it is written, `served` only read.
    #[arg(long, value_name = "DIR", env = "RECONCILER_VOLUME", required = true)]
    pub volume: PathBuf,

    /// Folder of the credentials volume, which should be in memory. Without it a
    /// HelmRelease that needs a credential is refused with a condition.
    #[arg(long, value_name = "DIR", env = "RECONCILER_CREDENTIALS")]
    pub credentials: Option<PathBuf>,

    /// The helm program: 4, or 3 from 3.14 on.
    #[arg(
        long,
        value_name = "PATH",
        env = "RECONCILER_HELM",
        default_value = "helm"
    )]
    pub helm: PathBuf,

    /// Folder in which one is made for what only this process reads: opened charts, helm's
    /// own files. By default the system's temporary one.
    #[arg(long, value_name = "DIR", env = "RECONCILER_WORK_DIR")]
    pub work_dir: Option<PathBuf>,

    /// Kubeconfig of the cluster. By default $KUBECONFIG, ~/.kube/config, or what a pod has.
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,

    /// Look only at HelmReleases of this namespace. By default of all.
    #[arg(
        long,
        value_name = "NAMESPACE",
        env = "RECONCILER_ALLOW_NAMESPACE",
        default_value = "",
        hide_default_value = true
    )]
    pub allow_namespace: String,

    /// Refuse HelmReleases that name ConfigMaps or Secrets of other namespaces than their
    /// own, for values or as the credential of a chart source.
    #[arg(long, env = "RECONCILER_NO_CROSS_NAMESPACE_REFS")]
    pub no_cross_namespace_refs: bool,

    /// How many helm programs may run at the same time.
    #[arg(long, value_name = "N", env = "RECONCILER_WORKERS", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub workers: u16,

    /// How often everything is looked at again, whatever happened.
    #[arg(long, value_name = "DURATION", env = "RECONCILER_CHARTS_SYNC_INTERVAL", default_value = "3m", value_parser = duration)]
    pub charts_sync_interval: Duration,

    /// How often the sidecar asks each chart source for news.
    #[arg(long, value_name = "DURATION", env = "RECONCILER_GIT_POLL_INTERVAL", default_value = "5m", value_parser = duration)]
    pub git_poll_interval: Duration,

    /// How long one exchange with a chart source may take. helm-operator's 20s ended the
    /// first fetch of large repositories over and over.
    #[arg(long, value_name = "DURATION", env = "RECONCILER_GIT_TIMEOUT", default_value = "2m", value_parser = duration)]
    pub git_timeout: Duration,

    /// The ref of a HelmRelease that names none. By default whatever branch the remote's
    /// HEAD names; helm-operator's default was `master`.
    #[arg(long, value_name = "REF", env = "RECONCILER_GIT_DEFAULT_REF")]
    pub git_default_ref: Option<String>,

    /// Whether the dependencies of charts are brought up to date, unless a HelmRelease sets
    /// skipDepUpdate. With `false` they are taken as they lie in each chart's `charts`.
    #[arg(
        long,
        value_name = "BOOL",
        env = "RECONCILER_UPDATE_CHART_DEPS",
        default_value = "true",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        action = ArgAction::Set,
        value_parser = BoolishValueParser::new()
    )]
    pub update_chart_deps: bool,

    /// Where health, metrics and sync-git are served: `host:port`, or `:port` for every
    /// address. Port 0 takes a free one, which the log names.
    #[arg(
        long,
        short,
        value_name = "ADDRESS",
        env = "RECONCILER_LISTEN",
        default_value = ":3030"
    )]
    pub listen: String,

    /// Where push webhooks are received, and nothing else: an address like that of --listen,
    /// for an Ingress. By default nowhere.
    #[arg(long, value_name = "ADDRESS", env = "RECONCILER_WEBHOOK_LISTEN")]
    pub webhook_listen: Option<String>,

    /// File with the secret that senders of webhooks know; of several, one on each line. It
    /// is read again for every delivery.
    #[arg(long, value_name = "PATH", env = "RECONCILER_WEBHOOK_SECRET_FILE")]
    pub webhook_secret_file: Option<PathBuf>,

    /// How log lines look.
    #[arg(long, value_enum, env = "RECONCILER_LOG_FORMAT", default_value_t)]
    pub log_format: LogFormat,

    /// Flags of helm-operator that were given and have no effect, a sentence for each; see
    /// [`crate::upstream_flags`].
    #[arg(skip)]
    pub without_effect: Vec<String>,
}

/// Reads `300ms`, `20s`, `3m`, `1h30m`; a plain number is refused, as it has no unit.
fn duration(text: &str) -> Result<Duration, String> {
    let span: jiff::SignedDuration = text
        .parse()
        .map_err(|_| format!("`{text}` is no duration; write one like 300ms, 20s, 3m or 1h30m"))?;
    match Duration::try_from(span) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err(format!("`{text}` must be more than nothing")),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_flags_are_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn flags_alone_reconcile() {
        let args = Args::try_parse_from([
            "reconciler",
            "--volume",
            "/v",
            "-l",
            "127.0.0.1:0",
            "--charts-sync-interval=90s",
        ])
        .unwrap();
        let run = args.run.unwrap();
        assert!(args.command.is_none());
        assert_eq!(run.listen, "127.0.0.1:0");
        assert_eq!(run.charts_sync_interval, Duration::from_secs(90));
        assert_eq!(run.git_default_ref, None);
    }

    #[test]
    fn a_command_needs_no_flags_of_reconciling() {
        let args =
            Args::try_parse_from(["reconciler", "status", "--volume", "/v", "-o", "json"]).unwrap();
        assert!(matches!(
            args.command,
            Some(Command::Status {
                output: Output::Json,
                ..
            })
        ));
        assert!(Args::try_parse_from(["reconciler", "crd"]).is_ok());
        assert!(Args::try_parse_from(["reconciler"]).is_err());
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("300ms"), Ok(Duration::from_millis(300)));
        assert_eq!(duration("1m0s"), Ok(Duration::from_secs(60)));
        assert_eq!(duration("1.5h"), Ok(Duration::from_secs(5400)));
        for bad in ["5", "-3s", "0s", "soon", ""] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
