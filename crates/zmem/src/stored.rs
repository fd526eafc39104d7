//! Stores the data of blocks on the device, and frees them there. A *copy* is data on the device
//! that no thread reads, because the block is resident or was freed. All functions except
//! `note_copies` and `is_stored` run under the eviction lock.

use crate::counters::count;
use crate::options::is_zero;
use crate::owned::for_runs;
use crate::pager::Pager;
use crate::policy::CLOCK_WINDOW;
use crate::state::State;
use std::ops::Range;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

/// Frees the data of blocks on the device. Returns whether all of these data were freed. To free a
/// part of a device block, the device needs memory, which the system may refuse.
pub(crate) fn discard(pager: &Pager, blocks: Range<usize>) -> bool {
    let bytes = pager.bytes_of(blocks);
    pager.device.discard(bytes.start as u64, bytes.len() as u64).is_ok()
}

/// Records that blocks may have copies, so that `drop_copies` finds these copies.
pub(crate) fn note_copies(pager: &Pager, blocks: Range<usize>) {
    for window in blocks.start / CLOCK_WINDOW..blocks.end.div_ceil(CLOCK_WINDOW) {
        // The bit is written even if it is already set. So the thread that clears the bit sees the
        // present states of the blocks.
        pager.copied[window / 64].fetch_or(1 << (window % 64), AcqRel);
    }
}

/// Frees all copies.
pub(crate) fn drop_copies(pager: &Pager) {
    for (nth, word) in pager.copied.iter().enumerate() {
        let mut bits = if word.load(Relaxed) == 0 { 0 } else { word.swap(0, AcqRel) };
        while bits != 0 {
            drop_copies_of(pager, nth * 64 + bits.trailing_zeros() as usize);
            bits &= bits - 1;
        }
    }
}

/// Frees the copies of a clock window's blocks. Copies that can't be freed are recorded again.
fn drop_copies_of(pager: &Pager, window: usize) {
    let has_copy = |block: usize| {
        let seen = pager.words[block].load();
        if seen.state() == State::Busy {
            // If the owner is filling the block, a copy will exist after the fill. This thread must
            // not wait for the owner, because a child can lack the owner (zm-F3).
            note_copies(pager, block..block + 1);
        }
        seen.has_copy() && seen.state() != State::Busy
    };
    for_runs(pager.blocks_of_window(window), usize::MAX, has_copy, |run| {
        if discard(pager, run.clone()) {
            run.for_each(|block| pager.words[block].set_copy(false));
        } else {
            note_copies(pager, run);
        }
    });
}

/// Returns the fate of each block: `Zeros` if the block is all zeros, otherwise `Waiting`.
pub(crate) fn defer(pager: &Pager, run: Range<usize>, data: &[u8]) -> Outcome {
    debug_assert!(run.len() <= CLOCK_WINDOW);
    let mut outcome = ALL_STORED;
    for (fate, data) in outcome.iter_mut().zip(data.chunks(pager.sizes.block)) {
        *fate = if is_zero(data) { Fate::Zeros } else { Fate::Waiting };
    }
    outcome
}

/// Stores the blocks of a run that are not all zeros. Returns the fate of each block.
pub(crate) fn store(pager: &Pager, run: Range<usize>, data: &[u8]) -> Outcome {
    let mut outcome = ALL_STORED;
    // The number of blocks of the region in a block of the device, or 1 if blocks of the region are
    // larger (zm-M2).
    let step = (pager.sizes.device_block / pager.sizes.block).max(1);
    let of = |blocks: &Range<usize>| {
        &data[pager.bytes_of(blocks.start - run.start..blocks.end - run.start)]
    };
    let is_zero = |block: usize| is_zero(of(&(block..block + 1)));
    let mut start = run.start;
    while start < run.end {
        let end = run.end.min((start / step + 1) * step);
        let part = start..start + (start..end).take_while(|block| !is_zero(*block)).count();
        if part.is_empty() {
            outcome[start - run.start] = Fate::Zeros;
            start += 1;
            continue;
        }
        if !is_stored(pager, part.clone(), of(&part)) {
            outcome[part.start - run.start..part.end - run.start].fill(Fate::Kept);
        }
        start = part.end;
    }
    outcome
}

/// Writes blocks to the device. Returns whether this saves memory. Counts blocks that the device
/// refused or that did not compress.
pub(crate) fn is_stored(pager: &Pager, blocks: Range<usize>, data: &[u8]) -> bool {
    let at = pager.bytes_of(blocks.clone()).start as u64;
    // A raw block, which is stored uncompressed, saves no memory. So a block stays resident if more
    // than half of its device blocks are raw.
    let parts = (data.len() / pager.sizes.device_block) as u64;
    let counter = match pager.device.write_with_outcome(at, data) {
        Ok(written) if written.raw * 2 < parts.max(1) + 1 => return true,
        Ok(_) => &pager.counters.incompressible,
        Err(_) => &pager.counters.refused,
    };
    count(counter, blocks.len());
    false
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Stored,
    /// The block is all zeros, which are not stored.
    Zeros,
    /// The block will be queued for the compressor thread.
    Waiting,
    /// The block stays resident, because the device refused it or it did not compress.
    Kept,
}

/// The fate of each block of a run. A run has at most `CLOCK_WINDOW` blocks.
pub(crate) type Outcome = [Fate; CLOCK_WINDOW];

pub(crate) const ALL_STORED: Outcome = [Fate::Stored; CLOCK_WINDOW];
