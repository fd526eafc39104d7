//! Waits for the owner of a block, or until the change of a chunk has ended.

use crate::fatal::fatal;
use crate::gate::GATE;
use crate::pager::Pager;
use crate::state::WordValue;
use std::time::Duration;

/// The interval at which a thread that waits for a block checks whether the block was queued.
const HANDED_OVER: Duration = Duration::from_millis(1);
/// If no other thread is inside the gate, a copy of a process treats the owner of a `Busy` block as
/// lost after this number of consecutive checks.
const LOST_LOOKS: u32 = 1000;

impl Pager {
    /// Waits while another thread owns a block. If the block is queued for compression, takes the
    /// block back and makes it resident.
    pub(crate) fn wait_for_block(&self, block: usize, seen: WordValue) {
        let word = &self.words[block];
        if self.take_back(block) {
            return;
        }
        if self.storer.bytes() > 0 {
            // The wait ends after a timeout, because the block may be queued in the meantime while
            // no compressor thread exists.
            return word.wait_for(seen, HANDED_OVER);
        }
        self.wait_for_owner(|| word.load() != seen, || word.wait(seen));
    }

    /// Waits while another thread owns a block, or changes a chunk. Aborts the process if this
    /// process is a copy that lacks the other thread (zm-F3).
    pub(crate) fn wait_for_owner(&self, has_ended: impl Fn() -> bool, wait: impl FnOnce()) {
        if !GATE.is_torn() {
            return wait();
        }
        for _ in 0..LOST_LOOKS {
            std::thread::yield_now();
            if has_ended() || !GATE.is_alone_inside() {
                return;
            }
        }
        fatal("a block is missing", &"a thread had it when this process was made without handlers");
    }
}
