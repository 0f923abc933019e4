//! The `mirror-sidecar` program.

use std::process::ExitCode;

use clap::Parser;
use mirror_sidecar::{args::Args, askpass, config::Config, logging, run, runtime, signals};

fn main() -> ExitCode {
    tandem_shared::memory::share_heaps();
    askpass::answer().unwrap_or_else(|| match serve(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    })
}

fn serve(args: Args) -> anyhow::Result<()> {
    logging::start(args.log_format)?;
    let config = Config::try_from(args)?;
    let runtime = runtime(&config)?;
    let result = runtime.block_on(async { run(config, signals::shutdown()?).await });
    // A thread that still waits for a lock doesn't keep us.
    runtime.shutdown_background();
    result
}
