//! The limit of several processes: each looks at what all of them hold, and evicts what is its own.
//!
//! ```text
//!   this process: 0 ---- floor ------------- share ------------------------ what it holds
//!                        | evicted where there is no room | given up as soon as there is none |
//! ```
//! What a process has resident up to its floor stays, so that it can run, whatever others hold: so
//! processes pass the limit by a floor each at most (zm-L5).

use super::Limit;
use crate::alive;
use crate::tree::{Member, Sum, Unevictable};
use std::sync::atomic::Ordering::Relaxed;

/// The floor is this share of a limit, within bounds.
const FLOOR_SHARE: u64 = 64;
const FLOOR_MIN: u64 = 1 << 20;
const FLOOR_MAX: u64 = 16 << 20;
/// Of a small limit it is this share at most.
const FLOOR_SHARE_MAX: u64 = 8;
/// It grows by so much of what can't go beyond the limit, as a process would do nothing but
/// compress else.
const BEYOND_WEIGHT: u64 = 4;
/// Up to this share, which the large processes of a tree divide among them.
const LOST_FLOOR_SHARE: u64 = 4;
/// Processes that hold such a share of a limit divide it among them.
const LARGE_SHARE: u64 = 16;
/// Room is tight where less than this share of the limit is left by what can't go.
const TIGHT_SHARE: u64 = 16;
/// A process says that its tree's limit can't be kept where what can't go passes it by this share.
const LOST_SHARE: u64 = 64;

impl Limit {
    /// What this process may have resident where the limit can be kept.
    fn kept_floor(&self, limit: u64) -> u64 {
        let floor = limit / FLOOR_SHARE;
        match self.member {
            Some(_) => floor.clamp(FLOOR_MIN, FLOOR_MAX).min(limit / FLOOR_SHARE_MAX),
            None => floor,
        }
    }

    /// What this process may always have resident.
    fn floor(&self, limit: u64) -> u64 {
        let floor = self.kept_floor(limit);
        // Step by step: what passes the limit for a moment is not to bring much with it.
        let most = limit / LOST_FLOOR_SHARE / self.large.load(Relaxed).max(1);
        (floor + self.beyond() * BEYOND_WEIGHT).min(floor.max(most))
    }

    /// By how much the limit is passed by what can't go: not by what is pinned, which can once it
    /// is so no more.
    fn beyond(&self) -> u64 {
        match self.member {
            Some(_) => self.beyond.load(Relaxed),
            None => self.beside_resident().saturating_sub(self.limit.load(Relaxed)),
        }
    }

    /// Whether what can't go passes the limit.
    pub(crate) fn is_lost(&self) -> bool {
        self.beyond() > 0
    }

    /// What this process has resident above its floor.
    pub(crate) fn above_floor(&self) -> u64 {
        self.get().map_or(0, |limit| self.own_bytes().saturating_sub(self.floor(limit)))
    }

    /// Whether what can't go leaves little room below the limit, in all processes together.
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

    /// Whether the limit is kept together with others.
    pub(crate) fn is_in_tree(&self) -> bool {
        self.member.as_ref().is_some_and(Member::is_in)
    }

    /// What this process could evict, what counts for its parent too: once it does so no more, who
    /// looks is to find that this may go.
    fn may_go(&self) -> u64 {
        match self.get() {
            Some(limit) if !self.is_stuck() && !self.keeps_all() => {
                self.resident_bytes().saturating_sub(self.kept_floor(limit))
            }
            _ => 0,
        }
    }

    /// Returns whether this process evicts nothing, because a debugger looks at it (zm-L19).
    pub(crate) fn keeps_all(&self) -> bool {
        self.member.as_ref().is_some_and(Member::keeps_all)
    }

    /// Whether this process has more resident than its floor.
    pub(super) fn is_more_than_floor(&self, limit: u64) -> bool {
        self.own_bytes() > self.floor(limit)
    }

    /// Returns what is held: of a process, as the system counted it last.
    pub(crate) fn told_held(&self) -> u64 {
        self.member.as_ref().map_or(self.held(), |member| member.all(self.held()))
    }

    /// Returns what of it is resident. Blocks count here that were opened unasked, and so take no
    /// memory yet.
    pub(crate) fn told_resident(&self) -> u64 {
        self.resident_bytes().min(self.told_held())
    }

    /// Tells the others what this process holds.
    pub(super) fn publish(&self) {
        if let Some(member) = &self.member {
            member.publish(self.held(), self.may_go());
        }
    }

    pub(super) fn sum(&self, member: &Member, limit: u64) -> Sum {
        member.sum(self.held(), self.may_go(), limit / LARGE_SHARE)
    }

    /// Returns whether more than `mark` is held with so many more blocks: by all processes of the
    /// tree, if there is one.
    pub(super) fn is_above(&self, more: usize, mark: u64) -> bool {
        let more = (more * self.unit) as u64;
        let limit = self.limit.load(Relaxed);
        let Some(member) = &self.member else { return self.held() + more > mark };
        let all = self.look(member, limit, more);
        all.held + more > mark
    }

    /// Looks at what all hold, and takes note of whether that, with so much more, is too much.
    fn look(&self, member: &Member, limit: u64, more: u64) -> Sum {
        let mut all = self.sum(member, limit);
        let is_short = all.held + more + self.reserve_of(limit) > limit;
        // What processes held that are gone is free.
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

    /// Returns what this process holds now and can't evict.
    pub(crate) fn unevictable(&self, member: &Member) -> Unevictable {
        let resident = self.resident_bytes();
        // Blocks that were opened and not written take no memory yet.
        let written = member.all(resident).min(resident);
        Unevictable {
            compressed: self.beside_resident(),
            resident: written.saturating_sub(self.may_go()),
            shared: member.shared_bytes(),
            unmanaged: member.beside_bytes(),
        }
    }

    /// Returns whether blocks may be opened that nobody has asked for. They may be written any time
    /// later, without a fault: so all that is open counts here, though the system does not count it
    /// yet, and processes have a quarter of the limit for it together.
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

    /// Returns whether this process holds more than its share.
    pub(crate) fn is_above_share(&self) -> bool {
        let Some((member, limit)) = self.member.as_ref().zip(self.get()) else { return false };
        self.is_more_than_floor(limit) && member.held(self.held()) > member.share(limit).bytes
    }

    /// Takes note that this process found no room. Returns whether it may have some that is held
    /// back: others hold more than their share, and give it up.
    pub(crate) fn wants_of_others(&self) -> bool {
        let Some((member, limit)) = self.member.as_ref().zip(self.get()) else { return false };
        member.note_wanted();
        let share = member.share(limit);
        share.is_passed && member.held(self.held()) < share.bytes
    }

    /// Takes note of all anonymous memory that this process has.
    pub(crate) fn weigh_process(&self) {
        if let Some(member) = &self.member
            && let Some(all) = alive::anonymous()
        {
            member.note_all(all, self.held(), self.tables.load(Relaxed));
            self.publish();
            let _noted = self.look(member, self.limit.load(Relaxed), 0);
        }
    }

    /// Does so now and then.
    pub(crate) fn weigh_now_and_then(&self) {
        if self.member.as_ref().is_some_and(|member| member.is_sample_due()) {
            self.weigh_process();
        }
    }

    /// Has a child, which has its parent's place, have its own, and a peak of its own.
    pub(crate) fn begin_child(&self) {
        self.peak.begin(self.told_held(), self.told_resident());
        if let Some(member) = &self.member {
            member.begin_child();
            self.publish();
        }
    }
}
