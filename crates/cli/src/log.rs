//! Messages for users on standard error. A message that can't be written is lost, because the
//! process can't report this failure elsewhere.

use crate::policy::LOG_PATIENCE;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fmt::Arguments;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static IS_STUCK: AtomicBool = AtomicBool::new(false);

/// Logs a line, preceded by the command's name.
pub(crate) fn line(line: Arguments<'_>) {
    text(&format!("uzram: {line}\n"));
}

/// Logs text unchanged.
pub(crate) fn text(text: &str) {
    let mut err = std::io::stderr().lock();
    // A pipe accepts a write of `PIPE_BUF` bytes completely or not at all.
    for piece in text.as_bytes().chunks(libc::PIPE_BUF) {
        if !is_taken(&err) || err.write_all(piece).is_err() {
            return;
        }
    }
}

/// Returns whether standard error accepts data. Waits at most LOG_PATIENCE for standard error to
/// accept data. After a failed wait, calls return at once, until standard error accepts data again.
fn is_taken(err: &std::io::StderrLock<'_>) -> bool {
    let patience = if IS_STUCK.load(Relaxed) { Timespec::default() } else { LOG_PATIENCE };
    let mut polled = [PollFd::from_borrowed_fd(err.as_fd(), PollFlags::OUT)];
    // If poll fails, for example on a closed descriptor, a write does not block.
    let is_stuck = poll(&mut polled, Some(&patience)) == Ok(0);
    IS_STUCK.store(is_stuck, Relaxed);
    !is_stuck
}

/// Logs a line. Unlike `eprintln`, `log` does not panic if standard error is closed.
macro_rules! log {
    ($($line:tt)*) => { $crate::log::line(format_args!($($line)*)) };
}

pub(crate) use log;
