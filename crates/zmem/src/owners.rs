//! Waiting for the owner of a block, or for the end of a chunk's change.

use crate::fatal::fatal;
use crate::gate::GATE;
use crate::pager::Pager;
use crate::state::Seen;
use std::time::Duration;

/// A thread that waits for a block checks at this interval whether the block was queued.
const HANDED_OVER: Duration = Duration::from_millis(1);
/// A copy of a process takes a block's owner as lost after this number of consecutive looks at a
/// `Busy` block while no other thread is inside the gate.
const LOST_LOOKS: u32 = 1000;

impl Pager {
    /// Waits while another thread owns a block. If the block is queued for compression, puts it
    /// back.
    pub(crate) fn wait_for_block(&self, unit: usize, seen: Seen) {
        let word = &self.words[unit];
        if self.take_back(unit) {
            return;
        }
        if self.storer.bytes() > 0 {
            // With a timeout, because the block may be queued in the meantime while no compressor
            // thread exists.
            return word.wait_for(seen, HANDED_OVER);
        }
        self.wait_for_owner(|| word.load() != seen, || word.wait(seen));
    }

    /// Waits while another thread owns a block, or changes a chunk. Aborts the process if it is a
    /// copy that lacks that thread (zm-F3).
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
