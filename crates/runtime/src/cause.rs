//! Corrects the cause of a fault before the program sees it, because the kernel derives the cause
//! from the runtime's own protections in the arena.
//!
//! # Safety
//! The `siginfo_t` lies in the frame of a signal of this thread, where the kernel wrote it.
#![allow(unsafe_code)]

use crate::kernel::{SEGV_ACCERR, SEGV_MAPERR};
use crate::pieces::Pieces;
use crate::windows;
use zmem::Arena;

/// Returns the address of a fault that a missing mapping or a protection has caused. Returns `None`
/// for other faults.
pub(crate) fn address(info: *const libc::siginfo_t) -> Option<usize> {
    // SAFETY: the structure describes a fault of this thread, so the structure contains an address.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    [SEGV_MAPERR, SEGV_ACCERR].contains(&code).then_some(address)
}

/// Corrects the code of a SIGSEGV at an address of the arena, according to the program's mappings.
pub(crate) fn correct(info: *const libc::siginfo_t, arena: &Arena, pieces: &Pieces) {
    let Some(address) = address(info) else { return };
    // SAFETY: the structure belongs to a signal of this thread, and no other code accesses it.
    let info = unsafe { &mut *info.cast_mut() };
    if windows::has(arena, address) {
        let is_free = pieces.is_empty(address..address + 1);
        info.si_code = if is_free { SEGV_MAPERR } else { SEGV_ACCERR };
    }
}
