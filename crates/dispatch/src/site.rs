//! The table of the process's sites, and functions that move interrupted threads out of stubs and
//! tails. [`crate::sites`] describes the rules.

use crate::policy::{PROBES, SITES};
use crate::user::read_memory;
use crate::x86_64::frame::{CALL_BYTES, Context};
use crate::x86_64::info::Info;
use crate::x86_64::pad::{Pad, SHORT};
use crate::x86_64::stub::{self, HALT, JUMP_BYTES, STUB_BYTES, SYSCALL};
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
    /// The address of the site's instruction, or 0 if this entry of the table is free.
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

/// Returns the entry of a site. If the site has no entry, creates one if one of the `PROBES`
/// searched entries is free.
pub(crate) fn find(address: usize) -> Option<&'static Site> {
    let first = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - SITES.ilog2());
    (first..first + PROBES).map(|at| &TABLE[at % SITES]).find(|site| {
        let now = site.address.load(Acquire);
        let take = || site.address.compare_exchange(0, address, AcqRel, Acquire).err();
        now == address || now == 0 && take().is_none_or(|other| other == address)
    })
}

/// Returns the sites that have stubs, including restored sites. A thread may still execute the stub
/// of a restored site.
pub(crate) fn with_stubs() -> impl Iterator<Item = &'static Site> {
    TABLE.iter().filter(|site| site.stub.load(Acquire) != 0)
}

/// Returns the sites whose instructions are replaced.
pub(crate) fn patched() -> impl Iterator<Item = &'static Site> {
    TABLE.iter().filter(|site| site.state.load(Acquire) == PATCHED)
}

impl Site {
    /// Returns true if `at` lies in this site's stub or pad, which lead to `simple`, or is the site
    /// itself while the site is being changed (di-18). `info` describes the signal that interrupted
    /// a thread at `at`.
    fn leads_to(&self, at: usize, info: &Info) -> bool {
        let [address, stub, pad] =
            [&self.address, &self.stub, &self.pad].map(|word| word.load(Acquire));
        let state = self.state.load(Acquire);
        let is_fault = info.signal == libc::SIGSEGV;
        if pad != 0 && is_fault && info.code == libc::SI_KERNEL && at == address {
            return self.may_halt();
        }
        let is_in_stub = stub != 0 && (stub..stub + STUB_BYTES).contains(&at);
        let is_on_way = is_in_stub || pad != 0 && at == pad;
        let is_fetch = is_fault && info.call_address == at;
        // If the site was restored, its stub may be unmapped, or other code may lie there.
        is_on_way && (state == PATCHED || state == LEFT && (is_fetch || self.has_way(is_in_stub)))
    }

    /// Returns true if the site's first byte is one that this crate writes there.
    fn may_halt(&self) -> bool {
        let mut code = [0; CALL_BYTES];
        let is_read = read_memory(self.address.load(Relaxed), &mut code);
        is_read && (matches!(code[0], HALT | SHORT) || code == SYSCALL)
    }

    /// Returns true if the site's stub (if `is_stub` is true) or pad still contains the bytes that
    /// this crate wrote.
    fn has_way(&self, is_stub: bool) -> bool {
        let [address, stub, pad, tail] =
            [&self.address, &self.stub, &self.pad, &self.tail].map(|word| word.load(Relaxed));
        let mut code = [0; STUB_BYTES];
        if is_stub {
            let back = if tail == 0 { address + CALL_BYTES } else { tail };
            read_memory(stub, &mut code) && code == stub::code(back)
        } else {
            let code = &mut code[..JUMP_BYTES];
            read_memory(pad, code) && Pad::new(address, pad, stub).is_some_and(|it| it.long == code)
        }
    }
}

/// If a thread was interrupted in the pad or stub of a site, moves its context to the site. Returns
/// true if the context was moved, or was already at a site that is being changed (di-18).
pub(crate) fn leave(context: &mut Context, info: &Info) -> bool {
    if !HAS_STUBS.load(Acquire) {
        return false;
    }
    let at = context.instruction();
    let site = TABLE.iter().find(|site| site.leads_to(at, info));
    site.inspect(|site| context.set_instruction(site.address.load(Relaxed))).is_some()
}

/// Returns the address after the call of the site whose calls return to `back`.
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

/// If a thread was interrupted in a tail, moves its context to the same position in the code after
/// the call of the tail's site.
pub(crate) fn leave_tail(context: &mut Context) {
    let Some((tail, progress)) = tail::progress(context.instruction()) else { return };
    let Some(behind) = behind_of(tail) else { return };
    match progress {
        Progress::Before => context.set_return(behind),
        Progress::Behind(bytes) => context.set_instruction(behind + bytes),
    }
}
