//! What the demo can be told.

use std::path::PathBuf;

use clap::Parser;

/// Runs Tandem's two processes on a real control plane: makes a git repository
/// of charts, applies HelmReleases, pushes a commit, and shows which release
/// follows. Without arguments it needs nothing but Go, git and Rust.
#[derive(Clone, Debug, Parser)]
#[command(name = "demo", bin_name = "cargo demo --")]
pub(crate) struct Args {
    /// End after the story instead of running until Ctrl-C; the exit status says whether
    /// everything happened.
    #[arg(long)]
    pub(crate) once: bool,

    /// Use this cluster instead of starting one. A namespace is made and removed again, and
    /// the HelmRelease CustomResourceDefinition unless it was there before.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Release a chart of your own: the address of its git repository.
    #[arg(long, value_name = "URL", requires = "path")]
    pub(crate) git: Option<String>,

    /// The chart's folder in that repository.
    #[arg(long, value_name = "PATH", requires = "git")]
    pub(crate) path: Option<String>,

    /// Branch, tag or commit of that repository. By default the branch that its HEAD names.
    #[arg(long = "ref", value_name = "REF", requires = "git")]
    pub(crate) reference: Option<String>,
}
