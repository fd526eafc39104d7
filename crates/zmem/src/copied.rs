//! Copies: what the device still holds of blocks that are resident, and nobody reads. All under the
//! store's lock, but for what notes them.

use crate::pager::Pager;
use crate::policy::PIECE;
use crate::state::State;
use std::ops::Range;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

impl Pager {
    /// Frees what the device holds of some blocks. Returns whether all of it was freed: to free a
    /// part of a larger block takes memory, which may be refused.
    pub(crate) fn discard(&self, units: Range<usize>) -> bool {
        let bytes = self.bytes_of(units);
        self.device.discard(bytes.start as u64, bytes.len() as u64).is_ok()
    }

    /// Records that some blocks may have copies, for `drop_copies` to find.
    pub(crate) fn note_copies(&self, units: Range<usize>) {
        for piece in units.start / PIECE..units.end.div_ceil(PIECE) {
            // Even if the bit is set: the thread that takes it must see these blocks as they are.
            self.copied[piece / 64].fetch_or(1 << (piece % 64), AcqRel);
        }
    }

    /// Frees all copies: what the device holds of blocks, and nobody reads.
    pub(crate) fn drop_copies(&self) {
        for (nth, word) in self.copied.iter().enumerate() {
            let mut bits = if word.load(Relaxed) == 0 { 0 } else { word.swap(0, AcqRel) };
            while bits != 0 {
                self.drop_copies_of(nth * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }

    /// Frees the copies in a piece, and notes those again that can't be freed.
    fn drop_copies_of(&self, piece: usize) {
        let has_copy = |unit: usize| {
            let seen = self.words[unit].load();
            if seen.state() == State::Busy {
                // Its owner may be bringing it back; then it will have a copy. No one waits for it:
                // a copy of a process may lack it (zm-F3).
                self.note_copies(unit..unit + 1);
            }
            seen.has_copy() && seen.state() != State::Busy
        };
        self.for_runs(self.units_of(piece), usize::MAX, has_copy, |run| {
            if self.discard(run.clone()) {
                run.for_each(|unit| self.words[unit].set_copy(false));
            } else {
                self.note_copies(run);
            }
        });
    }
}
