//! Thread-local storage of this library, which handlers use.
//!
//! ```text
//!   stack: | .. used | storage: of libraries, of the program | pointer -> descriptor |
//! ```
//! pl-10: who answers a fault touches no thread-local storage that may be absent. The C library
//! finds a library's by a table for each thread, which it allocates as the program does. As this
//! library is there from the start, its storage lies at one distance from each thread's pointer:
//! so `__tls_get_addr`, which compilers call for a library's storage, is defined here anew, for
//! this library alone. Where a program gives its threads their stacks, what lies there is pinned.
//!
//! # Safety
//! The C library's functions that are called here only look at the calling thread's pointer.
#![allow(unsafe_code)]

use crate::space::Space;
use dispatch::read_memory;
use std::cell::Cell;
use zmem::Arena;

#[cfg(not(test))]
std::arch::global_asm!(include_str!("local.s"));

/// Where `clone_args` has the new thread's pointer.
const POINTER_AT: usize = 56;
/// More than a thread's descriptor and what of storage lies around a variable take.
const AROUND: usize = 4096;

thread_local! {
    static OURS: Cell<u8> = const { Cell::new(0) };
}

/// Returns how far below a thread's pointer handlers touch storage.
pub(crate) fn depth() -> usize {
    // SAFETY: see the head of this file.
    let (pointer, errno) = unsafe { (libc::pthread_self() as usize, libc::__errno_location()) };
    let ours = OURS.with(|ours| (&raw const *ours).addr());
    let least = ours.min(errno.addr());
    pointer.saturating_sub(least) + AROUND
}

/// Has the storage of a thread stay that a call makes.
pub(crate) fn keep(arena: &Arena, number: usize, args: &[usize; 6]) {
    let (flags, pointer) = match number as i64 {
        libc::SYS_clone => (args[0], args[4]),
        libc::SYS_clone3 => {
            let (mut flags, mut pointer) = ([0; 8], [0; 8]);
            if !read_memory(args[0], &mut flags)
                || !read_memory(args[0].wrapping_add(POINTER_AT), &mut pointer)
            {
                return;
            }
            (usize::from_ne_bytes(flags), usize::from_ne_bytes(pointer))
        }
        _ => return,
    };
    let of = arena.addresses();
    if flags & libc::CLONE_SETTLS as usize == 0 || !of.contains(&pointer) {
        return;
    }
    let part =
        pointer.saturating_sub(depth()).max(of.start)..pointer.saturating_add(AROUND).min(of.end);
    // What is refused leaves the thread as it was before: it may find its storage there.
    let _kept = arena.pin(Space::around(arena, &part));
}
