//! What a server keeps from the start, so that it can refuse clients, tell how it is, and save,
//! when there is no memory, or no address space (`ulimit -v`), for anything else.
//!
//! ```text
//!   address space  | program, reserve, save | pool, connections | for work | for the end |
//! ```
//! The pool's mappings leave both that are kept, connections only the last. What is small, and
//! can't fail without ending the process, comes from the reserve if it must.

use crate::MEMORY;
use crate::args::ServeArgs;
use crate::error::{Error, no_room};
use crate::reserve::SHARE;
use serve::{control, nbd};
use zram::room;

/// Bytes of the stack of each thread that ends the server.
pub(super) const STACK: usize = 512 << 10;

/// Threads that may begin at any time: the pool's two, and at the end the one that saves, the one
/// that reads the backing store for it, and one that waits for the mount.
const THREADS: usize = 5;

/// Bytes that the allocator takes at a time, and what guards stacks.
const SLACK: usize = 2 << 20;

/// Bytes of address space kept for the end, and for clients of the control socket.
const FOR_THE_END: usize = control::BYTES + THREADS * STACK + SLACK;

/// Connections for which the pool leaves room.
const CONNECTIONS: usize = 2;

/// Bytes of the reserve that all that there is once may have in use at a time: lines that are said,
/// a save's paths, jobs.
const OF_SERVER: usize = 512 << 10;

/// Keeps all that, before the device is made.
pub(super) fn keep(args: &ServeArgs) -> Result<(), Error> {
    MEMORY.keep(reserve(args)).map_err(|_| no_room())?;
    room::ask_too(|| MEMORY.is_short());
    room::keep(FOR_THE_END, CONNECTIONS * args.options().connection_bytes());
    Ok(())
}

/// Returns the bytes of the reserve.
fn reserve(args: &ServeArgs) -> usize {
    let workers = args.options().connections.saturating_mul(args.options().workers);
    let worst = OF_SERVER
        + control::CLIENTS * control::RESERVE
        + nbd::HALF_OPEN_MAX * nbd::HALF_OPEN_RESERVE
        + workers.saturating_mul(nbd::WORKER_RESERVE);
    // A share may be in use, for good, when work is let in.
    worst.saturating_add(worst / (SHARE - 1))
}

/// Whether there is what is kept, now that all is started.
pub(super) fn check() -> Result<(), Error> {
    if room::is_left(0) { Ok(()) } else { Err(no_room()) }
}
