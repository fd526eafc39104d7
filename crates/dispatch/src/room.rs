//! The memory of a thread of the hook, or of a process of the hook that shares the address space.
//!
//! ```text
//!   | PROT_NONE | stack, from its end down | storage: zeros, ours | pointer to itself |
//! ```
//! The C library and the program have no record of the thread, because a system call of this crate
//! creates the thread. The thread is not armed. The thread calls only functions of the C library
//! that work with zeroed thread-local storage (di-9).
//!
//! # Safety
//! The caller owns the `Room`, and lets one thread at a time use it.
#![allow(unsafe_code)]

use crate::policy::{PAGE, STACK_BYTES};
use crate::storage::Storage;
use crate::system::system;
use crate::x86_64::instructions::leave;
use std::arch::asm;
use std::ffi::{c_int, c_void};
use std::ptr::with_exposed_provenance_mut;
use std::sync::atomic::AtomicU32;

/// The function that a `Room`'s thread runs.
pub type Run = unsafe extern "C" fn(*mut c_void) -> !;

/// The memory of a thread, with a stack and thread-local storage.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    start: usize,
    bytes: usize,
    stack_end: usize,
    pointer: usize,
}

impl Room {
    /// Maps a `Room`.
    pub fn map() -> Option<Self> {
        let (below, above) = Storage::find().room();
        let below = below.next_multiple_of(PAGE);
        let bytes = PAGE + STACK_BYTES + below + above;
        let (prot, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let args = [0, bytes, prot as usize, flags as usize, usize::MAX, 0];
        let start = system(libc::SYS_mmap, args).ok()?;
        let stack_end = start + PAGE + STACK_BYTES;
        let room = Room { start, bytes, stack_end, pointer: stack_end + below };
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let open = [start + PAGE, bytes - PAGE, prot as usize, 0, 0, 0];
        if system(libc::SYS_mprotect, open).is_err() {
            room.unmap();
            return None;
        }
        Some(room)
    }

    /// Excludes the `Room` from the memory of children that this process forks later.
    pub fn keep_from_children(&self) {
        let advice = libc::MADV_DONTFORK as usize;
        let _kept = system(libc::SYS_madvise, [self.start, self.bytes, advice, 0, 0, 0]);
    }

    /// Unmaps the `Room`. The caller guarantees that no thread uses the `Room`.
    pub fn unmap(self) {
        let _unmapped = system(libc::SYS_munmap, [self.start, self.bytes, 0, 0, 0, 0]);
    }

    /// Returns the lowest address of the `Room`'s stack. The caller can store data in the page at
    /// this address.
    pub fn data(&self) -> *mut c_void {
        with_exposed_provenance_mut(self.start + PAGE)
    }

    /// Creates a thread, or a process that shares this memory. The new thread calls `run` with
    /// `argument`. `flags` are flags of `clone`. The flags can request that the kernel writes the
    /// thread's ID to `number` when the thread starts, and 0 when it ends. Returns the thread's ID,
    /// or a negative error number.
    ///
    /// # Safety
    /// No other thread uses the `Room`. `flags` include CLONE_VM and CLONE_SETTLS. `run` accepts
    /// `argument`. If the new thread shares the signal handlers, all signals are blocked.
    pub unsafe fn start(
        &self,
        flags: c_int,
        number: *const AtomicU32,
        run: Run,
        argument: *mut c_void,
    ) -> isize {
        // SAFETY: the caller owns the `Room`. Above the thread pointer, threads write only to the
        // words that `lay_out` writes.
        unsafe { Storage::find().lay_out(self.pointer) };
        let stack = with_exposed_provenance_mut::<usize>(self.stack_end - 16);
        let result: isize;
        // SAFETY: the stack's last words are in the `Room`. The new thread reads these words, and
        // never returns. This thread continues as after any system call.
        unsafe {
            stack.write(argument.expose_provenance());
            stack.add(1).write(run as *const () as usize);
            asm!(
                "syscall",
                "test rax, rax",
                "jnz 2f",
                "xor ebp, ebp",
                "pop rdi",
                "pop rax",
                "call rax",
                "ud2",
                "2:",
                inlateout("rax") libc::SYS_clone => result,
                in("rdi") flags as usize,
                in("rsi") stack,
                in("rdx") number,
                in("r10") number,
                in("r8") self.pointer,
                lateout("rcx") _,
                lateout("r11") _,
            );
        }
        result
    }

    /// Unmaps the `Room`, and ends the thread that runs in it.
    ///
    /// # Safety
    /// The caller runs in the `Room` and has all signals blocked. No other thread accesses the
    /// `Room`.
    pub unsafe fn leave(self) -> ! {
        // SAFETY: the caller guarantees that no other thread accesses the `Room` and no signal
        // arrives.
        unsafe { leave(self.start, self.bytes, libc::SYS_exit as usize, 0) }
    }
}
