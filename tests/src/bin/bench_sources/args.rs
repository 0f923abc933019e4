//! What the benchmark can be told.

use std::path::PathBuf;

use clap::Parser;

/// Follows large git repositories with the sidecar, beside the plain git commands that do
/// as much: a first shallow fetch, one commit, an unchanged look, many pushes; one repository
/// with many refs and charts; and a range over the tags of a registry.
#[derive(Clone, Debug, Parser)]
#[command(name = "bench-sources", bin_name = "cargo bench-sources --")]
pub(crate) struct Args {
    /// Commits of the large repository.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(10..))]
    pub(crate) commits: u32,

    /// Files of the large repository.
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) files: u32,

    /// Refs of the large repository.
    #[arg(long, default_value_t = 10_000)]
    pub(crate) refs: u32,

    /// Refs of the repository that is looked at while nothing changes.
    #[arg(long, default_value_t = 50_000)]
    pub(crate) many_refs: u32,

    /// Times that each figure is taken; medians are told.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,

    /// Pushes after which the mirror is measured.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pushes: u32,

    /// Wants of one repository, spread over the branches and charts below.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) wants: u32,

    /// Branches of that repository.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) branches: u32,

    /// Charts of that repository.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) charts: u32,

    /// Tags of the repository in an OCI registry that a range looks through.
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) tags: u32,

    /// Write all figures to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}
