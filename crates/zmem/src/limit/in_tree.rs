//! The limit of several processes. Each process adds up the bytes that all processes hold, and
//! evicts its own blocks.
//!
//! ```text
//!   this process: 0 ---- floor ------------- share ------------------------ what it holds
//!                        | evicted if it needs room      | evicted if any process needs room    |
//! ```
//! A process may keep resident blocks up to its floor, whatever other processes hold, so that it
//! can run. So each process adds at most one floor to the excess over the limit (zm-L5).

use super::Limit;
use crate::alive;
use crate::tree::{Member, Sum, Unevictable};
use std::sync::atomic::Ordering::Relaxed;

/// The floor is this share (1/64) of a limit, but at least `FLOOR_MIN` and at most `FLOOR_MAX`
/// bytes.
const FLOOR_SHARE: u64 = 64;
const FLOOR_MIN: u64 = 1 << 20;
const FLOOR_MAX: u64 = 16 << 20;
/// For a small limit, the floor is at most this share (1/8) of the limit.
const FLOOR_SHARE_MAX: u64 = 8;
/// The floor grows by this multiple of the unevictable bytes beyond the limit, because otherwise a
/// process would spend all of its time on compression.
const BEYOND_WEIGHT: u64 = 4;
/// The floor grows at most to this share (1/4) of the limit, divided by the number of large
/// processes of the tree.
const LOST_FLOOR_SHARE: u64 = 4;
/// A process is large if it holds at least this share (1/16) of the limit.
const LARGE_SHARE: u64 = 16;
/// Room is tight if unevictable memory leaves less than this share (1/16) of the limit.
const TIGHT_SHARE: u64 = 16;
/// A tree's limit is reported as lost if unevictable memory exceeds it by more than this share
/// (1/64).
const LOST_SHARE: u64 = 64;

impl Limit {
    /// Returns the bytes that this process keeps resident (its floor) if the limit can be kept.
    fn kept_floor(&self, limit: u64) -> u64 {
        let floor = limit / FLOOR_SHARE;
        match self.member {
            Some(_) => floor.clamp(FLOOR_MIN, FLOOR_MAX).min(limit / FLOOR_SHARE_MAX),
            None => floor,
        }
    }

    /// Returns the bytes that this process may always have resident.
    fn floor(&self, limit: u64) -> u64 {
        let floor = self.kept_floor(limit);
        // The bound exists because a brief excess must not raise the floor much.
        let most = limit / LOST_FLOOR_SHARE / self.large.load(Relaxed).max(1);
        (floor + self.beyond() * BEYOND_WEIGHT).min(floor.max(most))
    }

    /// Returns the bytes by which unevictable memory exceeds the limit. Pinned blocks do not count
    /// as unevictable, because they can be evicted once they are unpinned.
    fn beyond(&self) -> u64 {
        match self.member {
            Some(_) => self.beyond.load(Relaxed),
            None => self.beside_resident().saturating_sub(self.limit.load(Relaxed)),
        }
    }

    /// Returns whether unevictable memory exceeds the limit.
    pub(crate) fn is_lost(&self) -> bool {
        self.beyond() > 0
    }

    /// Returns the resident bytes of this process above its floor.
    pub(crate) fn above_floor(&self) -> u64 {
        self.get().map_or(0, |limit| self.own_bytes().saturating_sub(self.floor(limit)))
    }

    /// Returns whether unevictable memory of all processes together leaves little room below the
    /// limit.
    pub(crate) fn is_tight(&self) -> bool {
        let Some(limit) = self.get() else { return false };
        let stays = match &self.member {
            Some(member) => {
                let all = self.sum(member, limit);
                all.held.saturating_sub(all.may_go)
            }
            None => self.held().saturating_sub(self.may_go()),
        };
        stays > limit - limit / TIGHT_SHARE
    }

    /// Returns whether the limit is shared with other processes.
    pub(crate) fn is_in_tree(&self) -> bool {
        self.member.as_ref().is_some_and(Member::is_in)
    }

    /// Returns the bytes that this process could evict. Blocks that count for its parent are
    /// included, because they must be known as evictable when they count for this process later.
    fn may_go(&self) -> u64 {
        match self.get() {
            Some(limit) if !self.is_stuck() && !self.keeps_all() => {
                self.resident_bytes().saturating_sub(self.kept_floor(limit))
            }
            _ => 0,
        }
    }

    /// Returns whether this process evicts no blocks because a debugger reads its memory (zm-L19).
    pub(crate) fn keeps_all(&self) -> bool {
        self.member.as_ref().is_some_and(Member::keeps_all)
    }

    pub(super) fn is_more_than_floor(&self, limit: u64) -> bool {
        self.own_bytes() > self.floor(limit)
    }

    /// Returns the bytes held. In a tree, the result is the size of all memory of the process, as
    /// the kernel last counted it.
    pub(crate) fn told_held(&self) -> u64 {
        self.member.as_ref().map_or(self.held(), |member| member.all(self.held()))
    }

    /// Returns the resident part of `told_held`. Blocks that were opened ahead count as resident,
    /// although they use no memory until they are written.
    pub(crate) fn told_resident(&self) -> u64 {
        self.resident_bytes().min(self.told_held())
    }

    /// Publishes to the tree the bytes that this process holds and could evict.
    pub(super) fn publish(&self) {
        if let Some(member) = &self.member {
            member.publish(self.held(), self.may_go());
        }
    }

    pub(super) fn sum(&self, member: &Member, limit: u64) -> Sum {
        member.sum(self.held(), self.may_go(), limit / LARGE_SHARE)
    }

    /// Returns whether more than `mark` bytes are held if `more` further blocks become resident. In
    /// a tree, the bytes of all processes count.
    pub(super) fn is_above(&self, more: usize, mark: u64) -> bool {
        let more = (more * self.block) as u64;
        let limit = self.limit.load(Relaxed);
        let Some(member) = &self.member else { return self.held() + more > mark };
        let all = self.look(member, limit, more);
        all.held + more > mark
    }

    /// Adds up the bytes that all processes hold. Records whether the sum plus `more` bytes exceeds
    /// the limit minus the reserve.
    fn look(&self, member: &Member, limit: u64, more: u64) -> Sum {
        let mut all = self.sum(member, limit);
        let is_short = all.held + more + self.reserve_of(limit) > limit;
        // `note_short` has cleared slots of processes that have exited, so the sum is computed
        // again.
        if member.note_short(is_short, limit) {
            all = self.sum(member, limit);
        }
        let stays = all.held.saturating_sub(all.may_go);
        let beyond = stays.saturating_sub(limit);
        if beyond / all.large != self.beyond() {
            self.beyond.store(beyond / all.large, Relaxed);
            self.large.store(all.large, Relaxed);
        }
        if beyond > limit / LOST_SHARE {
            member.note_lost(stays, &self.unevictable(member));
        }
        all
    }

    /// Returns the memory that this process holds now and can't evict.
    pub(crate) fn unevictable(&self, member: &Member) -> Unevictable {
        let resident = self.resident_bytes();
        // Blocks that were opened and not written use no memory yet.
        let written = member.all(resident).min(resident);
        Unevictable {
            compressed: self.beside_resident(),
            resident: written.saturating_sub(self.may_go()),
            shared: member.shared_bytes(),
            unmanaged: member.beside_bytes(),
        }
    }

    /// Returns whether blocks may be opened ahead of their first touch. The program may write to
    /// open blocks later without a fault. So the check counts all open blocks, even blocks that the
    /// kernel does not count yet, and permits all large processes together a quarter of the limit.
    pub(crate) fn has_room(&self) -> bool {
        let Some(limit) = self.get() else { return true };
        let Some(member) = &self.member else { return self.held() <= limit / 4 };
        let all = self.sum(member, limit);
        all.held <= limit / 2 && self.held() <= limit / 4 / all.large
    }

    /// Returns whether the tree is short of room, and this process holds more than its share.
    pub(crate) fn is_above_share_and_short(&self) -> bool {
        let Some((member, limit)) = self.member.as_ref().zip(self.get()) else { return false };
        let all = self.look(member, limit, 0);
        all.held + self.reserve_of(limit) > limit && self.is_above_share()
    }

    pub(crate) fn is_above_share(&self) -> bool {
        let Some((member, limit)) = self.member.as_ref().zip(self.get()) else { return false };
        self.is_more_than_floor(limit) && member.held(self.held()) > member.share(limit).bytes
    }

    /// Records that this process found no room. Returns whether it may use a part of the reserve,
    /// because other processes hold more than their share and will evict it.
    pub(crate) fn wants_of_others(&self) -> bool {
        let Some((member, limit)) = self.member.as_ref().zip(self.get()) else { return false };
        member.note_wanted();
        let share = member.share(limit);
        share.is_passed && member.held(self.held()) < share.bytes
    }

    /// Records the size of all anonymous memory of this process.
    pub(crate) fn weigh_process(&self) {
        if let Some(member) = &self.member
            && let Some(all) = alive::anonymous()
        {
            member.note_all(all, self.held(), self.tables.load(Relaxed));
            self.publish();
            let _noted = self.look(member, self.limit.load(Relaxed), 0);
        }
    }

    /// Calls `weigh_process` if a sample is due.
    pub(crate) fn weigh_now_and_then(&self) {
        if self.member.as_ref().is_some_and(|member| member.is_sample_due()) {
            self.weigh_process();
        }
    }

    /// In a child of fork, replaces the parent's slot by a new slot for the child, and sets the
    /// peak to the present values.
    pub(crate) fn begin_child(&self) {
        self.peak.begin(self.told_held(), self.told_resident());
        if let Some(member) = &self.member {
            member.begin_child();
            self.publish();
        }
    }
}
