//! Log lines, on standard error.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use crate::args::LogFormat;

/// What is shown by default. The client's own complaints are told by whoever called it.
const DEFAULT: &str = "info,kube_client=off,kube_runtime=off";

/// Starts logging. `RUST_LOG` chooses what is shown; `info` is the default.
///
/// # Errors
/// If logging was started before.
pub fn start(format: LogFormat) -> Result<(), TryInitError> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false);
    match format {
        LogFormat::Fmt => lines
            .with_ansi(std::io::stderr().is_terminal())
            .finish()
            .try_init(),
        LogFormat::Json => lines.json().flatten_event(true).finish().try_init(),
    }
}
