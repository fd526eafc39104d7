//! The limit of several processes: each looks at what all of them hold, and evicts what is its own.
//!
//! ```text
//!   this process: 0 ------ floor ------------- share = limit / processes ------- what it holds
//!                          | evicted where there is no room | first of all, if others are short |
//! ```
//! zm-L5: what a process has resident up to its floor stays, so that it can run, whatever others
//! hold: so processes pass the limit by a floor each at most.

use super::Limit;
use crate::alive;
use std::sync::atomic::Ordering::Relaxed;

/// The floor is this share of a limit, within bounds.
const FLOOR_SHARE: u64 = 64;
const FLOOR_MIN: u64 = 1 << 20;
const FLOOR_MAX: u64 = 16 << 20;
/// Of a small limit it is this share at most.
const FLOOR_SHARE_MAX: u64 = 8;
/// A limit is lost that is passed by this share, while less than another such share could go.
const LOST_SHARE: u64 = 64;

impl Limit {
    /// What a process may always have resident.
    fn floor(limit: u64) -> u64 {
        (limit / FLOOR_SHARE).clamp(FLOOR_MIN, FLOOR_MAX).min(limit / FLOOR_SHARE_MAX)
    }

    /// What this process could evict.
    fn may_go(&self) -> u64 {
        match self.get() {
            Some(limit) if !self.is_stuck() => {
                self.resident_bytes().saturating_sub(Self::floor(limit))
            }
            _ => 0,
        }
    }

    /// Whether this process has more resident than its floor. By itself it has none.
    pub(super) fn is_more_than_floor(&self, limit: u64) -> bool {
        self.member.is_none() || self.resident_bytes() > Self::floor(limit)
    }

    /// Tells the others what this process holds.
    pub(super) fn publish(&self) {
        if let Some(member) = &self.member {
            member.publish(self.held(), self.may_go());
        }
    }

    /// Returns whether more than `mark` is held with so many more blocks: by all processes of the
    /// tree, if there is one.
    pub(super) fn is_above(&self, more: usize, mark: u64) -> bool {
        let more = (more * self.unit) as u64;
        let Some(member) = &self.member else { return self.held() + more > mark };
        let limit = self.limit.load(Relaxed);
        let sum = || member.sum(self.held(), self.may_go());
        let mut all = sum();
        let is_short = |held: u64| held + more + self.reserve_of(limit) > limit;
        // What processes held that are gone is free.
        if member.note_short(is_short(all.held)) {
            all = sum();
            member.note_short(is_short(all.held));
        }
        if all.held > limit + limit / LOST_SHARE && all.may_go <= limit / LOST_SHARE {
            member.note_lost();
        }
        all.held + more > mark
    }

    /// Returns whether the tree is short of room, and this process holds more than its share.
    pub(crate) fn is_above_share(&self) -> bool {
        let Some((member, limit)) = self.member.as_ref().zip(self.get()) else { return false };
        let all = member.sum(self.held(), self.may_go());
        let is_short = all.held + self.reserve_of(limit) > limit;
        member.note_short(is_short);
        is_short
            && self.is_more_than_floor(limit)
            && member.held(self.held()) > limit / all.processes
    }

    /// Takes note of all anonymous memory that this process has.
    pub(crate) fn weigh_process(&self) {
        if let Some(member) = &self.member
            && let Some(all) = alive::anonymous()
        {
            member.note_all(all, self.held(), self.tables.load(Relaxed));
            self.publish();
        }
    }

    /// Does so now and then.
    pub(crate) fn weigh_now_and_then(&self) {
        if self.member.as_ref().is_some_and(|member| member.is_sample_due()) {
            self.weigh_process();
        }
    }

    /// Has a child, which has its parent's place, have its own.
    pub(crate) fn begin_child(&self) {
        if let Some(member) = &self.member {
            member.begin();
            self.publish();
        }
    }
}
