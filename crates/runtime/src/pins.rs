//! The memory that the kernel accesses during a system call. The blocks of this memory are filled
//! before the call, and pinned during it.
//!
//! ```text
//!   note:  | list, or 0 | ranges and flags | start, end | start, end | start, end | helper |
//! ```
//! pl-2: each call has a note, which contains the ranges that are pinned for the call. The ranges
//! are unpinned once, when the call has ended. Ranges that do not fit into the note are in a list
//! on the runtime's heap.
//!
//! # Safety
//! The list is boxed. The box is freed when its address is removed from the note.
#![allow(unsafe_code)]

use crate::policy::UNKNOWN_BYTES;
use crate::windows::{around, parts_within};
use calls::{Access, Memory};
use dispatch::NOTE_WORDS;
use std::ops::Range;
use zmem::Arena;

/// The index of the word in a note that identifies a helper (pl-27). The word is 0 if there is no
/// helper.
pub(crate) const HELPER: usize = NOTE_WORDS - 1;
/// The number of ranges that fit into a note.
const INLINE: usize = (HELPER - 2) / 2;
/// A flag in the second word of a note: the call was issued twice.
const RETRIED: u64 = 1 << 32;
/// A flag in the second word of a note: the call accesses memory of the arena.
const IN_ARENA: u64 = 1 << 33;

/// The data that are stored for a call while it is issued.
pub(crate) type Note = [u64; NOTE_WORDS];

/// Reads the program's memory. `calls::ranges` reads only memory that [`hold`] has filled.
struct ProgramMemory;

impl Memory for ProgramMemory {
    fn read(&self, address: usize, into: &mut [u8]) -> bool {
        dispatch::read_memory(address, into)
    }
}

/// Fills and pins the blocks that a call accesses. If `is_lasting`, the blocks stay pinned after
/// the call's return, because the kernel may access them later. Returns whether all memory that the
/// call can access is pinned.
pub(crate) fn take(
    arena: &Arena,
    call: (usize, [usize; 6]),
    note: &mut Note,
    is_lasting: bool,
) -> bool {
    let mut is_all = true;
    calls::ranges(call.0, call.1, &ProgramMemory, &mut |range, access| {
        let is_known = access != Access::Unknown;
        let end = if is_known { range.end } else { range.start.saturating_add(UNKNOWN_BYTES) };
        is_all &= is_known;
        is_all &= hold(arena, note, range.start..end, is_lasting);
    });
    is_all
}

/// Fills and pins the blocks that overlap `range`, as [`take`] does. Returns false if a block could
/// not be pinned.
pub(crate) fn hold(arena: &Arena, note: &mut Note, range: Range<usize>, is_lasting: bool) -> bool {
    parts_within(arena, &range).fold(true, |is_held, part| {
        note[1] |= IN_ARENA;
        let blocks = around(arena, &part);
        let is_pinned = arena.pin(blocks.clone()).is_ok();
        if is_pinned && !is_lasting {
            add(note, blocks);
        }
        is_held && is_pinned
    })
}

/// Unpins the blocks that were pinned for a call. Returns the total size in bytes of the unpinned
/// ranges.
pub(crate) fn release(arena: &Arena, note: &mut Note) -> usize {
    let mut bytes = 0;
    let mut unpin = |range: Range<usize>| {
        bytes += range.len();
        let _pinned = arena.unpin(range);
    };
    let count = (note[1] as u32) as usize;
    let inline = note[2..HELPER].chunks(2).take(count.min(INLINE));
    inline.for_each(|range| unpin(range[0] as usize..range[1] as usize));
    if note[0] != 0 {
        // SAFETY: `add` stored the address of a box, and the note's word is cleared below.
        let list: Box<Vec<Range<usize>>> =
            unsafe { Box::from_raw(std::ptr::with_exposed_provenance_mut(note[0] as usize)) };
        list.into_iter().for_each(unpin);
    }
    note[0] = 0;
    note[1] &= RETRIED | IN_ARENA;
    bytes
}

/// Returns whether the runtime reissues a call that failed with EFAULT. The runtime reissues a call
/// once, and only if the call accesses memory of the arena. A call that accesses no memory of the
/// arena would fail again, and if it receives datagrams, it would lose another datagram.
pub(crate) fn retry(note: &mut Note) -> bool {
    let is_first = note[1] & (RETRIED | IN_ARENA) == IN_ARENA;
    note[1] |= RETRIED;
    is_first
}

/// Adds a range to the pinned ranges in a note.
fn add(note: &mut Note, range: Range<usize>) {
    let count = (note[1] as u32) as usize;
    note[1] += 1;
    if count < INLINE {
        note[2 + 2 * count] = range.start as u64;
        note[3 + 2 * count] = range.end as u64;
        return;
    }
    if note[0] == 0 {
        let list: Box<Vec<Range<usize>>> = Box::default();
        note[0] = Box::into_raw(list).expose_provenance() as u64;
    }
    // SAFETY: the address is the address of a box, which only the call's thread uses.
    let list: &mut Vec<Range<usize>> =
        unsafe { &mut *std::ptr::with_exposed_provenance_mut(note[0] as usize) };
    list.push(range);
}
