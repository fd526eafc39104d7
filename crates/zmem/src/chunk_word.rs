//! The word of a chunk. The word encodes whether each block of the chunk has its own mark, or one
//! mark covers the whole chunk.
//!
//! ```text
//!   Untouched --> changing --> Open --> changing --> Freed, or Kept
//!                               ^                      |
//!                               '------ changing <-----'
//! ```
//! A chunk of an arena can also change between Vacant and Untouched.
//!
//! All blocks of a chunk that is not open are absent. A thread that fills a block first becomes the
//! block's owner, and then checks that the chunk is open. A thread that closes a chunk first sets
//! the chunk's word to changing, and then checks that all blocks are absent. So if both threads act
//! at the same time, at least one of the checks fails.

#[cfg(all(test, loom))]
mod loom_tests;

use crate::sync::{AtomicU32, Ordering, fence, wait, wake};

const CHANGING: u32 = Chunk::Changing as u32;
/// The chunk is changing, and other threads wait until the change ends.
const AWAITED: u32 = CHANGING + 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chunk {
    /// No block of the chunk was ever touched, and the chunk uses no memory.
    Untouched,
    /// The chunk was closed again, and its page tables were kept.
    Kept,
    /// The chunk was closed again, and its page tables were freed.
    Freed,
    /// Each absent block of the chunk has its own mark.
    Open,
    /// All blocks of the chunk are free, whatever their words contain. Only chunks of an arena can
    /// be vacant.
    Vacant,
    /// A thread is opening or closing the chunk.
    Changing,
}

/// The word of a chunk. The value 0 is the state `Untouched`.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct ChunkWord(AtomicU32);

impl ChunkWord {
    #[cfg(all(test, loom))]
    pub(crate) fn new(state: Chunk) -> Self {
        ChunkWord(AtomicU32::new(state as u32))
    }

    pub(crate) fn load(&self) -> Chunk {
        use Chunk::*;
        let all = [Untouched, Kept, Freed, Open, Vacant, Changing, Changing];
        all[self.0.load(Ordering::Acquire) as usize]
    }

    /// Returns whether the chunk is open. The caller has just become the owner of one of the
    /// chunk's blocks. An open chunk stays open while the caller owns the block or the block is
    /// present.
    pub(crate) fn is_open_for_owner(&self) -> bool {
        fence(Ordering::SeqCst);
        self.load() == Chunk::Open
    }

    /// Begins a change of the chunk if the chunk's state is still `seen`. Returns whether the
    /// change began. Only the caller is allowed to change the chunk until it calls `end`.
    pub(crate) fn try_begin(&self, seen: Chunk) -> bool {
        debug_assert!(seen != Chunk::Changing);
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        let is_ours = self.0.compare_exchange(seen as u32, CHANGING, order.0, order.1).is_ok();
        fence(Ordering::SeqCst);
        is_ours
    }

    /// Ends a change: sets the state `next`, and wakes the waiting threads.
    pub(crate) fn end(&self, next: Chunk) {
        if self.0.swap(next as u32, Ordering::AcqRel) == AWAITED {
            wake(&self.0);
        }
    }

    /// Waits until the change of the chunk has ended. May return early.
    pub(crate) fn wait(&self) {
        let order = (Ordering::AcqRel, Ordering::Acquire);
        match self.0.compare_exchange(CHANGING, AWAITED, order.0, order.1) {
            Ok(_) | Err(AWAITED) => wait(&self.0, AWAITED),
            Err(_) => {}
        }
    }
}
