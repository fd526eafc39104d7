//! The cause of a fault that the program gets to see: addresses of the arena have marks and
//! protections of the runtime, and the kernel names those.
//!
//! # Safety
//! The structure is the kernel's, in the frame of the thread's own signal.
#![allow(unsafe_code)]

use crate::pieces::Pieces;
use crate::windows;
use zmem::Arena;

/// The kernel's codes for an address without a mapping, and for one that is protected.
const UNMAPPED: i32 = 1;
const PROTECTED: i32 = 2;

/// Returns the address of a fault that the kernel reports by a mapping's absence or protection.
pub(crate) fn address(info: *const libc::siginfo_t) -> Option<usize> {
    // SAFETY: the structure is this thread's, and of a fault.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    [UNMAPPED, PROTECTED].contains(&code).then_some(address)
}

/// Sets the code of a SIGSEGV at an address of the arena, by what the program has mapped there.
pub(crate) fn correct(info: *const libc::siginfo_t, arena: &Arena, pieces: &Pieces) {
    let Some(address) = address(info) else { return };
    // SAFETY: as above.
    let info = unsafe { &mut *info.cast_mut() };
    if windows::has(arena, address) {
        let is_free = pieces.is_empty(address..address + 1);
        info.si_code = if is_free { UNMAPPED } else { PROTECTED };
    }
}
