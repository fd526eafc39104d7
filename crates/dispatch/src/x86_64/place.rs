//! The progress of a thread that was interrupted in the instructions of a simple call (di-12).
//!
//! # Safety
//! Only the addresses of the instructions are read.
#![allow(unsafe_code)]

use std::ops::Range;

/// The total size in bytes of the red zone and of the slots below the red zone.
pub(crate) const TAKEN: usize = 192;
// The slots in which `simple` saves values, as offsets from the stack pointer.
pub(crate) const RETURN: usize = 56;
pub(crate) const NUMBER: usize = 48;
pub(crate) const FLAGS: usize = 40;
pub(crate) const FIRST: usize = 32;
pub(crate) const LAST: usize = 24;
pub(crate) const RESULT: usize = 16;

/// The size in bytes of a managed block's word.
pub(crate) const WORD_BYTES: usize = size_of::<u32>();

// SAFETY: simple.s and outside.s define these symbols.
unsafe extern "C" {
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

/// Returns the address to which stubs jump.
pub(crate) fn entry() -> usize {
    at!(uzram_dispatch_simple)
}

/// The managed blocks that a thread had pinned in `simple` when it was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pinned {
    Nothing,
    /// All managed blocks of the buffer. The slots `FIRST` and `LAST` hold the addresses of the
    /// first and the last block's word.
    All,
    /// Managed blocks with consecutive words. The first word is at the address in the slot `FIRST`.
    /// The words end at r11 plus this number of bytes.
    Before(usize),
    /// Managed blocks with consecutive words. The first word is at rcx plus this number of bytes.
    /// The last word is at the address in the slot `LAST`.
    From(usize),
}

/// The location of the result of a call that `simple` has issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Result {
    /// The call has no result yet.
    None,
    /// The result is in rax. If the result is EFAULT, the call is dispatched.
    Tried,
    /// The result is in rax.
    Register,
    /// The result is in the slot `RESULT`.
    Slot,
}

/// The progress of a thread that was interrupted in `simple` or `slow`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The number of bytes between the current stack pointer and the program's stack pointer above
    /// it.
    pub(crate) taken: usize,
    /// Whether the slot `RETURN` contains the return address. Otherwise rcx contains it.
    pub(crate) has_return: bool,
    /// Whether the slot `NUMBER` contains the program's rax.
    pub(crate) has_number: bool,
    /// Whether the slot `FLAGS` contains the program's flags.
    pub(crate) has_flags: bool,
    pub(crate) pinned: Pinned,
    pub(crate) result: Result,
}

/// Returns the progress of a thread at `rip`, if `rip` is in `simple` or `slow`. `is_zero` is the
/// thread's zero flag.
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

/// Returns the address after the call instruction of `slow`.
pub(crate) fn slow_end() -> usize {
    at!(uzram_dispatch_slow_end)
}
