//! When to end.

use std::future::Future;
use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// Resolves once TERM or INT arrives. Listens from the moment of the call.
///
/// # Errors
/// If no handler can be set.
pub fn shutdown() -> io::Result<impl Future<Output = ()> + Send> {
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    })
}
