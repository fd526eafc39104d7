//! Chunks: what was never touched is closed by one mapping, and takes no page tables. A chunk is
//! opened when a block of it is touched first; from then on each block is marked by itself.

use crate::pager::Pager;
use crate::state::BlockWord;
use crate::sync::{wait, wake};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};

const CLOSED: u32 = 0;
const OPENING: u32 = 1;
/// Opening, and waited for.
const AWAITED: u32 = 2;
const OPEN: u32 = 3;

impl Pager {
    /// The chunk that a block is in, and its bytes.
    fn chunk_of(&self, unit: usize) -> (&AtomicU32, Range<usize>) {
        let nth = unit * self.blocks.unit / self.chunk_bytes;
        let start = nth * self.chunk_bytes;
        (&self.chunks[nth], start..(start + self.chunk_bytes).min(self.memory.bytes()))
    }

    /// The blocks from `unit` on that are in its chunk.
    pub(crate) fn rest_of_chunk(&self, unit: usize) -> usize {
        self.chunk_of(unit).1.end / self.blocks.unit - unit
    }

    /// Opens the chunk that a block is in, unless it is open. The caller owns no block: others wait
    /// for it, who may.
    pub(crate) fn open_chunk(&self, unit: usize) {
        let (state, bytes) = self.chunk_of(unit);
        loop {
            match state.load(Acquire) {
                OPEN => return,
                CLOSED => {
                    if state.compare_exchange(CLOSED, OPENING, AcqRel, Acquire).is_err() {
                        continue;
                    }
                    let words = bytes.len() / self.blocks.unit * size_of::<BlockWord>();
                    self.limit.touch_tables(words);
                    let opened = self.backend.open_chunk(&self.memory, bytes.clone());
                    self.expect("memory can't be marked", opened);
                    if state.swap(OPEN, AcqRel) == AWAITED {
                        wake(state);
                    }
                }
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

    /// Has all chunks be open, of memory that is in use already.
    pub(crate) fn open_all_chunks(&self) {
        for chunk in &*self.chunks {
            chunk.store(OPEN, Release);
        }
        self.limit.touch_tables(self.words.bytes());
    }
}
