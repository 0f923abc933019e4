//! The `mirror-sidecar` program.

use std::process::ExitCode;

use clap::Parser;
use mirror_sidecar::args::Args;
use mirror_sidecar::config::Config;
use mirror_sidecar::{askpass, logging, run, signals};

fn main() -> anyhow::Result<ExitCode> {
    tandem_shared::memory::share_heaps();
    if let Some(code) = askpass::answer() {
        return Ok(code);
    }
    let args = Args::parse();
    logging::start(args.log_format)?;
    let config = Config::try_from(args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let result = runtime.block_on(async { run(config, signals::shutdown()?).await });
    // A thread that still waits for a lock doesn't keep us.
    runtime.shutdown_background();
    result.map(|()| ExitCode::SUCCESS)
}
