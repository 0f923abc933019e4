//! What the benchmark can be told.

use std::path::PathBuf;

use clap::Parser;

/// Converges N new releases of M charts with the pair, beside a loop of `helm install` of the
/// same charts at the same parallelism on the same control plane; then pushes a change of one
/// chart, then idles.
#[derive(Clone, Debug, Parser)]
#[command(name = "bench-pair", bin_name = "cargo bench-pair --")]
pub(crate) struct Args {
    /// Releases to make.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=5000))]
    pub(crate) releases: u32,

    /// Charts in the repository; the releases are spread evenly over them.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=500))]
    pub(crate) charts: u32,

    /// Helm programs at the same time, in the loop and in the reconciler.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) parallel: u16,

    /// Seconds to idle at the end, while everything is counted.
    #[arg(long, default_value_t = 60)]
    pub(crate) idle: u64,

    /// How often the sidecar polls while idle, as the reconciler's flag takes it.
    #[arg(long, default_value = "10s")]
    pub(crate) poll: String,

    /// Write all figures to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// The folder of a chart.
pub(crate) fn chart_path(chart: u32) -> String {
    format!("charts/chart-{chart:03}")
}

/// The name of a release and of its HelmRelease.
pub(crate) fn release(number: u32) -> String {
    format!("release-{number:04}")
}
