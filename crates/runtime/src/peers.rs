//! Transfers between the memories of two processes (`process_vm_readv`, `process_vm_writev`).
//! Libraries for parallel programs use these calls. If a transfer stops at an absent block of
//! another process, that process fills the block on request.
//!
//! ```text
//!   the call stops at address A of process P -> a signal to P: A -> P fills 256 KiB from A on
//!     ^                                                                |
//!     '----- the rest of the transfer, tried repeatedly <--------------'
//! ```

use crate::debugged;
use crate::kernel::EFAULT;
use crate::policy::{BROUGHT, PEER_PAUSE, PEER_TRIES, TRIES_OF_SIGNAL};
use crate::program::Program;
use crate::report;
use crate::threads::{is_own, is_stopped, may_ask};
use crate::user::words;
use crate::windows::{around, parts_within};
use dispatch::{Call, Outcome, system};
use libc::iovec;
use procgroup::{GroupMember, Request};
use std::sync::atomic::Ordering::Relaxed;
use zmem::Advice;

/// Handles deferred requests, and waits a short time for another process.
pub(crate) fn pause(program: &Program) {
    do_left(program);
    let _slept = system(libc::SYS_nanosleep, [(&raw const PEER_PAUSE).addr(), 0, 0, 0, 0, 0]);
}

fn is_transfer(number: usize) -> bool {
    matches!(number as i64, libc::SYS_process_vm_readv | libc::SYS_process_vm_writev)
}

/// Parts of memory, as described by a vector of `iovec`.
struct Parts(Vec<iovec>);

impl Parts {
    fn read(address: usize, count: usize) -> Option<Self> {
        let mut parts = Vec::new();
        for nth in 0..count.min(libc::UIO_MAXIOV as usize) {
            let [base, iov_len] = words(address + nth * size_of::<iovec>())?;
            let iov_base = std::ptr::with_exposed_provenance_mut(base);
            parts.push(iovec { iov_base, iov_len });
        }
        Some(Parts(parts))
    }

    fn bytes(&self) -> usize {
        self.0.iter().fold(0, |sum: usize, part| sum.saturating_add(part.iov_len))
    }

    /// Returns the parts of the memory that follows the first `done` bytes.
    fn behind(&self, mut done: usize) -> Self {
        let rest = self.0.iter().filter_map(|part| {
            let passed = done.min(part.iov_len);
            done -= passed;
            let base = part.iov_base.wrapping_byte_add(passed);
            let iov_len = part.iov_len - passed;
            (iov_len > 0).then_some(iovec { iov_base: base, iov_len })
        });
        Parts(rest.collect())
    }
}

/// Completes a transfer that stopped because a page of another process of the group is absent.
pub(crate) fn complete_transfer(program: &Program, call: &Call, outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Returned(result)
            if is_transfer(call.number())
                && !program.is_confined.load(Relaxed)
                && (result >= 0 || result == EFAULT) =>
        {
            Outcome::Returned(transfer_rest(program, call, result))
        }
        outcome => outcome,
    }
}

/// If a call is a transfer, asks the other process to make no block readable before the block is
/// completely filled, and waits until that process has agreed.
pub(crate) fn greet_peer(program: &Program, number: usize, args: &[usize; 6]) {
    // A filter may kill the process for calls that the program does not make itself.
    let is_free = is_transfer(number) && !program.is_confined.load(Relaxed);
    let Some(member) = program.member().filter(|_| is_free) else { return };
    for nth in 0..PEER_TRIES {
        if is_own(args[0]) || member.group().ask_peer(args[0] as u64) != Some(false) {
            return;
        }
        if nth == 0 && is_stopped(args[0], args[0]) {
            return;
        }
        if nth % TRIES_OF_SIGNAL == 0 {
            ask_peer_for(program, args[0], 0);
        }
        pause(program);
    }
}

/// Handles a signal from another process of the group. If `may_act` is false, the signal has
/// interrupted code of the runtime. Requests to fill blocks are then deferred, and requests to
/// evict are ignored.
pub(crate) fn do_request(program: &Program, request: Request, may_act: bool) {
    match request {
        Request::Memory(address) if !may_act => program.asked.store(address.max(1), Relaxed),
        Request::Stay(word) if !may_act => debugged::stay_later(program, word),
        Request::Look => debugged::look_soon(program),
        Request::Room if !may_act => {}
        Request::Room => {
            program.arena.yield_room(true);
            report::show(program);
        }
        Request::Memory(address) => bring_for_peer(program, address),
        Request::Stay(word) => debugged::stay(program, word),
    }
    if may_act {
        debugged::look_for_debuggers(program);
    }
}

/// Handles deferred requests.
pub(crate) fn do_left(program: &Program) {
    if program.asked.load(Relaxed) != 0 {
        bring_for_peer(program, program.asked.swap(0, Relaxed));
    }
    debugged::stay_now(program);
}

/// Fills blocks that another process is about to read or write. If the address is not in the
/// arena, fills no block.
fn bring_for_peer(program: &Program, address: usize) {
    program.member().into_iter().for_each(GroupMember::agree);
    bring(program, address);
}

fn bring(program: &Program, address: usize) {
    for part in parts_within(&program.arena, &(address..address.saturating_add(BROUGHT))) {
        let blocks = around(&program.arena, &part);
        let _absent = program.arena.advise(blocks, Advice::Hot);
    }
}

fn ask_peer_for(program: &Program, process: usize, address: usize) {
    if may_ask(process, process, |wait| wait.repeats) {
        let (process, request) = (process as u64, Request::Memory(address));
        let group = program.member().map(GroupMember::group);
        group.into_iter().for_each(|group| group.ask(process, process, request));
    }
}

fn transfer_rest(program: &Program, call: &Call, result: isize) -> isize {
    let [process, local, locals, remote, remotes, flags] = call.args();
    let is_own = is_own(process);
    let of_group = |member: &GroupMember| member.group().ask_peer(process as u64).is_some();
    let is_peer = is_own || program.member().is_some_and(of_group);
    let parts = || Some((Parts::read(local, locals)?, Parts::read(remote, remotes)?));
    let Some((local, remote)) = parts().filter(|_| is_peer) else { return result };
    let tries = match () {
        () if is_own => 1,
        () if is_stopped(process, process) => 0,
        () => PEER_TRIES,
    };
    let (wanted, mut done) = (local.bytes().min(remote.bytes()), result.max(0) as usize);
    while done < wanted {
        let (here, there) = (local.behind(done), remote.behind(done));
        let Some(stopped) = there.0.first() else { break };
        let vectors =
            [here.0.as_ptr().addr(), here.0.len(), there.0.as_ptr().addr(), there.0.len()];
        let args = [process, vectors[0], vectors[1], vectors[2], vectors[3], flags];
        let more = (0..tries).find_map(|nth| {
            if is_own {
                bring(program, stopped.iov_base.addr());
            } else {
                if nth % TRIES_OF_SIGNAL == 0 {
                    ask_peer_for(program, process, stopped.iov_base.addr());
                }
                pause(program);
            }
            system(call.number() as i64, args).ok().filter(|more| *more > 0)
        });
        match more {
            Some(more) => done += more,
            None => break,
        }
    }
    if done > 0 { done as isize } else { result }
}
