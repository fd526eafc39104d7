//! What is said to people, on standard error. Nobody is left to tell that it could not be: so that
//! ends nothing, and holds up nothing.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fmt::Arguments;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Bytes that a pipe takes whole where it takes any.
const PIECE: usize = 4096;

/// How long a line waits, once, for a pipe that nobody reads or a stopped terminal; further lines
/// are lost until it is read again.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
static IS_STUCK: AtomicBool = AtomicBool::new(false);

/// A line, with the command's name before it.
pub(crate) fn line(line: Arguments<'_>) {
    text(&format!("uzram: {line}\n"));
}

/// Text as it is.
pub(crate) fn text(text: &str) {
    let mut err = std::io::stderr().lock();
    for piece in text.as_bytes().chunks(PIECE) {
        if !is_taken(&err) || err.write_all(piece).is_err() {
            return;
        }
    }
}

/// Returns whether standard error takes something now.
fn is_taken(err: &std::io::StderrLock<'_>) -> bool {
    let patience = if IS_STUCK.load(Relaxed) { Timespec::default() } else { PATIENCE };
    let mut polled = [PollFd::from_borrowed_fd(err.as_fd(), PollFlags::OUT)];
    // What can't be asked, as a closed descriptor, does not wait.
    let is_stuck = poll(&mut polled, Some(&patience)) == Ok(0);
    IS_STUCK.store(is_stuck, Relaxed);
    !is_stuck
}

/// Logs a line, as `eprintln` would, which panics where standard error is gone.
macro_rules! log {
    ($($line:tt)*) => { $crate::log::line(format_args!($($line)*)) };
}

pub(crate) use log;
