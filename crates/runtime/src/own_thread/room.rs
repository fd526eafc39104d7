//! Where the runtime's own thread has its stack and its thread-local storage.
//!
//! # Safety
//! The room stays mapped, and its storage is laid out by the thread that has it.
#![allow(unsafe_code)]

use crate::system::system;
use dispatch::Storage;

const PAGE: usize = 4096;
/// Only what is touched of it takes memory.
const STACK_BYTES: usize = 256 << 10;

/// Addresses of the room.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) stack_end: usize,
    pub(super) pointer: usize,
}

/// Maps a room.
pub(super) fn map_room() -> Option<Room> {
    let (below, above) = Storage::find().room();
    let below = below.next_multiple_of(PAGE);
    let bytes = PAGE + STACK_BYTES + below + above;
    let (prot, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let args = [0, bytes, prot as usize, flags as usize, usize::MAX, 0];
    let start = system(libc::SYS_mmap, args).ok()?;
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    let open = [start + PAGE, bytes - PAGE, prot as usize, 0, 0, 0];
    system(libc::SYS_mprotect, open).ok()?;
    let stack_end = start + PAGE + STACK_BYTES;
    Some(Room { stack_end, pointer: stack_end + below })
}

impl Room {
    /// Lays the thread's storage out. The caller has the room.
    pub(super) fn lay_out(&self) {
        // SAFETY: the room is the caller's; no thread writes behind the pointer but to its words.
        unsafe { Storage::find().lay_out(self.pointer) };
    }
}
