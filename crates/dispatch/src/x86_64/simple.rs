//! Simple calls: the instructions that issue them, and what these know of the process.
//!
//! ```text
//!   site: jmp -> stub: rcx = the address behind it -> `simple`: syscall -> site
//!                                                         '- not simple: `slow` -> SIGSYS
//! ```
//! di-12: `simple` issues a call with a buffer only if no byte of that can be evicted during the
//! call. Others are dispatched if they fail with EFAULT.
//!
//! # Safety
//! The words of blocks outlive all threads.
#![allow(unsafe_code)]

use std::mem::offset_of;
use std::ops::Range;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};

const CLASSES_MAX: usize = 512;
/// The state of a block's word that permits calls: the block is resident. It is in the low 4 bits.
pub const RESIDENT: u32 = 1;
/// The same: the block is not managed.
pub const PLAIN: u32 = 7;
/// One pin in a block's word. Pins are the upper 16 bits.
pub const PIN: u32 = 1 << 16;

/// How `simple` handles a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// The kernel dispatches it.
    Dispatched = 0,
    /// It is issued. If it fails with EFAULT it has done nothing.
    Direct = 1,
    /// The same, with a buffer at its second argument of as many bytes as its third says.
    Buffer = 2,
    /// The same, if the last two arguments are null and the fourth has no MSG_ZEROCOPY.
    Receive = 3,
    /// It is issued unless its first argument is the hook's own descriptor.
    Close = 4,
    /// It is issued unless the path at its first argument begins with `/p`.
    Path = 5,
    /// It is issued unless the path at its second argument begins with `/p`.
    PathAt = 6,
}

/// The process as `simple` sees it.
#[derive(Debug)]
pub struct Simple {
    /// Calls are dispatched while it is not 0.
    pub gate: &'static AtomicU64,
    /// Threads of the process.
    pub threads: &'static AtomicUsize,
    /// Managed addresses; a multiple of the block's bytes.
    pub memory: Range<usize>,
    /// The word of each block, from the first on.
    pub words: &'static [AtomicU32],
    /// The bytes of a block, a power of two.
    pub block: usize,
    /// The descriptor that the hook keeps open.
    pub descriptor: Option<i32>,
    /// The class of each call.
    pub class: fn(i64) -> Class,
}

#[repr(C)]
struct State {
    gate: AtomicPtr<AtomicU64>,
    threads: AtomicPtr<AtomicUsize>,
    words: AtomicPtr<AtomicU32>,
    start: AtomicUsize,
    end: AtomicUsize,
    shift: AtomicU32,
    descriptor: AtomicI32,
    classes: [AtomicU8; CLASSES_MAX],
    windows_start: AtomicUsize,
    windows_end: AtomicUsize,
}

const _: () = assert!(offset_of!(State, gate) == 0 && offset_of!(State, threads) == 8);
const _: () = assert!(offset_of!(State, words) == 16 && offset_of!(State, start) == 24);
const _: () = assert!(offset_of!(State, end) == 32 && offset_of!(State, shift) == 40);
const _: () = assert!(offset_of!(State, descriptor) == 44 && offset_of!(State, classes) == 48);
const _: () = assert!(CLASSES_MAX == 512 && offset_of!(State, windows_start) == 560);
const _: () = assert!(offset_of!(State, windows_end) == 568 && size_of::<State>() == 576);

// SAFETY: the symbol is of simple.s.
unsafe extern "C" {
    #[link_name = "uzram_dispatch_state"]
    static STATE: State;
}

fn state() -> &'static State {
    // SAFETY: the symbol is as long as the type, aligned, and changed by atomics alone.
    unsafe { &STATE }
}

/// Returns the class of a call; all are dispatched until [`set`].
pub(crate) fn is_simple(number: usize) -> bool {
    state().classes.get(number).is_some_and(|class| class.load(Relaxed) != 0)
}

/// Begins to issue simple calls as `simple` says.
pub fn set(simple: &Simple) {
    let it = state();
    it.gate.store((&raw const *simple.gate).cast_mut(), Relaxed);
    it.threads.store((&raw const *simple.threads).cast_mut(), Relaxed);
    it.words.store(simple.words.as_ptr().cast_mut(), Relaxed);
    it.start.store(simple.memory.start, Relaxed);
    it.end.store(simple.memory.end, Relaxed);
    it.shift.store(simple.block.trailing_zeros(), Relaxed);
    it.descriptor.store(simple.descriptor.unwrap_or(-1), Relaxed);
    for (number, class) in it.classes.iter().enumerate() {
        class.store((simple.class)(number as i64) as u8, Release);
    }
}

/// Has calls with a buffer in these addresses be dispatched: memory is managed there, of which the
/// words say nothing.
pub fn set_windows(windows: &Range<usize>) {
    // At no time are they too few.
    state().windows_start.store(windows.start, Relaxed);
    state().windows_end.store(windows.end, Release);
}
