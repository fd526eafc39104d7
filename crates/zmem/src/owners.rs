//! Waiting for what other threads own: a block, or a chunk that is being changed.

use crate::fatal::fatal;
use crate::gate::GATE;
use crate::pager::Pager;
use crate::state::Seen;
use std::time::Duration;

/// A thread that waits for a block looks so often whether that waits to be stored.
const HANDED_OVER: Duration = Duration::from_millis(1);
/// So often in a row a copy of a process, alone in the gate, sees a block `Busy` that nobody owns.
const LOST_LOOKS: u32 = 1000;

impl Pager {
    /// Waits while another thread owns a block. One that waits to be stored is put back.
    pub(crate) fn wait_for_block(&self, unit: usize, seen: Seen) {
        let word = &self.words[unit];
        if self.take_back(unit) {
            return;
        }
        if self.storer.bytes() > 0 {
            // It may be handed over by now, to wait for who is not there.
            return word.wait_for(seen, HANDED_OVER);
        }
        self.wait_for_owner(|| word.load() != seen, || word.wait(seen));
    }

    /// Waits while another thread owns a block, or changes a chunk. Ends the process if it is a
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
