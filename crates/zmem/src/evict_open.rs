//! Eviction by the only running thread of a process. The cold blocks of a clock window are evicted
//! without probation, because no other thread can access them during the eviction (zm-A4).
//!
//! ```text
//!   clock window:   | cold | absent | cold | hot | cold | Busy | cold |
//!   taken:      x              x            x             x       copied, stored or queued
//!   dropped: |------------------|        |---|         |----|     a call for each span
//! ```
//! zm-A5: one call marks all blocks of a span and drops their pages. A span is allowed to contain
//! absent blocks, because no other thread can fill them during the call. A `Busy` block ends the
//! span, because the compressor thread may be filling the block again. One call is faster than
//! several, because each call that drops pages interrupts the processors on which other threads of
//! this crate run.

use crate::owned::{OwnedRun, OwnedSet, for_owned};
use crate::pager::Pager;
use crate::state::{State, WordValue};
use crate::stored::{self, ALL_STORED, Fate, Outcome};
use crate::threads::WorldStopped;
use crate::{chunk, compressor_thread, depart};
use std::cell::Cell;
use std::ops::Range;

/// The blocks of a clock window that are being evicted.
struct Going<'p> {
    pager: &'p Pager,
    first: usize,
    /// Bit n is set if block `first + n` was taken. `data` holds the contents of the taken blocks
    /// in the order of their numbers.
    taken: u64,
    /// The taken blocks that are not published yet.
    owned: OwnedSet<'p>,
    outcome: Outcome,
    data: &'p mut [u8],
}

/// Evicts at most `most` blocks of a clock window, and only blocks for which `may_go` returns true.
/// Returns the number of evicted blocks.
pub(crate) fn evict_open(
    pager: &Pager,
    window: usize,
    most: usize,
    may_go: impl Fn(usize, WordValue) -> bool,
    stopped: &WorldStopped,
    buf: &mut [u8],
) -> usize {
    let blocks = pager.blocks_of_window(window);
    let (first, left) = (blocks.start, Cell::new(pager.batch().min(most)));
    let takes = |block: usize, seen: WordValue| {
        let is_taken = left.get() > 0 && may_go(block, seen);
        left.set(left.get() - usize::from(is_taken));
        is_taken
    };
    let owned = OwnedSet::new(pager, first);
    let mut going = Going { pager, first, taken: 0, owned, outcome: ALL_STORED, data: buf };
    let mut room = None;
    for_owned(pager, blocks.clone(), State::Resident, takes, |run| {
        let room =
            room.get_or_insert_with(|| compressor_thread::waiting_room(pager, pager.batch()));
        *room -= going.copy_and_store(run, stopped, *room);
    });
    // This check saves time, because no block is taken in many clock windows.
    let mut gone = 0;
    if going.taken != 0 {
        going.drop_spans(blocks.clone());
        gone = going.leave(blocks.clone());
        pager.compressor.ring();
    }
    // Chunks are closed even if no block was evicted now, because blocks that were queued in the
    // last round may have been stored since.
    if pager.limit.has_many_tables() {
        chunk::close_chunks(pager, blocks);
    }
    gone
}

impl<'p> Going<'p> {
    fn fate(&self, block: usize) -> Fate {
        self.outcome[block - self.first]
    }

    /// Returns the range of `data` that holds the contents of the taken blocks `run`.
    fn place(&self, run: &Range<usize>) -> Range<usize> {
        let before = self.taken & ((1 << (run.start - self.first)) - 1);
        let at = before.count_ones() as usize;
        self.pager.bytes_of(at..at + run.len())
    }

    /// Copies a run of taken blocks to `data`. The first `room` blocks will be queued, unless they
    /// contain only zeros. The other blocks are stored now. Returns the number of blocks that are
    /// not stored now.
    fn copy_and_store(&mut self, own: OwnedRun<'p>, stopped: &WorldStopped, room: usize) -> usize {
        let (pager, run) = (self.pager, own.blocks());
        let place = self.place(&run);
        run.clone().for_each(|block| self.taken |= 1 << (block - self.first));
        own.with_bytes(stopped, |bytes| self.data[place].copy_from_slice(bytes));
        self.owned.add(own);
        let middle = run.start + room.min(run.len());
        let stores: [fn(&_, _, &_) -> _; 2] = [stored::defer, stored::store];
        for (part, store) in [run.start..middle, middle..run.end].into_iter().zip(stores) {
            if part.is_empty() {
                continue;
            }
            let outcome = store(pager, part.clone(), &self.data[self.place(&part)]);
            let place = part.start - self.first..part.end - self.first;
            self.outcome[place].copy_from_slice(&outcome[..part.len()]);
        }
        middle - run.start
    }

    /// Marks the taken blocks whose fate is not `Kept`, and drops their pages.
    fn drop_spans(&mut self, blocks: Range<usize>) {
        let pager = self.pager;
        let mut next = blocks.start;
        while next < blocks.end {
            let goes = |block: usize| self.owned.has(block) && self.fate(block) != Fate::Kept;
            let is_in =
                |block: &usize| goes(*block) || pager.words[*block].load().state().is_absent();
            let end = next + (next..blocks.end).take_while(is_in).count();
            let last = (next..end).rev().find(|block| goes(*block));
            let start = (next..end).find(|block| goes(*block));
            if let Some((start, last)) = start.zip(last)
                && self.owned.drop_pages(start..last + 1).is_err()
            {
                // The kernel refuses to drop the pages, because the program has locked some of the
                // blocks.
                for block in start..=last {
                    let Some(own) = self.owned.take(block) else { continue };
                    let data = &self.data[self.place(&own.blocks())];
                    depart::stay_stored(pager, own, data, |block| self.fate(block));
                }
            }
            // The block `end` ended the span, so the next span begins after this block.
            next = end + 1;
        }
    }

    /// Publishes the new states of all owned blocks. Returns the number of evicted blocks.
    fn leave(&mut self, blocks: Range<usize>) -> usize {
        let mut gone = 0;
        for block in blocks {
            let Some(own) = self.owned.take(block) else { continue };
            if self.fate(block) == Fate::Kept {
                let is_freed = stored::discard(self.pager, own.blocks());
                depart::publish_kept(self.pager, own, |_| !is_freed);
                continue;
            }
            let data = &self.data[self.place(&own.blocks())];
            depart::publish_gone(self.pager, own, data, |block| self.fate(block));
            gone += 1;
        }
        gone
    }
}
