//! The range of code whose system calls are not dispatched, and the instructions that copy from and
//! to the program's memory.
//!
//! ```text
//!   start | restorer | entry: our thread pointer, the handler, the program's pointer | syscall
//!         | issue: unblock, window, [syscall] issued, block, window_end
//!         | clone: parent returns, child -> begins -> rt_sigreturn | leave | end
//! ```
//! # Safety
//! All functions follow the C calling convention, or never return. The stack belongs to this
//! thread. A child's stack lies in the dispatch block that was created for the child.
#![allow(unsafe_code)]

use crate::policy::{BLOCK_BYTES, SIMPLE_BLOCKS_MAX};
use crate::x86_64::{place, tail};
use std::arch::global_asm;

global_asm!(
    include_str!("instructions.s"),
    include_str!("simple.s"),
    include_str!("outside.s"),
    block_bytes = const BLOCK_BYTES,
    blocks_max = const SIMPLE_BLOCKS_MAX,
    tails_bytes = const tail::ALL_BYTES,
    taken = const place::TAKEN,
    return_at = const place::RETURN,
    number_at = const place::NUMBER,
    flags_at = const place::FLAGS,
    first_at = const place::FIRST,
    last_at = const place::LAST,
    result_at = const place::RESULT,
);

// SAFETY: these are the symbols of the assembly files above, and the functions have the arguments
// that the files' comments describe.
unsafe extern "C" {
    static uzram_dispatch_start: u8;
    static uzram_dispatch_end: u8;
    static uzram_dispatch_restorer: u8;
    static uzram_dispatch_entry: u8;
    static mut uzram_dispatch_is_fast: bool;
    static uzram_dispatch_called: u8;
    static uzram_dispatch_window: u8;
    static uzram_dispatch_issued: u8;
    static uzram_dispatch_window_end: u8;
    static uzram_dispatch_copying: u8;
    static uzram_dispatch_copied: u8;
    #[link_name = "uzram_dispatch_syscall"]
    fn call_allowed(n: usize, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> isize;
    fn uzram_dispatch_issue(issue: *mut Issue);
    fn uzram_dispatch_clone(n: usize, args: *const usize, frame: usize, begins: Begins) -> isize;
    fn uzram_dispatch_leave(start: usize, bytes: usize, number: usize, code: usize) -> !;
    fn uzram_dispatch_copy(to: usize, from: usize, bytes: usize) -> usize;
}

/// The function that a child calls first, with the address of the child's frame.
pub(crate) type Begins = extern "C" fn(usize);

/// A call in the layout that the instructions in `issue` read.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Issue {
    pub(crate) number: usize,
    pub(crate) args: [usize; 6],
    pub(crate) result: isize,
    /// The mask during the call, or null if the mask does not change.
    pub(crate) mask: *const u64,
    /// The mask of this thread before and after the call.
    pub(crate) block: *const u64,
}

/// The position in [`issue`] at which a thread was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The call is not issued yet, or is to be issued again.
    Before,
    /// The kernel has returned, and the result is in `rax`.
    Answered,
    /// The result is stored in [`Issue::result`].
    Kept,
}

/// Returns the address of a symbol.
macro_rules! address {
    ($symbol:ident) => {
        (&raw const $symbol).addr()
    };
}

/// Returns the start of the range whose calls are not dispatched, and its length in bytes.
pub(crate) fn range() -> (usize, usize) {
    let start = address!(uzram_dispatch_start);
    (start, address!(uzram_dispatch_end) - start)
}

/// Returns the address to which handlers return.
pub(crate) fn restorer() -> usize {
    address!(uzram_dispatch_restorer)
}

/// Returns the address of the handler of all signals, which calls `uzram_dispatch_on_signal`.
pub(crate) fn entry() -> usize {
    address!(uzram_dispatch_entry)
}

/// Sets whether the thread pointer is read and written by instructions instead of system calls.
///
/// # Safety
/// No thread is armed yet. If `is_fast` is true, the kernel lets programs use the instructions.
pub(crate) unsafe fn set_fast(is_fast: bool) {
    // SAFETY: only handlers of armed threads read the byte, and the caller guarantees that no
    // thread is armed yet.
    unsafe { uzram_dispatch_is_fast = is_fast };
}

/// Returns the position of `instruction` in [`issue`], if signals are unblocked there.
pub(crate) fn stage(instruction: usize) -> Option<Stage> {
    let (start, issued) = (address!(uzram_dispatch_window), address!(uzram_dispatch_issued));
    if !(start..address!(uzram_dispatch_window_end)).contains(&instruction) {
        return None;
    }
    Some(match instruction.cmp(&issued) {
        std::cmp::Ordering::Less => Stage::Before,
        std::cmp::Ordering::Equal => Stage::Answered,
        std::cmp::Ordering::Greater => Stage::Kept,
    })
}

/// If `instruction` copies bytes for [`copy`], returns the address at which a failed copy
/// continues.
pub(crate) fn after_copy(instruction: usize) -> Option<usize> {
    (instruction == address!(uzram_dispatch_copying)).then(|| address!(uzram_dispatch_copied))
}

/// Makes a system call that is not dispatched. Returns the result, or a negative error number.
///
/// # Safety
/// The caller meets the requirements of the system call. The call does not return twice.
pub unsafe fn raw_syscall(number: usize, args: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = args;
    // SAFETY: the caller guarantees the requirements of the call.
    unsafe { call_allowed(number, a, b, c, d, e, f) }
}

/// Returns the address at which a filter of system calls sees the calls of [`raw_syscall`].
pub fn raw_syscall_address() -> usize {
    address!(uzram_dispatch_called)
}

/// Issues a call.
///
/// # Safety
/// `issue` lies in memory that only this thread uses. If the call has a mask, the thread can leave
/// this stack forever.
pub(crate) unsafe fn issue(issue: *mut Issue) {
    // SAFETY: the caller guarantees that `issue` is valid, and that nothing on this stack must be
    // undone.
    unsafe { uzram_dispatch_issue(issue) }
}

/// Creates a child whose program continues with the frame at `frame`. Returns the child's ID, or a
/// negative error number.
///
/// # Safety
/// `args` set the child's stack to end at `frame`, and the kernel can return from that frame.
pub(crate) unsafe fn clone(
    number: usize,
    args: &[usize; 5],
    frame: usize,
    begins: Begins,
) -> isize {
    // SAFETY: the caller guarantees that the stack and the frame are valid.
    unsafe { uzram_dispatch_clone(number, args.as_ptr(), frame, begins) }
}

/// Unmaps the dispatch block on whose stack this function runs, and ends the thread by the system
/// call with the number `number`.
///
/// # Safety
/// No other code accesses the block any more, and no signal can arrive.
pub(crate) unsafe fn leave(start: usize, bytes: usize, number: usize, code: usize) -> ! {
    // SAFETY: the caller guarantees that no other code uses the dispatch block and no signal
    // arrives.
    unsafe { uzram_dispatch_leave(start, bytes, number, code) }
}

/// Copies bytes. Returns whether all bytes were copied. The source or the target may be unmapped.
///
/// # Safety
/// The target is unused memory, or memory that the program lets the kernel write. The handlers of
/// this crate are installed.
pub(crate) unsafe fn copy(to: usize, from: usize, bytes: usize) -> bool {
    // SAFETY: the caller guarantees that `to` may be written and handlers are installed.
    unsafe { uzram_dispatch_copy(to, from, bytes) == 0 }
}
