//! Messages for the user.

use dispatch::system;
use std::fmt::Display;

/// Writes a line to the program's standard error.
pub(crate) fn say(text: &dyn Display) {
    let line = format!("uzram run: {text}\n");
    let error = libc::STDERR_FILENO as usize;
    let _lost = system(libc::SYS_write, [error, line.as_ptr().addr(), line.len(), 0, 0, 0]);
}
