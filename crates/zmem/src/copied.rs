//! Copies: data that the device still stores although their blocks are resident. No thread reads
//! these data. All functions except `note_copies` are called under the eviction lock.

use crate::pager::Pager;
use crate::policy::CLOCK_WINDOW;
use crate::state::State;
use std::ops::Range;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

impl Pager {
    /// Frees the data of some blocks in the device. Returns whether all of them were freed: freeing
    /// part of a larger block needs memory, which the system may refuse.
    pub(crate) fn discard(&self, blocks: Range<usize>) -> bool {
        let bytes = self.bytes_of(blocks);
        self.device.discard(bytes.start as u64, bytes.len() as u64).is_ok()
    }

    /// Records that some blocks may have copies, so that `drop_copies` finds them.
    pub(crate) fn note_copies(&self, blocks: Range<usize>) {
        for window in blocks.start / CLOCK_WINDOW..blocks.end.div_ceil(CLOCK_WINDOW) {
            // The bit is written even if it is set already, so that the thread that clears the bit
            // sees the present state of the blocks.
            self.copied[window / 64].fetch_or(1 << (window % 64), AcqRel);
        }
    }

    /// Frees all copies.
    pub(crate) fn drop_copies(&self) {
        for (nth, word) in self.copied.iter().enumerate() {
            let mut bits = if word.load(Relaxed) == 0 { 0 } else { word.swap(0, AcqRel) };
            while bits != 0 {
                self.drop_copies_of(nth * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }

    /// Frees the copies in a clock window. Copies that can't be freed are recorded again.
    fn drop_copies_of(&self, window: usize) {
        let has_copy = |block: usize| {
            let seen = self.words[block].load();
            if seen.state() == State::Busy {
                // The owner of the block may be filling the block, after which a copy exists. This
                // function must not wait for the owner, because a child of fork may lack the
                // owner's thread (zm-F3).
                self.note_copies(block..block + 1);
            }
            seen.has_copy() && seen.state() != State::Busy
        };
        self.for_runs(self.blocks_of_window(window), usize::MAX, has_copy, |run| {
            if self.discard(run.clone()) {
                run.for_each(|block| self.words[block].set_copy(false));
            } else {
                self.note_copies(run);
            }
        });
    }
}
