//! How a process is asked to stop.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// Listens for SIGTERM and SIGINT from now on; the future ends with the first of them.
///
/// # Errors
/// When the system refuses the handlers.
pub(crate) fn stop_requested() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        let by = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        tracing::info!(signal = by, "asked to stop");
    })
}
