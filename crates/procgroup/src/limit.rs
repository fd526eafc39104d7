//! The limit of several processes. Each process adds up the bytes that all processes hold, and
//! evicts its own blocks.
//!
//! ```text
//!   this process: 0 ---- floor ------------- share ------------------------ what it holds
//!                        | evicted if it needs room      | evicted if any process needs room    |
//! ```
//! A process may keep resident blocks up to its floor, whatever other processes hold, so that it
//! can run. So each process adds at most one floor to the excess over the limit (zm-L5).

use crate::group::NONE;
use crate::member::GroupMember;
use crate::peers::{ASKED, KEEPS};
use std::sync::atomic::Ordering::Relaxed;
use zmem::{Relatives, SharedLimit, Sum, Usage, milliseconds};

/// The minimum floor in bytes.
const FLOOR_MIN: u64 = 1 << 20;
/// The maximum floor in bytes.
const FLOOR_MAX: u64 = 16 << 20;
/// For a small limit, the floor is at most this share (1/8) of the limit.
const FLOOR_SHARE_MAX: u64 = 8;
/// A process is large if it holds at least this share (1/16) of the limit.
const LARGE_SHARE: u64 = 16;
/// A group's limit is reported as exceeded if unevictable memory exceeds it by more than this share
/// (1/64).
const OVER_LIMIT_SHARE: u64 = 64;
/// A fork closes no blocks if all processes would hold at most this share (1/2) of the limit, even
/// if the child copied all blocks.
const UNCLOSED_SHARE: u64 = 2;

impl SharedLimit for GroupMember {
    fn floor(&self, floor: u64, limit: u64) -> u64 {
        floor.clamp(FLOOR_MIN, FLOOR_MAX).min(limit / FLOOR_SHARE_MAX)
    }

    fn excess(&self) -> (u64, u64) {
        (self.excess.load(Relaxed), self.large.load(Relaxed))
    }

    fn sum(&self, own: &Usage) -> Sum {
        self.sum_of(own.held, own.evictable, own.limit / LARGE_SHARE)
    }

    fn check(&self, own: &Usage, more: u64) -> Sum {
        let (mut all, limit) = (self.sum(own), own.limit);
        let is_short = all.held + more + own.reserve > limit;
        // `note_short` has cleared slots of processes that have exited, so the sum is computed
        // again.
        if self.note_short(is_short, limit) {
            all = self.sum(own);
        }
        let excess = all.unevictable().saturating_sub(limit);
        if excess / all.large != self.excess.load(Relaxed) {
            self.excess.store(excess / all.large, Relaxed);
            self.large.store(all.large, Relaxed);
        }
        if excess > limit / OVER_LIMIT_SHARE {
            self.note_over_limit(all.unevictable(), &self.unevictable(own));
        }
        all
    }

    fn process_bytes(&self, held: u64) -> u64 {
        held.saturating_add_signed(self.beside.load(Relaxed))
    }

    fn publish(&self, own: &Usage) {
        self.publish_bytes(own.held, own.evictable);
    }

    fn is_above_share(&self, own: &Usage) -> bool {
        self.held(own.held) > self.share(own.limit).bytes
    }

    fn wants_room(&self, own: &Usage) -> bool {
        self.note_wanted();
        let share = self.share(own.limit);
        share.is_passed && self.held(own.held) < share.bytes
    }

    fn is_measurement_due(&self) -> bool {
        self.is_sample_due()
    }

    fn note_process(&self, bytes: u64, own: &Usage) {
        self.note_all(bytes, own.held, own.tables);
        self.publish(own);
        self.check(own, 0);
    }

    fn note_pool(&self, pages: u64, room: u64, changed: u64) {
        self.sharing.note_pool(self.kept_slot(), pages, room, changed);
    }

    fn begin_child(&self) {
        self.join_as_child();
    }

    fn keeps_all(&self) -> bool {
        self.has(KEEPS)
    }

    fn has_peers(&self) -> bool {
        self.has(ASKED)
    }

    fn add_blocks(&self, bytes: u64) {
        self.sharing.add_blocks(bytes);
    }

    fn leave_blocks(&self, bytes: u64) {
        self.sharing.leave_blocks(self.kept_slot(), bytes);
    }

    fn blocks(&self) -> u64 {
        self.sharing.blocks.whole.load(Relaxed)
    }

    fn relatives(&self) -> Relatives {
        let (own, now) = (self.slot.load(Relaxed), milliseconds());
        let is_child = |nth: &usize| own != NONE && self.group.parent(*nth) == own as u64 + 1;
        let mut relatives = Relatives { borrowed: self.shares().blocks, ..Relatives::default() };
        for nth in self.group.in_use().filter(is_child) {
            relatives.lent = relatives.lent.max(self.group.shares(nth).blocks);
            relatives.is_child_short |= self.group.wants(nth, now);
        }
        relatives
    }
    fn closes_at_fork(&self, own: &Usage, more: u64) -> bool {
        self.is_in() && self.sum(own).held + more > own.limit / UNCLOSED_SHARE
    }
}
