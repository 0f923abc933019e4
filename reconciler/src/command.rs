//! What the program does, by its arguments.

use std::process::ExitCode;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tracing::warn;

use crate::args::{Args, Command, RunArgs};
use crate::config::Config;
use crate::{app, crd, logging, status_table};

/// Does what the arguments say.
///
/// # Errors
/// In words for whoever started the program.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match (args.command, args.run) {
        (Some(Command::Status { volume, output }), _) => {
            let (text, well) = status_table::text(&volume, output)?;
            print(&text);
            Ok(if well {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            })
        }
        (Some(Command::Crd), _) => {
            print(&crd::crd_yaml()?);
            Ok(ExitCode::SUCCESS)
        }
        (None, Some(args)) => reconcile(&args).map(|()| ExitCode::SUCCESS),
        (None, None) => anyhow::bail!("--volume is missing; see reconciler --help"),
    }
}

fn reconcile(args: &RunArgs) -> anyhow::Result<()> {
    logging::start(args.log_format).context("can't start logging")?;
    for sentence in &args.without_effect {
        warn!("{sentence}");
    }
    let config = Config::new(args)?;
    // Two threads do: what takes time runs in helm or on threads of its own.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("can't start the runtime")?;
    let done = runtime.block_on(async {
        let mut term = signal(SignalKind::terminate()).context("can't listen for SIGTERM")?;
        let mut int = signal(SignalKind::interrupt()).context("can't listen for SIGINT")?;
        let shutdown = async move {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
        };
        app::run(config, shutdown).await
    });
    // A thread that still waits for something must not keep the process.
    runtime.shutdown_background();
    done
}

/// Prints to standard output. A reader who has seen enough (`| head`) is no error.
fn print(text: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Says on standard error why the program ends.
pub fn complain(error: &anyhow::Error) -> ExitCode {
    use std::io::Write;
    // Many errors repeat their cause in their own words.
    let text = error.chain().fold(String::new(), |text, cause| {
        let cause = cause.to_string();
        match text.as_str() {
            "" => cause,
            said if said.contains(&cause) => text,
            said => format!("{said}: {cause}"),
        }
    });
    let _ = writeln!(std::io::stderr(), "reconciler: {text}");
    ExitCode::FAILURE
}
