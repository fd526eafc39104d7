//! Memory that a server keeps free from its start, so that it can refuse clients, answer `stat` and
//! save the disk when there is no memory, or no address space (`ulimit -v`), for anything else.
//!
//! ```text
//!   address space  | program, reserve, save | pool, connections | for work | for the end |
//! ```
//! The pool leaves the last two parts free, connections only the last. Small allocations, which end
//! the process if they fail, come from the reserve where the system refuses them.

use crate::MEMORY;
use crate::admin::passed::Passed;
use crate::args::ServeArgs;
use crate::error::{Error, no_room};
use crate::reserve::SHARE;
use serve::{control, metrics, nbd};
use zram::room;

/// Bytes of the stack of each thread that takes part in the server's end.
pub(super) const STACK: usize = 512 << 10;

/// Threads that may start at any time: two of the pool, and at the end one that saves, one that
/// reads the backing store for it, and one that unmounts the disk.
const THREADS: usize = 5;

/// Bytes by which the allocator grows at a time, and those of the stacks' guards.
const SLACK: usize = 2 << 20;

/// Bytes of address space that are kept for the end, and for clients of the control socket.
const FOR_THE_END: usize = control::BYTES + THREADS * STACK + SLACK;

/// How many connections the pool leaves room for.
const CONNECTIONS: usize = 2;

/// Most bytes of the reserve that the parts that exist once have in use at a time: log lines, the
/// paths of a save, jobs.
const OF_SERVER: usize = 512 << 10;

/// Keeps the reserve and the address space free. Called before the device is made.
pub(super) fn keep(args: &ServeArgs, passed: &Passed) -> Result<(), Error> {
    let has_metrics = args.metrics.is_some() || passed.metrics.is_some();
    let of_metrics = |bytes| if has_metrics { bytes } else { 0 };
    let reserve = reserve(args, of_metrics(metrics::CLIENTS * metrics::RESERVE));
    MEMORY.keep(reserve).map_err(|_| no_room())?;
    room::ask_too(|| MEMORY.is_short());
    let for_the_end = FOR_THE_END + of_metrics(metrics::BYTES);
    room::keep(for_the_end, CONNECTIONS * args.options().connection_bytes());
    Ok(())
}

/// Returns the bytes of the reserve, with what clients of metrics take of it.
fn reserve(args: &ServeArgs, of_metrics: usize) -> usize {
    let workers = args.options().connections.saturating_mul(args.options().workers);
    let worst = OF_SERVER
        + control::CLIENTS * control::RESERVE
        + nbd::HALF_OPEN_MAX * nbd::HALF_OPEN_RESERVE
        + of_metrics
        + workers.saturating_mul(nbd::WORKER_RESERVE);
    // A client is admitted while up to this share of the reserve is in use, perhaps for good.
    worst.saturating_add(worst / (SHARE - 1))
}

/// Returns an error if less than that is free once the server has started.
pub(super) fn check() -> Result<(), Error> {
    if room::is_left(0) { Ok(()) } else { Err(no_room()) }
}
