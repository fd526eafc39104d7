//! Memory areas of the C library to which the kernel writes on behalf of a thread.
//!
//! # Safety
//! The process has only one thread, which later runs the program.
#![allow(unsafe_code)]

use std::arch::asm;

const RSEQ_UNREGISTER: usize = 1;
const RSEQ_SIGNATURE: usize = 0x5305_3053;
const RSEQ_BYTES: usize = 32;
const AT_RSEQ_FEATURE_SIZE: u64 = 27;
const AT_RSEQ_ALIGN: u64 = 28;
/// The size of `struct robust_list_head` in bytes.
const ROBUST_LIST_BYTES: usize = 24;

/// Unregisters the areas of this process's C library. The program's C library registers its own
/// areas.
pub(crate) fn unregister() {
    // SAFETY: the calls only unregister the areas from the kernel. This thread holds no robust
    // mutex that the kernel would have to release.
    unsafe {
        libc::syscall(libc::SYS_set_robust_list, 0, ROBUST_LIST_BYTES);
        libc::syscall(libc::SYS_set_tid_address, 0);
    }
    let (offset, size): (*const isize, *const u32);
    // SAFETY: the symbols are weak. Each yields an address, or null if the C library does not
    // define the symbol.
    unsafe {
        asm!(
            ".weak __rseq_offset",
            ".weak __rseq_size",
            "mov {offset}, [rip + __rseq_offset@GOTPCREL]",
            "mov {size}, [rip + __rseq_size@GOTPCREL]",
            offset = out(reg) offset,
            size = out(reg) size,
        );
        if offset.is_null() || size.is_null() || *size == 0 {
            return;
        }
        let area = (libc::pthread_self() as usize).wrapping_add_signed(*offset);
        let feature = |name: u64, least: usize| (libc::getauxval(name) as usize).max(least);
        let bytes = feature(AT_RSEQ_FEATURE_SIZE, RSEQ_BYTES);
        let bytes = bytes.next_multiple_of(feature(AT_RSEQ_ALIGN, RSEQ_BYTES));
        libc::syscall(libc::SYS_rseq, area, bytes, RSEQ_UNREGISTER, RSEQ_SIGNATURE);
    }
}
