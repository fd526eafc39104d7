//! Messages for users on standard error. If a message can't be written, the process continues
//! without delay, because it has no other place to report the failure.

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
    // A pipe accepts a piece of this size either as a whole or not at all.
    for piece in text.as_bytes().chunks(libc::PIPE_BUF) {
        if !is_taken(&err) || err.write_all(piece).is_err() {
            return;
        }
    }
}

/// Returns whether standard error accepts data. Waits at most LOG_PATIENCE for that. Does not wait
/// if an earlier wait has failed and standard error has not accepted data since.
fn is_taken(err: &std::io::StderrLock<'_>) -> bool {
    let patience = if IS_STUCK.load(Relaxed) { Timespec::default() } else { LOG_PATIENCE };
    let mut polled = [PollFd::from_borrowed_fd(err.as_fd(), PollFlags::OUT)];
    // A descriptor that can't be polled, such as a closed one, does not block.
    let is_stuck = poll(&mut polled, Some(&patience)) == Ok(0);
    IS_STUCK.store(is_stuck, Relaxed);
    !is_stuck
}

/// Logs a line. Unlike `eprintln`, it does not panic if standard error is closed.
macro_rules! log {
    ($($line:tt)*) => { $crate::log::line(format_args!($($line)*)) };
}

pub(crate) use log;
