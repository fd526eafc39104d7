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
/// The number of faults between two samples of the process's memory.
const SAMPLE: usize = 256;
/// The number of faults between two samples while some open blocks were not written yet.
const SAMPLE_OPENED: usize = 4;
/// Blocks that were opened ahead and not written count as written beyond this share (1/32) of the
/// limit, because the program may write all of them before the next sample.
const UNWRITTEN_SHARE: u64 = 32;
/// Each process may have opened this number of bytes ahead, whatever the limit is.
const UNWRITTEN_MIN: u64 = 1 << 20;

impl SharedLimit for GroupMember {
    fn floor(&self, floor: u64, limit: u64) -> u64 {
        floor.clamp(FLOOR_MIN, FLOOR_MAX).min(limit / FLOOR_SHARE_MAX)
    }

    fn excess(&self) -> (u64, u64) {
        (self.excess.load(Relaxed), self.large.load(Relaxed))
    }

    fn sum(&self, own: &Usage) -> Sum {
        let mut sum = self.group.sum_but(self.slot.load(Relaxed), own.limit / LARGE_SHARE);
        let (held, evictable) = self.shares().counted(self.process_bytes(own.held), own.evictable);
        sum.held += held + self.shared_bytes();
        sum.evictable += evictable;
        sum.large += 1;
        let peak = self.group.head().peak;
        if sum.held > peak.load(Relaxed) {
            peak.fetch_max(sum.held, Relaxed);
        }
        sum
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
        let Some(slot) = self.kept_slot() else { return self.slot.store(NONE, Relaxed) };
        if !self.is_executing.load(Relaxed) {
            slot.held.store(self.process_bytes(own.held), Relaxed);
            slot.evictable.store(own.evictable.min(self.process_bytes(own.held)), Relaxed);
        }
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
        // Blocks that were opened ahead are written without a fault, so memory that the kernel did
        // not count at the last sample may soon be counted.
        let every = if self.beside.load(Relaxed) < 0 { SAMPLE_OPENED } else { SAMPLE };
        self.samples.fetch_add(1, Relaxed).is_multiple_of(every)
    }

    fn note_process(&self, bytes: u64, own: &Usage) {
        let unwritten = UNWRITTEN_MIN.max(own.limit / UNWRITTEN_SHARE);
        let least = own.held.saturating_sub(own.tables + unwritten);
        self.note_all(bytes.max(least), own.held, own.tables);
        self.publish(own);
        let all = self.check(own, 0);
        self.note_exceeded(all.held, own.limit);
    }

    fn note_pool(&self, pages: u64, room: u64, changed: u64) {
        self.sharing.note_pool(self.kept_slot(), pages, room, changed);
    }

    fn begin_child(&self) {
        // A child in another PID namespace, and its children, take no slot, because their numbers
        // would be ambiguous.
        // Another thread of the parent, about to execute a program, may have set this flag.
        self.is_executing.store(false, Relaxed);
        let may_ask = self.is_in() && !page::is_confined();
        if may_ask && rustix::process::getppid().is_none() {
            self.is_foreign.store(true, Relaxed);
        }
        if self.is_foreign.load(Relaxed) {
            return self.slot.store(NONE, Relaxed);
        }
        let (parent, inherited) = (self.slot.load(Relaxed), self.sharing.inherited());
        self.begin();
        self.group.set_parent(self.slot.load(Relaxed), parent, inherited);
        self.begin_shared();
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
