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
/// The red zone, and the slots below it.
pub(crate) const TAKEN: usize = 192;

/// The bytes of a block's word.
pub(crate) const WORD_BYTES: usize = size_of::<u32>();
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
}

const _: () = assert!(offset_of!(State, gate) == 0 && offset_of!(State, threads) == 8);
const _: () = assert!(offset_of!(State, words) == 16 && offset_of!(State, start) == 24);
const _: () = assert!(offset_of!(State, end) == 32 && offset_of!(State, shift) == 40);
const _: () = assert!(offset_of!(State, descriptor) == 44 && offset_of!(State, classes) == 48);
const _: () = assert!(size_of::<State>() == 48 + CLASSES_MAX);

// SAFETY: these are the symbols of simple.s and outside.s.
unsafe extern "C" {
    #[link_name = "uzram_dispatch_state"]
    static STATE: State;
    static uzram_dispatch_simple: u8;
    static uzram_dispatch_simple_begins: u8;
    static uzram_dispatch_simple_returns: u8;
    static uzram_dispatch_simple_numbered: u8;
    static uzram_dispatch_simple_decides: u8;
    static uzram_dispatch_simple_answered: u8;
    static uzram_dispatch_simple_pins: u8;
    static uzram_dispatch_simple_swapped: u8;
    static uzram_dispatch_simple_pinned: u8;
    static uzram_dispatch_simple_pinned_call: u8;
    static uzram_dispatch_simple_pinned_done: u8;
    static uzram_dispatch_simple_unpins: u8;
    static uzram_dispatch_simple_unpin: u8;
    static uzram_dispatch_simple_unpinned: u8;
    static uzram_dispatch_simple_released: u8;
    static uzram_dispatch_simple_exits: u8;
    static uzram_dispatch_simple_leaves: u8;
    static uzram_dispatch_simple_undoes: u8;
    static uzram_dispatch_simple_undo: u8;
    static uzram_dispatch_simple_undone: u8;
    static uzram_dispatch_simple_done: u8;
    static uzram_dispatch_simple_retries: u8;
    static uzram_dispatch_simple_end: u8;
    static uzram_dispatch_slow: u8;
    static uzram_dispatch_slow_end: u8;
}

macro_rules! at {
    ($symbol:ident) => {
        (&raw const $symbol).addr()
    };
}

fn state() -> &'static State {
    // SAFETY: the symbol is as long as the type, aligned, and changed by atomics alone.
    unsafe { &STATE }
}

/// Returns where stubs jump to.
pub(crate) fn entry() -> usize {
    at!(uzram_dispatch_simple)
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

/// Blocks that a thread has pinned which was interrupted in `simple`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pinned {
    Nothing,
    /// From the slot `FIRST` to the slot `LAST`.
    All,
    /// From the slot `FIRST` to the word before r11, and this number of bytes more.
    Before(usize),
    /// From rcx and this number of bytes to the slot `LAST`.
    From(usize),
}

/// Where the result of a call is that `simple` has issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Result {
    /// There is none.
    None,
    /// In rax, and EFAULT has the call dispatched.
    Tried,
    /// In rax.
    Register,
    /// In the slot `RESULT`.
    Slot,
}

/// What a thread has done that was interrupted in `simple` or `slow`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The bytes by which its stack is longer than the program's.
    pub(crate) taken: usize,
    /// Whether the slot `RETURN` has the return address; else rcx has it.
    pub(crate) has_return: bool,
    /// Whether the slot `NUMBER` has rax.
    pub(crate) has_number: bool,
    /// Whether the slot `FLAGS` has the flags.
    pub(crate) has_flags: bool,
    pub(crate) pinned: Pinned,
    pub(crate) result: Result,
}

/// Returns the place of `rip`, if it is in `simple` or `slow`. `is_zero` is the zero flag.
pub(crate) fn place(rip: usize, is_zero: bool) -> Option<Place> {
    let is_slow = rip == at!(uzram_dispatch_slow);
    if !is_slow && !(at!(uzram_dispatch_simple)..at!(uzram_dispatch_simple_end)).contains(&rip) {
        return None;
    }
    let is_left = rip == at!(uzram_dispatch_simple_leaves);
    let is_behind = |label: usize| is_slow || !is_left && rip >= label;
    let (pinned, result) =
        if is_slow { (Pinned::Nothing, Result::None) } else { held(rip, is_zero) };
    Some(Place {
        taken: if is_behind(at!(uzram_dispatch_simple_begins)) { TAKEN } else { 0 },
        has_return: is_behind(at!(uzram_dispatch_simple_returns)),
        has_number: is_behind(at!(uzram_dispatch_simple_numbered)),
        has_flags: is_behind(at!(uzram_dispatch_simple_decides)),
        pinned,
        result,
    })
}

fn held(rip: usize, is_zero: bool) -> (Pinned, Result) {
    let is_within = |range: Range<usize>| range.contains(&rip);
    if is_within(at!(uzram_dispatch_simple_answered)..at!(uzram_dispatch_simple_pins)) {
        (Pinned::Nothing, Result::Register)
    } else if is_within(at!(uzram_dispatch_simple_pins)..at!(uzram_dispatch_simple_pinned_call)) {
        let is_swapped = is_zero && rip == at!(uzram_dispatch_simple_swapped);
        let is_more = is_swapped || rip == at!(uzram_dispatch_simple_pinned);
        (Pinned::Before(if is_more { WORD_BYTES } else { 0 }), Result::None)
    } else if rip == at!(uzram_dispatch_simple_pinned_call) {
        (Pinned::All, Result::None)
    } else if rip == at!(uzram_dispatch_simple_pinned_done) {
        (Pinned::All, Result::Register)
    } else if is_within(at!(uzram_dispatch_simple_unpins)..at!(uzram_dispatch_simple_unpin)) {
        (Pinned::All, Result::Slot)
    } else if is_within(at!(uzram_dispatch_simple_unpin)..at!(uzram_dispatch_simple_released)) {
        let is_done = rip == at!(uzram_dispatch_simple_unpinned);
        (Pinned::From(if is_done { WORD_BYTES } else { 0 }), Result::Slot)
    } else if is_within(at!(uzram_dispatch_simple_released)..at!(uzram_dispatch_simple_exits)) {
        (Pinned::Nothing, Result::Slot)
    } else if is_within(at!(uzram_dispatch_simple_exits)..at!(uzram_dispatch_simple_undoes)) {
        (Pinned::Nothing, Result::Register)
    } else if is_within(at!(uzram_dispatch_simple_undoes)..at!(uzram_dispatch_simple_undone) + 1) {
        let is_left = rip == at!(uzram_dispatch_simple_undo);
        (Pinned::Before(if is_left { WORD_BYTES } else { 0 }), Result::None)
    } else if is_within(at!(uzram_dispatch_simple_done)..at!(uzram_dispatch_simple_retries)) {
        (Pinned::Nothing, Result::Tried)
    } else {
        (Pinned::Nothing, Result::None)
    }
}

/// Returns the address behind the instruction of `slow`.
pub(crate) fn slow_end() -> usize {
    at!(uzram_dispatch_slow_end)
}
