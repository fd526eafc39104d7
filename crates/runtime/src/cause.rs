//! The cause of a fault that the program gets to see: addresses of the arena have marks and
//! protections of the runtime, and the kernel names those.
//!
//! # Safety
//! The structure is the kernel's, in the frame of the thread's own signal.
#![allow(unsafe_code)]

use crate::pieces::Pieces;
use zmem::Arena;

/// The kernel's codes for an address without a mapping, and for one that is protected.
const UNMAPPED: i32 = 1;
const PROTECTED: i32 = 2;

/// Sets the code of a SIGSEGV at an address of the arena, by what the program has mapped there.
pub(crate) fn correct(info: *const libc::siginfo_t, arena: &Arena, pieces: &Pieces) {
    // SAFETY: the structure is this thread's, and of a fault.
    let (info, address) = unsafe { (&mut *info.cast_mut(), (*info).si_addr().addr()) };
    let is_ours = arena.windows().any(|window| window.contains(&address));
    if is_ours && [UNMAPPED, PROTECTED].contains(&info.si_code) {
        let is_free = pieces.is_empty(address..address + 1);
        info.si_code = if is_free { UNMAPPED } else { PROTECTED };
    }
}
