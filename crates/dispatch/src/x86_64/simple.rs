//! Simple calls: the instructions that issue them, and the data about the process that these
//! instructions read.
//!
//! ```text
//!   site: jmp -> stub: rcx = the address after it -> `simple`: syscall -> site
//!                                                         '- not simple: `slow` -> SIGSYS
//! ```
//! di-12: `simple` issues a call with a buffer only if no byte of the buffer can be evicted during
//! the call. Simple calls of other kinds are dispatched if they fail with EFAULT.
//!
//! # Safety
//! The words of managed blocks outlive all threads.
#![allow(unsafe_code)]

use calls::SimpleClass;
use std::mem::offset_of;
use std::ops::Range;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};

const CLASSES_MAX: usize = 512;
/// The state of a resident managed block, in the low 4 bits of its word. Simple calls are allowed
/// to access the block.
pub const RESIDENT: u32 = 1;
/// The state of a plain block, which the kernel alone manages. Simple calls are allowed to access a
/// block in this state.
pub const PLAIN: u32 = 7;
/// One pin in a managed block's word. The upper 16 bits contain the number of pins.
pub const PIN: u32 = 1 << 16;

/// The data about the process that `simple` reads.
#[derive(Debug)]
pub struct Simple {
    /// A word that is 0 while this crate is allowed to issue simple calls.
    pub gate: &'static AtomicU64,
    /// The number of threads of the process.
    pub threads: &'static AtomicUsize,
    /// The managed addresses. The first address is a multiple of the block size.
    pub memory: Range<usize>,
    /// The state words of all managed blocks.
    pub words: &'static [AtomicU32],
    /// The size of a managed block in bytes, a power of two.
    pub block: usize,
    /// The file descriptor that the hook keeps open.
    pub descriptor: Option<i32>,
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

// SAFETY: the symbol is defined in simple.s.
unsafe extern "C" {
    #[link_name = "uzram_dispatch_state"]
    static STATE: State;
}

fn state() -> &'static State {
    // SAFETY: the symbol has the type's size and alignment, and is changed only by atomics.
    unsafe { &STATE }
}

/// Returns whether simple.s can issue calls with this number. Returns false for all numbers before
/// [`set`].
pub(crate) fn is_simple(number: usize) -> bool {
    state().classes.get(number).is_some_and(|class| class.load(Relaxed) != 0)
}

/// Lets the instructions in simple.s issue simple calls, with the state that `simple` describes.
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
        let simple = calls::spec(number).map_or(SimpleClass::No, |spec| spec.simple);
        class.store(simple as u8, Release);
    }
}

/// Sets a range of managed addresses whose blocks have no words. Calls with a buffer in this range
/// are dispatched.
pub fn set_windows(windows: &Range<usize>) {
    // The range only grows. Between the stores, the range still contains every address of the
    // earlier range.
    state().windows_start.store(windows.start, Relaxed);
    state().windows_end.store(windows.end, Release);
}
