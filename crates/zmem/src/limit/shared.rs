//! Resident blocks that a process shares with its child after a fork. These blocks count only for
//! the parent (zm-L16).
//!
//! ```text
//!   resident:  | own                       | Shared               |
//!              | counts for this process                | for the parent |
//! ```

use super::Limit;

/// A fork closes no blocks if all processes would hold at most this share (1/2) of the limit, even
/// if the child copied all blocks.
const UNTOLD_SHARE: u64 = 2;

impl Limit {
    /// Counts blocks that will be shared from the next fork on. The blocks stay resident.
    pub(crate) fn add_shared(&self, blocks: usize) {
        self.member.iter().for_each(|member| member.add_blocks((blocks * self.block) as u64));
    }

    /// Subtracts blocks that are no longer shared.
    pub(crate) fn leave_shared(&self, blocks: usize) {
        self.member.iter().for_each(|member| member.leave_blocks((blocks * self.block) as u64));
    }

    fn shared_bytes(&self) -> u64 {
        self.member.as_ref().map_or(0, |member| member.blocks())
    }

    pub(crate) fn shared(&self) -> usize {
        self.shared_bytes() as usize / self.block
    }

    /// Returns two numbers: the bytes of shared blocks whose eviction would free nothing, and the
    /// bytes that children may share. The first number includes blocks that count for the parent.
    /// The first number also includes blocks that a child shares, unless a child needs room and
    /// will therefore drop them.
    fn staying(&self) -> (u64, u64) {
        let shared = self.shared_bytes();
        let Some(member) = self.member.as_ref().filter(|_| shared > 0) else { return (0, 0) };
        let (lent, wants) = member.lent();
        let stays = if wants { 0 } else { lent };
        ((member.borrowed() + stays).min(shared), lent)
    }

    /// Returns whether another process shares some of the blocks, so that it matters which blocks
    /// are accessed.
    pub(crate) fn is_sharing(&self) -> bool {
        self.member.as_ref().is_some_and(|member| member.borrowed() > 0 || member.lent().0 > 0)
    }

    /// Returns the resident bytes, except the bytes of blocks whose eviction would free nothing.
    pub(super) fn own_bytes(&self) -> u64 {
        self.resident_bytes().saturating_sub(self.staying().0)
    }

    /// Returns whether some shared blocks may be evicted. Blocks that children share may be evicted
    /// only if `is_vain` is true because the last round evicted no other block. Evicting such
    /// blocks saves memory only when the children drop them, too.
    pub(crate) fn may_go_shared(&self, is_vain: bool) -> bool {
        let (staying, lent) = self.staying();
        let own = self.shared_bytes().saturating_sub(staying);
        own > 0 && (is_vain || own > lent)
    }

    /// Returns whether all processes together would hold more than `1/UNTOLD_SHARE` of the limit if
    /// a child had its own copy of this process's resident blocks.
    pub(crate) fn is_much_with_child(&self) -> bool {
        let Some((member, limit)) = self.member.as_ref().zip(self.get()) else { return false };
        let more = self.resident_bytes().saturating_sub(self.shared_bytes());
        member.is_in() && self.sum(member, limit).held + more > limit / UNTOLD_SHARE
    }
}
