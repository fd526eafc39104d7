//! Processes that read and write each other's memory by system calls.
//!
//! A process whose memory another one reads fills no block in place, because the other one would see
//! half of it (zm-L17). The reader asks for that in the other process's slot, and waits until it has
//! agreed. Each block that the other process was filling is whole then.

use super::{Member, Tree};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

const ASKED: u64 = 1;
const AGREED: u64 = 2;

impl Tree {
    /// Asks a process to fill no block in place. Returns whether it has agreed, or `None` if it is
    /// none of the tree.
    pub fn ask_peer(&self, process: u64) -> Option<bool> {
        let nth = self.in_use().find(|nth| self.slot(*nth).process.load(Acquire) == process)?;
        let asked = self.slot(nth).peers.compare_exchange(0, ASKED, AcqRel, Acquire);
        Some(asked == Err(AGREED))
    }
}

impl Member {
    /// Agrees, as no thread of this process fills a block.
    pub(crate) fn agree(&self) {
        self.own_slot().inspect(|slot| slot.peers.store(AGREED, Release));
    }

    /// Returns whether another process reads this one's memory, or is about to.
    pub(crate) fn has_peers(&self) -> bool {
        self.slot().is_some_and(|slot| slot.peers.load(Acquire) != 0)
    }
}
