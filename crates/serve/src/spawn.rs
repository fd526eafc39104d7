//! Starts threads with a name and a small stack.

use crate::log::Log;
use std::io;
use std::sync::mpsc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Runs `work` on a new thread.
///
/// # Errors
/// Fails if the system refuses a thread.
pub fn spawn(
    name: &str,
    stack: usize,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.to_owned()).stack_size(stack).spawn(work)
}

/// Runs `work` on a new thread, and returns the result if `work` ends within the time `within`. If
/// `work` hangs, the caller does not wait longer.
pub fn spawn_within<T: Send + 'static>(
    name: &str,
    stack: usize,
    within: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (tell, told) = mpsc::channel();
    let tells = move || {
        // The caller may no longer wait for the result.
        let _ = tell.send(work());
    };
    spawn(name, stack, tells).ok()?;
    told.recv_timeout(within).ok()
}

/// Runs `work` for a client of the server `name` on a new thread. If no thread can be started, logs
/// that the client is refused.
pub(crate) fn spawn_for_client(
    name: &str,
    stack: usize,
    log: &Log,
    work: impl FnOnce() + Send + 'static,
) {
    if let Err(error) = spawn(name, stack, work) {
        log.line(format_args!("{name}: refused a client: can't start a thread for it: {error}"));
    }
}
