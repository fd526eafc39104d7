//! The limit that the processes of a group share. Each process adds up the bytes that all processes
//! hold, and evicts its own blocks.
//!
//! ```text
//!   this process: 0 ---- floor ------------- share ------------------------ what it holds
//!                        | evicted if it needs room      | evicted if any process needs room    |
//! ```
//! A process is allowed to keep resident blocks up to its floor, so that it can run whatever the
//! other processes hold. Each process therefore adds at most one floor to the excess over the limit
//! (zm-L5).

use crate::inherited::set_parent;
use crate::member::GroupMember;
use crate::messages::Exceeded;
use crate::over_limit::{OverLimit, unevictable};
use crate::own_slot::NONE;
use crate::peers::{ASKED, KEEPS};
use crate::policy::{
    FLOOR_MAX, FLOOR_MIN, FLOOR_SHARE_MAX, LARGE_SHARE, OVER_LIMIT_SHARE, SAMPLE, SAMPLE_OPENED,
    SAMPLE_TIME, UNCLOSED_SHARE,
};
use crate::sums::{Share, sum_but, wants};
use crate::waits::poke_idle;
use std::sync::atomic::Ordering::Relaxed;
use zmem::{Relatives, SharedLimit, Sum, Usage, milliseconds};

impl SharedLimit for GroupMember {
    fn floor(&self, floor: u64, limit: u64) -> u64 {
        floor.clamp(FLOOR_MIN, FLOOR_MAX).min(limit / FLOOR_SHARE_MAX)
    }

    fn excess(&self) -> (u64, u64) {
        (self.excess.load(Relaxed), self.large.load(Relaxed))
    }

    fn sum(&self, own: &Usage) -> Sum {
        let mut sum = sum_but(self.group(), self.slot.nth(), own.limit / LARGE_SHARE);
        let (held, evictable) =
            self.slot.shares().counted(self.process_bytes(own.held), own.evictable);
        sum.held += held + self.slot.shared_bytes();
        sum.evictable += evictable;
        sum.large += 1;
        let peak = self.group().head().peak;
        if sum.held > peak.load(Relaxed) {
            peak.fetch_max(sum.held, Relaxed);
        }
        sum
    }

    fn check(&self, own: &Usage, more: u64) -> Sum {
        let (mut all, limit) = (self.sum(own), own.limit);
        let is_short = all.held + more + own.reserve > limit;
        // `note_short` may have freed slots of ended processes, so the memory is added up again.
        if note_short(self, is_short, limit) {
            all = self.sum(own);
        }
        let excess = all.unevictable().saturating_sub(limit);
        if excess / all.large != self.excess.load(Relaxed) {
            self.excess.store(excess / all.large, Relaxed);
            self.large.store(all.large, Relaxed);
        }
        if excess > limit / OVER_LIMIT_SHARE {
            OverLimit::note(self, all.unevictable(), &unevictable(self, own));
        }
        all
    }

    fn process_bytes(&self, held: u64) -> u64 {
        held.saturating_add_signed(self.beside.load(Relaxed))
    }

    fn publish(&self, own: &Usage) {
        let Some(slot) = self.slot.kept() else { return self.slot.nth.store(NONE, Relaxed) };
        if !self.is_executing.load(Relaxed) {
            slot.held.store(self.process_bytes(own.held), Relaxed);
            slot.evictable.store(own.evictable.min(self.process_bytes(own.held)), Relaxed);
        }
    }

    fn is_above_share(&self, own: &Usage) -> bool {
        self.held(own.held) > share(self, own.limit).bytes
    }

    fn wants_room(&self, own: &Usage) -> bool {
        note_wanted(self);
        let share = share(self, own.limit);
        share.is_passed && self.held(own.held) < share.bytes
    }

    fn is_measurement_due(&self) -> bool {
        // If blocks were opened before their first access, the program can write to them without a
        // fault. The memory that the kernel counts can then soon exceed the last measurement.
        let every = if self.beside.load(Relaxed) < 0 { SAMPLE_OPENED } else { SAMPLE };
        let passed = milliseconds().saturating_sub(self.measured.load(Relaxed));
        self.samples.fetch_add(1, Relaxed).is_multiple_of(every) || passed >= SAMPLE_TIME
    }

    fn note_process(&self, bytes: u64, own: &Usage) {
        note_all(self, bytes, own.held, own.tables);
        self.publish(own);
        let all = self.check(own, 0);
        Exceeded::note(self.group(), all.held, own.limit);
    }

    fn note_pool(&self, pages: u64, room: u64, changed: u64) {
        self.sharing.note_pool(self.slot.kept(), pages, room, changed);
    }

    fn begin_child(&self) {
        // Another thread of the parent may have set this flag before an `execve`.
        self.is_executing.store(false, Relaxed);
        // A child in another PID namespace takes no slot, because its process ID would be
        // ambiguous. Children of the child take no slot either.
        let may_ask = self.slot.is_taken() && !page::is_confined();
        if may_ask && rustix::process::getppid().is_none() {
            self.is_foreign.store(true, Relaxed);
        }
        if self.is_foreign.load(Relaxed) {
            return self.slot.nth.store(NONE, Relaxed);
        }
        let (parent, inherited) = (self.slot.nth(), self.sharing.inherited());
        self.slot.take(&self.sharing);
        if let Some(slot) = self.slot.any().filter(|_| parent != NONE) {
            set_parent(&slot, parent, inherited);
        }
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
        self.sharing.leave_blocks(self.slot.kept(), bytes);
    }

    fn blocks(&self) -> u64 {
        self.sharing.blocks.whole.load(Relaxed)
    }

    fn relatives(&self) -> Relatives {
        let (group, own, now) = (self.group(), self.slot.nth(), milliseconds());
        let is_child = |nth: &usize| own != NONE && group.parent(*nth) == own as u64 + 1;
        let borrowed = self.slot.shares().blocks;
        let mut relatives = Relatives { borrowed, ..Relatives::default() };
        for nth in group.in_use().filter(is_child) {
            relatives.lent = relatives.lent.max(group.shares(nth).blocks);
            relatives.is_child_short |= wants(group, nth, now);
        }
        relatives
    }

    fn closes_at_fork(&self, own: &Usage, more: u64) -> bool {
        self.slot.is_taken() && self.sum(own).held + more > own.limit / UNCLOSED_SHARE
    }
}

pub(crate) fn share(own: &GroupMember, limit: u64) -> Share {
    Share::of(own.group(), own.slot.nth(), limit, milliseconds())
}

/// Publishes that this process has just found no room for its blocks within the limit.
pub(crate) fn note_wanted(own: &GroupMember) {
    own.slot.any().inspect(|slot| slot.wanted.store(milliseconds(), Relaxed));
}

/// Records that the kernel counts `all` bytes of anonymous memory of this process, and that the
/// pager counts `counted` bytes. Only `counted` includes the `tables` bytes of page tables and of
/// the pager's tables.
pub(crate) fn note_all(own: &GroupMember, all: u64, counted: u64, tables: u64) {
    own.beside.store((all + tables) as i64 - counted as i64, Relaxed);
    own.measured.store(milliseconds(), Relaxed);
}

/// Publishes `is_short`: whether the processes hold more than the limit minus its reserve. If so,
/// and if a search for ended processes is due, frees their slots and asks one waiting process that
/// holds more than its share to evict. Returns whether this call searched for ended processes.
pub(crate) fn note_short(own: &GroupMember, is_short: bool, limit: u64) -> bool {
    let word = own.group().head().is_short;
    if word.load(Relaxed) != u64::from(is_short) {
        word.store(is_short.into(), Relaxed);
    }
    let has_looked = is_short && own.group().clear_gone_at(milliseconds());
    if has_looked {
        poke_idle(own.group(), share(own, limit).bytes);
    }
    has_looked
}
