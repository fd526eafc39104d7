//! What a process says of what its children share with it, and asks of them: see `inherited`.

use super::{Member, NONE};
use crate::times::milliseconds;
use std::sync::atomic::Ordering::Relaxed;

impl Member {
    /// Says what became of the pages of its pool.
    pub(crate) fn note_pool(&self, pages: u64, room: u64, gone: u64) {
        self.sharing.note_pool(self.kept_slot(), pages, room, gone);
    }

    /// Says that a child will have so many bytes of resident blocks with it, or has.
    pub(crate) fn add_blocks(&self, bytes: u64) {
        self.sharing.add_blocks(bytes);
    }

    /// Says that it has so many fewer.
    pub(crate) fn leave_blocks(&self, bytes: u64) {
        self.sharing.leave_blocks(self.kept_slot(), bytes);
    }

    /// Returns how many bytes of blocks it would have.
    pub(crate) fn blocks(&self) -> u64 {
        self.sharing.blocks.whole.load(Relaxed)
    }

    /// Returns the bytes of blocks that this process shares with its parent.
    pub(crate) fn borrowed(&self) -> u64 {
        self.shares().blocks
    }

    /// Returns the most bytes of blocks that a child still shares with this process, and whether
    /// one has found no room a moment ago.
    pub(crate) fn lent(&self) -> (u64, bool) {
        let (own, now) = (self.slot.load(Relaxed), milliseconds());
        let is_child = |nth: &usize| own != NONE && self.tree.parent(*nth) == own as u64 + 1;
        let children = self.tree.in_use().filter(is_child);
        let each = children.map(|nth| (self.tree.shares(nth).blocks, self.tree.wants(nth, now)));
        each.fold((0, false), |most, one| (most.0.max(one.0), most.1 | one.1))
    }
}
