//! Threads with a name, and no larger a stack than they need.

use crate::log::Log;
use std::io;
use std::sync::mpsc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Has `work` done on a thread of its own.
///
/// # Errors
/// There can be none.
pub fn spawn(
    name: &str,
    stack: usize,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.to_owned()).stack_size(stack).spawn(work)
}

/// Returns what `work` gives, if it does `within` that time: who is stuck holds up nothing.
pub fn spawn_within<T: Send + 'static>(
    name: &str,
    stack: usize,
    within: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (tell, told) = mpsc::channel();
    let tells = move || {
        // Nobody may be waiting any more.
        let _ = tell.send(work());
    };
    spawn(name, stack, tells).ok()?;
    told.recv_timeout(within).ok()
}

/// Has a client of the server `name` answered on a thread of its own, or tells why not.
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
