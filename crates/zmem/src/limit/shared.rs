//! Blocks that are resident in a process and a child of it, which has them of that one: they count
//! for the parent alone (zm-L16).
//!
//! ```text
//!   resident:  | own                       | Shared               |
//!              | counts here                            | for the parent |
//! ```

use super::Limit;

/// Processes that tell of no touch after a fork hold at most this share of a limit together.
const UNTOLD_SHARE: u64 = 2;

impl Limit {
    /// Counts blocks that are shared from the next fork on. They stay resident.
    pub(crate) fn add_shared(&self, units: usize) {
        self.member.iter().for_each(|member| member.add_blocks((units * self.unit) as u64));
    }

    /// Counts blocks that are so no more.
    pub(crate) fn leave_shared(&self, units: usize) {
        self.member.iter().for_each(|member| member.leave_blocks((units * self.unit) as u64));
    }

    /// Returns the bytes of those that are.
    fn shared_bytes(&self) -> u64 {
        self.member.as_ref().map_or(0, |member| member.blocks())
    }

    /// Returns how many are.
    pub(crate) fn shared(&self) -> usize {
        self.shared_bytes() as usize / self.unit
    }

    /// Returns what of them is not to go, as no room would come of it: what counts for the parent,
    /// and what a child has as well, unless one wants room, and so gives up what it has. And what
    /// a child may have.
    fn staying(&self) -> (u64, u64) {
        let shared = self.shared_bytes();
        let Some(member) = self.member.as_ref().filter(|_| shared > 0) else { return (0, 0) };
        let (lent, wants) = member.lent();
        let stays = if wants { 0 } else { lent };
        ((member.borrowed() + stays).min(shared), lent)
    }

    /// Returns whether another process has some of them as well, for which a touch of one counts.
    pub(crate) fn is_sharing(&self) -> bool {
        self.member.as_ref().is_some_and(|member| member.borrowed() > 0 || member.lent().0 > 0)
    }

    /// Returns what is resident and may go.
    pub(super) fn own_bytes(&self) -> u64 {
        self.resident_bytes().saturating_sub(self.staying().0)
    }

    /// Returns whether some of them may go. What children may share saves room only once it goes
    /// there, too: so that is for where all else was looked at in vain.
    pub(crate) fn may_go_shared(&self, is_vain: bool) -> bool {
        let (staying, lent) = self.staying();
        let own = self.shared_bytes().saturating_sub(staying);
        own > 0 && (is_vain || own > lent)
    }

    /// Returns whether all would hold much, if a child held for itself what this process has.
    pub(crate) fn is_much_with_child(&self) -> bool {
        let Some((member, limit)) = self.member.as_ref().zip(self.get()) else { return false };
        let more = self.resident_bytes().saturating_sub(self.shared_bytes());
        member.is_in() && self.sum(member, limit).held + more > limit / UNTOLD_SHARE
    }
}
