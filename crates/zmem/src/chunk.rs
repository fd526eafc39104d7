//! Chunks. Memory that was never touched is PROT_NONE in large pieces, and takes no page tables. A
//! chunk is opened when one of its blocks is first touched; from then on each block has a mark of
//! its own. Chunks of an arena begin vacant: closed, and of nobody.

use crate::pager::Pager;
use crate::state::BlockWord;
use crate::sync::{wait, wake};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};

const CLOSED: u32 = 0;
const OPENING: u32 = 1;
/// As `OPENING`, and threads wait for `OPEN`.
const AWAITED: u32 = 2;
const OPEN: u32 = 3;
/// As `CLOSED`, and all blocks are free, whatever their words are.
const VACANT: u32 = 4;

impl Pager {
    /// Returns the state of the chunk that a block is in, and the chunk's range of bytes.
    fn chunk_of(&self, unit: usize) -> (&AtomicU32, Range<usize>) {
        let nth = unit * self.blocks.unit / self.chunk_bytes;
        let start = nth * self.chunk_bytes;
        (&self.chunks[nth], start..(start + self.chunk_bytes).min(self.memory.bytes()))
    }

    /// Returns how many blocks there are from `unit` to the end of its chunk.
    pub(crate) fn rest_of_chunk(&self, unit: usize) -> usize {
        self.chunk_of(unit).1.end / self.blocks.unit - unit
    }

    /// Opens the chunk that a block is in, or waits while another thread opens it. Returns whether
    /// it is open: a vacant one stays as it is. As it may wait, the caller must own no block
    /// (zm-S4).
    pub(crate) fn open_chunk(&self, unit: usize) -> bool {
        self.open_chunk_that_is(CLOSED, unit)
    }

    /// As [`open_chunk`](Self::open_chunk), of a chunk that is vacant: its blocks are free.
    pub(crate) fn open_vacant_chunk(&self, unit: usize) -> bool {
        self.open_chunk_that_is(VACANT, unit)
    }

    /// Returns whether the chunk that a block is in is vacant.
    pub(crate) fn is_vacant(&self, unit: usize) -> bool {
        self.chunk_of(unit).0.load(Acquire) == VACANT
    }

    /// Declares all chunks vacant, before any other thread knows the pager.
    pub(crate) fn vacate_all_chunks(&self) {
        self.chunks.iter().for_each(|chunk| chunk.store(VACANT, Release));
    }

    /// Makes a whole chunk managed that is vacant, or vacant that is closed. Returns whether it
    /// did. `units` begin with the chunk.
    pub(crate) fn try_turn_chunk(&self, units: &Range<usize>, is_managed: bool) -> bool {
        let (state, bytes) = self.chunk_of(units.start);
        let is_whole = self.bytes_of(units.clone()) == bytes;
        let (from, to) = if is_managed { (VACANT, CLOSED) } else { (CLOSED, VACANT) };
        is_whole && state.compare_exchange(from, to, AcqRel, Acquire).is_ok()
    }

    fn open_chunk_that_is(&self, closed: u32, unit: usize) -> bool {
        let (state, bytes) = self.chunk_of(unit);
        loop {
            match state.load(Acquire) {
                OPEN => return true,
                seen if seen == closed => {
                    if state.compare_exchange(closed, OPENING, AcqRel, Acquire).is_err() {
                        continue;
                    }
                    let units = bytes.start / self.blocks.unit..bytes.end / self.blocks.unit;
                    self.limit.touch_tables(units.len() * size_of::<BlockWord>());
                    if closed == VACANT {
                        self.words[units].iter().for_each(BlockWord::begin_free);
                    }
                    let open = |_| self.backend.open_chunk(&self.memory, bytes.clone());
                    // Memory that the program has locked, by `mlockall` say, can't be marked.
                    let opened = open(()).or_else(|_| {
                        self.memory.unlock(bytes.clone())?;
                        open(())
                    });
                    self.expect("memory can't be marked", opened);
                    if state.swap(OPEN, AcqRel) == AWAITED {
                        wake(state);
                    }
                }
                VACANT | CLOSED => return false,
                seen => {
                    let is_awaited = seen == AWAITED
                        || state.compare_exchange(OPENING, AWAITED, AcqRel, Acquire).is_ok();
                    if is_awaited {
                        wait(state, AWAITED);
                    }
                }
            }
        }
    }

    /// Declares all chunks open, for memory that was in use before.
    pub(crate) fn open_all_chunks(&self) {
        for chunk in &*self.chunks {
            chunk.store(OPEN, Release);
        }
        self.limit.touch_tables(self.words.bytes());
    }
}
