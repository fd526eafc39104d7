//! The line on standard error that reports that a program runs without a host.

use crate::policy::LINE_BYTES;
use crate::steps::Failure;
use crate::system::system;
use std::io::Write as _;

/// Waits at most `milliseconds` for standard error to accept data. Returns whether standard error
/// accepts data.
pub(crate) fn is_possible(milliseconds: usize) -> bool {
    let polled = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
    system(libc::SYS_poll, [(&raw const polled).addr(), 1, milliseconds, 0, 0, 0]) == Ok(1)
}

/// Reports on standard error that `process` runs without a host because of `failure`.
pub(crate) fn write(process: i32, failure: Failure) {
    let mut line = [0; LINE_BYTES];
    let mut rest = &mut line[..];
    let start = format_args!("uzram run: process {process} runs without a limit: ");
    let (remedy, errno) = match failure {
        Failure::Unfit => ("its program has rights of its own, or is not for x86-64", None),
        Failure::System(errno) => (remedy(errno), Some(errno)),
    };
    let _fits = match errno {
        None => writeln!(rest, "{start}{remedy}"),
        Some(errno) => writeln!(
            rest,
            "{start}the runtime could not be mapped into its program (error {errno}); {remedy}"
        ),
    };
    let bytes = LINE_BYTES - rest.len();
    let error = libc::STDERR_FILENO as usize;
    let _gone = system(libc::SYS_write, [error, line.as_ptr().addr(), bytes, 0, 0, 0]);
}

fn remedy(errno: i32) -> &'static str {
    match errno {
        libc::EMFILE | libc::ENFILE => "raise its limit of open files ('ulimit -n')",
        libc::ENOMEM | libc::EAGAIN => "raise its limit of address space ('ulimit -v')",
        libc::ENOENT | libc::ESTALE => {
            "uzram was replaced or removed: install it, and run it again"
        }
        libc::EACCES | libc::EPERM => "permit it to read and to map the files of uzram",
        _ => "run it with '--no-inject'",
    }
}
