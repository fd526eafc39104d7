//! The table of the process's sites, and functions that move interrupted threads out of stubs and
//! tails. [`crate::sites`] describes the rules.

use crate::policy::{PROBES, SITES};
use crate::x86_64::frame::{CALL_BYTES, Context};
use crate::x86_64::info::Info;
use crate::x86_64::stub::{JUMP_BYTES, STUB_BYTES};
use crate::x86_64::tail::{self, Progress};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};

/// The state of a site whose instruction is replaced.
pub(crate) const PATCHED: u32 = u32::MAX - 1;
/// The state of a site whose instruction is not replaced, and never will be.
pub(crate) const LEFT: u32 = u32::MAX;

/// Whether the instruction of any site was ever replaced, or is being replaced.
pub(crate) static HAS_STUBS: AtomicBool = AtomicBool::new(false);

#[derive(Debug)]
pub(crate) struct Site {
    /// The address of the instruction; 0 if the entry is free.
    pub(crate) address: AtomicUsize,
    /// The address of the site's stub, or 0 if the site never had a stub.
    pub(crate) stub: AtomicUsize,
    /// The address of the site's tail, or 0 if the site never had a tail.
    pub(crate) tail: AtomicUsize,
    /// The address of the pad to which the site jumps, or 0 if the site never had a pad.
    pub(crate) pad: AtomicUsize,
    /// The number of calls from the site, or `PATCHED` or `LEFT`.
    pub(crate) state: AtomicU32,
}

static TABLE: [Site; SITES] = [const {
    Site {
        address: AtomicUsize::new(0),
        stub: AtomicUsize::new(0),
        tail: AtomicUsize::new(0),
        pad: AtomicUsize::new(0),
        state: AtomicU32::new(0),
    }
}; SITES];

/// Returns the entry of a site. If the site has no entry, creates one if the table has room.
pub(crate) fn find(address: usize) -> Option<&'static Site> {
    let first = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - SITES.ilog2());
    (first..first + PROBES).map(|at| &TABLE[at % SITES]).find(|site| {
        let now = site.address.load(Acquire);
        let take = || site.address.compare_exchange(0, address, AcqRel, Acquire).err();
        now == address || now == 0 && take().is_none_or(|other| other == address)
    })
}

/// Returns the sites whose instructions are replaced.
pub(crate) fn patched() -> impl Iterator<Item = &'static Site> {
    TABLE.iter().filter(|site| site.state.load(Acquire) == PATCHED)
}

/// If a context was interrupted in a stub or a pad, moves the context to the site. Returns true if
/// the context was moved, or if it is at a site that is being changed (di-18). The stub of a
/// restored site may be unmapped. If an instruction fetch from the stub faults, the context is
/// moved as well.
pub(crate) fn leave(context: &mut Context, info: &Info) -> bool {
    if !HAS_STUBS.load(Acquire) {
        return false;
    }
    let at = context.instruction();
    let is_fault = info.signal == libc::SIGSEGV;
    let is_fetch = is_fault && info.call_address == at;
    let is_halt = is_fault && info.code == libc::SI_KERNEL;
    let is_here = |site: &&Site| {
        let (stub, pad) = (site.stub.load(Acquire), site.pad.load(Acquire));
        let state = site.state.load(Acquire);
        let is_behind = stub != 0 && (stub..stub + STUB_BYTES).contains(&at)
            || pad != 0 && (pad..pad + JUMP_BYTES).contains(&at);
        is_behind && (state == PATCHED || state == LEFT && is_fetch)
            || is_halt && pad != 0 && site.address.load(Relaxed) == at
    };
    let site = TABLE.iter().find(is_here);
    site.inspect(|site| context.set_instruction(site.address.load(Relaxed))).is_some()
}

/// Returns the address after the call of a site. Calls from the site's stub return to `back`.
pub(crate) fn behind(back: usize) -> usize {
    match tail::progress(back) {
        Some((tail, _)) => behind_of(tail).unwrap_or(back),
        None => back,
    }
}

fn behind_of(tail: usize) -> Option<usize> {
    let site = TABLE.iter().find(|site| site.tail.load(Acquire) == tail)?;
    Some(site.address.load(Relaxed) + CALL_BYTES)
}

/// If a context was interrupted in a tail, moves the context to the same position in the code after
/// the call of the tail's site.
pub(crate) fn leave_tail(context: &mut Context) {
    let Some((tail, progress)) = tail::progress(context.instruction()) else { return };
    let Some(behind) = behind_of(tail) else { return };
    match progress {
        Progress::Before => context.set_return(behind),
        Progress::Behind(bytes) => context.set_instruction(behind + bytes),
    }
}
