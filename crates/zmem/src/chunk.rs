//! Chunks. Memory that was never touched is PROT_NONE in large pieces, and takes no page tables. A
//! chunk is opened when one of its blocks is first touched; from then on each block has a mark of
//! its own.

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

    /// Opens the chunk that a block is in, or waits while another thread opens it. As it may wait,
    /// the caller must own no block (zm-S4).
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
