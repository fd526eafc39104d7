//! The range of code whose system calls are not dispatched, and what copies from and to memory of
//! the program's.
//!
//! ```text
//!   start | restorer | entry: our thread pointer, the handler, the program's pointer | syscall
//!         | issue: unblock, region, [syscall] issued, block, region_end
//!         | clone: parent returns, child -> begins -> rt_sigreturn | leave | end
//! ```
//! # Safety
//! All of it keeps the C convention, or never returns. The stack is this thread's own; that of a
//! child is the block that it was made for.
#![allow(unsafe_code)]

use std::arch::global_asm;

global_asm!(include_str!("instructions.s"), include_str!("simple.s"), include_str!("outside.s"));

// SAFETY: these are the symbols above, with the arguments that their comments name.
unsafe extern "C" {
    static uzram_dispatch_start: u8;
    static uzram_dispatch_end: u8;
    static uzram_dispatch_restorer: u8;
    static uzram_dispatch_entry: u8;
    static mut uzram_dispatch_is_fast: bool;
    static uzram_dispatch_called: u8;
    static uzram_dispatch_region: u8;
    static uzram_dispatch_issued: u8;
    static uzram_dispatch_region_end: u8;
    static uzram_dispatch_copying: u8;
    static uzram_dispatch_copied: u8;
    #[link_name = "uzram_dispatch_syscall"]
    fn call_allowed(n: usize, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> isize;
    fn uzram_dispatch_issue(issue: *mut Issue);
    fn uzram_dispatch_clone(n: usize, args: *const usize, frame: usize, begins: Begins) -> isize;
    fn uzram_dispatch_leave(start: usize, bytes: usize, number: usize, code: usize) -> !;
    fn uzram_dispatch_copy(to: usize, from: usize, bytes: usize) -> usize;
}

/// What a child calls first, with its frame.
pub(crate) type Begins = extern "C" fn(usize);

/// A call as the instructions above read it.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Issue {
    pub(crate) number: usize,
    pub(crate) args: [usize; 6],
    pub(crate) result: isize,
    /// The mask while it lasts; null: none comes.
    pub(crate) mask: *const u64,
    /// The mask that this thread has before, and has again.
    pub(crate) block: *const u64,
}

/// Where a thread was interrupted in [`issue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The system is to be asked yet, or once more.
    Before,
    /// It has answered, and the result is in the register.
    Answered,
    /// The result is in [`Issue`].
    Kept,
}

/// The symbol's address.
macro_rules! address {
    ($symbol:ident) => {
        (&raw const $symbol).addr()
    };
}

/// Start and bytes of the range.
pub(crate) fn range() -> (usize, usize) {
    let start = address!(uzram_dispatch_start);
    (start, address!(uzram_dispatch_end) - start)
}

/// What handlers return to.
pub(crate) fn restorer() -> usize {
    address!(uzram_dispatch_restorer)
}

/// The handler of all signals, which calls `on_signal`.
pub(crate) fn entry() -> usize {
    address!(uzram_dispatch_entry)
}

/// Says whether the processor's instructions may read and write the thread pointer.
///
/// # Safety
/// No thread is armed yet. The system lets programs use the instructions, if so.
pub(crate) unsafe fn set_fast(is_fast: bool) {
    // SAFETY: the caller vouches for it; handlers read the byte once threads are armed.
    unsafe { uzram_dispatch_is_fast = is_fast };
}

/// Where in [`issue`] `instruction` is, if signals may come there.
pub(crate) fn stage(instruction: usize) -> Option<Stage> {
    let (start, issued) = (address!(uzram_dispatch_region), address!(uzram_dispatch_issued));
    if !(start..address!(uzram_dispatch_region_end)).contains(&instruction) {
        return None;
    }
    Some(match instruction.cmp(&issued) {
        std::cmp::Ordering::Less => Stage::Before,
        std::cmp::Ordering::Equal => Stage::Answered,
        std::cmp::Ordering::Greater => Stage::Kept,
    })
}

/// Where a copy goes on that failed at `instruction`, if it is one.
pub(crate) fn after_copy(instruction: usize) -> Option<usize> {
    (instruction == address!(uzram_dispatch_copying)).then(|| address!(uzram_dispatch_copied))
}

/// Makes a system call that is not dispatched; the result, or an error's number below 0.
///
/// # Safety
/// As the call itself; it does not return twice.
pub unsafe fn raw_syscall(number: usize, args: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = args;
    // SAFETY: the caller vouches for the call.
    unsafe { call_allowed(number, a, b, c, d, e, f) }
}

/// Returns the address at which a filter of system calls sees the calls of [`raw_syscall`].
pub fn raw_syscall_address() -> usize {
    address!(uzram_dispatch_called)
}

/// Issues a call.
///
/// # Safety
/// `issue` lies in memory of this thread's own. With a mask what is on this stack may be left, and
/// never come back.
pub(crate) unsafe fn issue(issue: *mut Issue) {
    // SAFETY: the caller vouches for it.
    unsafe { uzram_dispatch_issue(issue) }
}

/// Makes a child whose program goes on with the frame at `frame`; its number, or an error.
///
/// # Safety
/// The arguments name the place below `frame` as the child's stack, and the frame is one that the
/// system can return from.
pub(crate) unsafe fn clone(
    number: usize,
    args: &[usize; 5],
    frame: usize,
    begins: Begins,
) -> isize {
    // SAFETY: the caller vouches for it.
    unsafe { uzram_dispatch_clone(number, args.as_ptr(), frame, begins) }
}

/// Gives the block back that this runs on, and ends by the call `number`.
///
/// # Safety
/// Nobody looks at the block any more, and no signal can come.
pub(crate) unsafe fn leave(start: usize, bytes: usize, number: usize, code: usize) -> ! {
    // SAFETY: the caller vouches for it.
    unsafe { uzram_dispatch_leave(start, bytes, number, code) }
}

/// Copies bytes; whether all were. One side may be memory that is not there.
///
/// # Safety
/// What is written to is nobody's, or the program's to give; handlers of this crate are installed.
pub(crate) unsafe fn copy(to: usize, from: usize, bytes: usize) -> bool {
    // SAFETY: the caller vouches for it.
    unsafe { uzram_dispatch_copy(to, from, bytes) == 0 }
}
