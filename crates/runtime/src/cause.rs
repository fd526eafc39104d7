//! The cause of a fault as the program sees it. The kernel's cause refers to the marks and
//! protections of the runtime in the arena.
//!
//! # Safety
//! The `siginfo_t` is the kernel's, in the frame of this thread's own signal.
#![allow(unsafe_code)]

use crate::pieces::Pieces;
use crate::windows;
use zmem::Arena;

/// The kernel's codes for an address without a mapping (SEGV_MAPERR), and for a protected one
/// (SEGV_ACCERR).
const UNMAPPED: i32 = 1;
const PROTECTED: i32 = 2;

/// Returns the address of a fault whose cause is that a mapping is absent or protected.
pub(crate) fn address(info: *const libc::siginfo_t) -> Option<usize> {
    // SAFETY: the structure belongs to this thread's signal, which reports a fault.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    [UNMAPPED, PROTECTED].contains(&code).then_some(address)
}

/// Corrects the code of a SIGSEGV at an address of the arena, according to the program's mappings.
pub(crate) fn correct(info: *const libc::siginfo_t, arena: &Arena, pieces: &Pieces) {
    let Some(address) = address(info) else { return };
    // SAFETY: as above.
    let info = unsafe { &mut *info.cast_mut() };
    if windows::has(arena, address) {
        let is_free = pieces.is_empty(address..address + 1);
        info.si_code = if is_free { UNMAPPED } else { PROTECTED };
    }
}
