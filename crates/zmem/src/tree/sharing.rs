//! The numbers that a process publishes about memory that it shares with its children, and the
//! numbers that it reads about such memory: see `inherited`.

use super::{Member, NONE};
use crate::times::milliseconds;
use std::sync::atomic::Ordering::Relaxed;

impl Member {
    /// Publishes the state of the pages of the pool: see `note_pool` of `Sharing`.
    pub(crate) fn note_pool(&self, pages: u64, room: u64, gone: u64) {
        self.sharing.note_pool(self.kept_slot(), pages, room, gone);
    }

    /// Records that a child shares, or will share, `bytes` more bytes of resident blocks.
    pub(crate) fn add_blocks(&self, bytes: u64) {
        self.sharing.add_blocks(bytes);
    }

    /// Records that a child shares, or will share, `bytes` fewer bytes of resident blocks.
    pub(crate) fn leave_blocks(&self, bytes: u64) {
        self.sharing.leave_blocks(self.kept_slot(), bytes);
    }

    /// Returns the bytes of blocks that a child would share.
    pub(crate) fn blocks(&self) -> u64 {
        self.sharing.blocks.whole.load(Relaxed)
    }

    /// Returns the bytes of blocks that this process shares with its parent.
    pub(crate) fn borrowed(&self) -> u64 {
        self.shares().blocks
    }

    /// Returns two values: the maximum over all children of the bytes of blocks that the child
    /// still shares with this process, and whether a child found no room recently.
    pub(crate) fn lent(&self) -> (u64, bool) {
        let (own, now) = (self.slot.load(Relaxed), milliseconds());
        let is_child = |nth: &usize| own != NONE && self.tree.parent(*nth) == own as u64 + 1;
        let children = self.tree.in_use().filter(is_child);
        let each = children.map(|nth| (self.tree.shares(nth).blocks, self.tree.wants(nth, now)));
        each.fold((0, false), |most, one| (most.0.max(one.0), most.1 | one.1))
    }
}
