//! The memory and address space (`ulimit -v`) that a server reserves at its start. When no other
//! memory is left, the server can still refuse clients, answer `stat` and save the disk.
//!
//! ```text
//!   address space  | program, reserve, save | pool, connections | for work | for the end |
//! ```
//! The pool does not grow into the parts "for work" and "for the end". Work for connections uses no
//! part of "for the end". If the system refuses a small allocation, the reserve serves it, because
//! a failed small allocation would end the process.

use crate::MEMORY;
use crate::admin::passed::Passed;
use crate::args::ServeArgs;
use crate::error::{Error, no_room};
use crate::policy::{
    ADDRESS_SLACK, DESCRIPTORS_AT_START, FREE_CONNECTIONS, HALF_OPEN_LEAST, LATER_THREADS,
    RESERVE_OF_SERVER, STACK,
};
use crate::reserve::SHARE;
use serve::{control, descriptors, metrics, nbd};
use zram::room;

/// The bytes of address space that are kept free for the server's end.
const FOR_THE_END: usize = LATER_THREADS * STACK + ADDRESS_SLACK;

/// Creates the reserve, and keeps the address space free. Call this function before the device is
/// created.
pub(super) fn keep(args: &ServeArgs, passed: &Passed) -> Result<(), Error> {
    let has_metrics = args.metrics.is_some() || passed.has_metrics();
    let reserve = reserve(args, if has_metrics { metrics::RESERVE } else { 0 });
    MEMORY.keep(reserve).map_err(|_| no_room())?;
    room::ask_too(|| MEMORY.is_short());
    room::keep(FOR_THE_END, FREE_CONNECTIONS * args.options().connection_bytes());
    check(control::BYTES)?;
    keep_descriptors(args)
}

/// Raises the limit of descriptors to the number that a server with `args` needs at most. If the
/// system permits less, checks that the requested number of connections is still possible.
fn keep_descriptors(args: &ServeArgs) -> Result<(), Error> {
    let serve::nbd::Options { workers, connections } = args.options();
    let of_mount = if args.mount.is_some() { workers + HALF_OPEN_LEAST } else { 0 };
    let others = descriptors::RESERVE + DESCRIPTORS_AT_START + of_mount;
    descriptors::keep(DESCRIPTORS_AT_START + of_mount);
    descriptors::raise(others + connections + nbd::HALF_OPEN_MAX);
    let (left, needed) = (descriptors::left(), others + connections + HALF_OPEN_LEAST);
    if left >= needed {
        return Ok(());
    }
    let remedy = match left.saturating_sub(others + HALF_OPEN_LEAST) {
        0 => String::new(),
        most => format!(", or give --connections {most} or less"),
    };
    Err(Error::Failed(format!(
        "--connections {connections} needs {needed} free file descriptors, with those kept for \
         control and saves, but this process can open only {left} more; raise the hard limit (as \
         root 'ulimit -Hn', or LimitNOFILE= in the systemd unit){remedy}"
    )))
}

/// Returns the size of the reserve in bytes. `of_metrics` is the number of bytes for clients of
/// metrics.
fn reserve(args: &ServeArgs, of_metrics: usize) -> usize {
    let workers = args.options().workers_max();
    let worst = RESERVE_OF_SERVER
        + control::CLIENTS * control::RESERVE
        + nbd::HALF_OPEN_MAX * nbd::HALF_OPEN_RESERVE
        + of_metrics
        + workers.saturating_mul(nbd::WORKER_RESERVE);
    // The server admits clients while at most 1/SHARE of the reserve is in use. This share can stay
    // in use, so it is added to the worst case.
    worst.saturating_add(worst / (SHARE - 1))
}

/// Fails if the remaining address space is too small for `bytes` bytes and the part "for the end".
pub(super) fn check(bytes: usize) -> Result<(), Error> {
    if room::is_left(bytes) { Ok(()) } else { Err(no_room()) }
}
