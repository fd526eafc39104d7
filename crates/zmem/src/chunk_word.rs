//! The word of a chunk: whether its blocks have marks of their own, or one mark is on all of it.
//!
//! ```text
//!   Untouched --> changing --> Open --> changing --> Freed, or Kept
//!                               ^                      |
//!                               '------ changing <-----'
//! ```
//! A chunk of an arena may be vacant, too, and go to Untouched and back.
//!
//! All blocks of a chunk that is not open are absent. Whoever brings a block makes itself its owner
//! first, and then looks whether the chunk is open; whoever closes a chunk begins to change it
//! first, and then looks whether all blocks are absent. So one of the two sees the other.

#[cfg(all(test, loom))]
mod loom_tests;

use crate::sync::{AtomicU32, Ordering, fence, wait, wake};

const CHANGING: u32 = 4;
/// As `CHANGING`, and threads wait for the end of that.
const AWAITED: u32 = 5;
const VACANT: u32 = 6;

/// The state of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chunk {
    /// Never touched: it has taken nothing yet.
    Untouched,
    /// Closed again, with its page tables.
    Kept,
    /// Closed again, and its page tables were given back.
    Freed,
    /// Each block has a mark of its own, or is there.
    Open,
    /// A thread is opening or closing it.
    Changing = CHANGING as isize,
    /// Of an arena: all blocks are free, whatever their words are. It has taken nothing yet.
    Vacant = VACANT as isize,
}

/// The word of a chunk. Zero is a chunk that was never touched.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct ChunkWord(AtomicU32);

impl ChunkWord {
    #[cfg(all(test, loom))]
    pub(crate) fn new(state: Chunk) -> Self {
        ChunkWord(AtomicU32::new(state as u32))
    }

    pub(crate) fn load(&self) -> Chunk {
        match self.0.load(Ordering::Acquire) {
            0 => Chunk::Untouched,
            1 => Chunk::Kept,
            2 => Chunk::Freed,
            3 => Chunk::Open,
            VACANT => Chunk::Vacant,
            _ => Chunk::Changing,
        }
    }

    /// Returns whether the chunk is open, for a thread that has just become the owner of one of its
    /// blocks. Then the chunk stays open as long as it is that, or the block is there.
    pub(crate) fn is_open_for_owner(&self) -> bool {
        fence(Ordering::SeqCst);
        self.load() == Chunk::Open
    }

    /// Begins to change the chunk, if it is still `seen`. No other thread does until `end`.
    pub(crate) fn try_begin(&self, seen: Chunk) -> bool {
        debug_assert!(seen != Chunk::Changing);
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        let is_ours = self.0.compare_exchange(seen as u32, CHANGING, order.0, order.1).is_ok();
        fence(Ordering::SeqCst);
        is_ours
    }

    /// Ends the change, and wakes threads that wait for that.
    pub(crate) fn end(&self, next: Chunk) {
        if self.0.swap(next as u32, Ordering::AcqRel) == AWAITED {
            wake(&self.0);
        }
    }

    /// Waits until the thread that changes the chunk has ended. May return early.
    pub(crate) fn wait(&self) {
        let order = (Ordering::AcqRel, Ordering::Acquire);
        match self.0.compare_exchange(CHANGING, AWAITED, order.0, order.1) {
            Ok(_) | Err(AWAITED) => wait(&self.0, AWAITED),
            Err(_) => {}
        }
    }
}
