//! Messages, each of which only one process of a group reports.

use crate::layout::name_of;
use crate::member::GroupMember;
use crate::process::own_number;
use crate::unevictable::{Holdings, Unevictable};
use std::sync::atomic::Ordering::Relaxed;
use zmem::{Arena, SharedLimit, Usage};

/// Bits for these messages: the limit can't be kept, a working set is larger than the limit, and a
/// process is traced.
const OVER_LIMIT: u64 = 1;
const LACKING: u64 = 2;
const TRACED: u64 = 4;
/// The bit for the message that the limit was exceeded for a time.
const EXCEEDED: u64 = 8;

/// The limit was exceeded if the processes held more than the limit and this share (1/20) of it.
/// Less may be an error of the measurement.
const EXCEEDED_SHARE: u64 = 20;

/// A limit that can't be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverLimit {
    /// The bytes of all processes that can't be evicted.
    pub stays: u64,
    /// The process that holds the most of these bytes.
    pub process: u64,
    /// The number of these bytes that this process holds.
    pub most: u64,
    /// Whether the process that holds most of these bytes is the caller's process.
    pub is_own: bool,
    /// Whether the process that holds most of these bytes still exists.
    pub is_there: bool,
}

/// A limit that was exceeded for a time, although enough memory could be evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// The most bytes that all processes held.
    pub held: u64,
    /// The process that held the most of these bytes.
    pub process: u64,
    /// The name of its program.
    pub name: String,
    /// The number of these bytes that this process held.
    pub most: u64,
}

impl GroupMember {
    /// Records that all processes hold `held` bytes, if that is much more than the limit. The
    /// kernel has just counted the memory of this process.
    pub(crate) fn note_exceeded(&self, held: u64, limit: u64) {
        let head = self.group.head();
        let is_most = held > limit.saturating_add(limit / EXCEEDED_SHARE)
            && head.exceeded.fetch_max(held, Relaxed) < held;
        let holder = is_most.then(|| self.group.largest_holder()).flatten();
        if let Some((nth, most)) = holder {
            let slot = self.group.slot(nth);
            head.exceeded_process.store(slot.process.load(Relaxed), Relaxed);
            for (to, from) in head.exceeded_name().into_iter().zip(slot.name()) {
                to.store(from.load(Relaxed), Relaxed);
            }
            head.exceeded_most.store(most, Relaxed);
        }
    }

    /// Returns the facts about a limit that was exceeded. Returns `None` if it was not, if this
    /// process's parent will report it, if `may_say` returns false, or if this message or the one
    /// about a limit that can't be kept was already reported.
    pub fn take_exceeded(&self, may_say: impl FnOnce() -> bool) -> Option<Exceeded> {
        let head = self.group.head();
        let held = head.exceeded.load(Relaxed);
        let is_wanted = held > 0 && head.reported.load(Relaxed) & OVER_LIMIT == 0;
        let has_parent = || {
            let parent = rustix::process::getppid();
            parent.is_some_and(|parent| self.group.has(parent.as_raw_nonzero().get() as u64))
        };
        let is_taken = is_wanted && self.takes(EXCEEDED, || may_say() && !has_parent());
        is_taken.then(|| Exceeded {
            held,
            process: head.exceeded_process.load(Relaxed),
            name: name_of(head.exceeded_name().map(|word| word.load(Relaxed))),
            most: head.exceeded_most.load(Relaxed),
        })
    }

    /// Records that the limit can't be kept, because `stays` bytes can't be evicted. `kept` is this
    /// process's part of these bytes.
    pub(crate) fn note_over_limit(&self, stays: u64, kept: &Unevictable) {
        let head = self.group.head();
        if head.reported.load(Relaxed) & OVER_LIMIT == 0 {
            self.kept.store(kept);
            head.over_limit.store(stays, Relaxed);
            let (process, bytes) = self.group.largest();
            head.over_limit_process.store(process, Relaxed);
            head.over_limit_most.store(bytes, Relaxed);
        }
    }

    /// Returns the memory that this process holds now and can't evict.
    pub(crate) fn unevictable(&self, own: &Usage) -> Unevictable {
        // Blocks that were opened and not written use no memory yet.
        let written = self.process_bytes(own.resident).min(own.resident);
        Unevictable {
            compressed: own.held - own.resident,
            resident: written.saturating_sub(own.evictable),
            shared: self.shared_bytes(),
            unmanaged: self.beside_bytes(),
        }
    }

    /// Returns the memory that this process could not evict when it found that the limit can't be
    /// kept. If this process has not found this, returns the memory that it holds now. `arena` is
    /// the arena of this process.
    pub fn holdings(&self, arena: &Arena) -> Holdings {
        let recorded = Some(self.kept.load()).filter(|kept| *kept != Unevictable::default());
        let kept = recorded.unwrap_or_else(|| self.unevictable(&arena.usage()));
        let pinned = arena.pinned_bytes().min(kept.resident);
        let others = kept.resident - pinned;
        let (resident, debugged) = if self.keeps_all() { (0, others) } else { (others, 0) };
        Holdings {
            compressed: kept.compressed,
            incompressible: arena.incompressible_bytes().min(kept.compressed),
            pinned,
            resident,
            debugged,
            shared: kept.shared,
            unmanaged: kept.unmanaged,
        }
    }

    /// Returns the facts about a limit that can't be kept. Returns `None` if no process found such
    /// a limit, if `may_say` returns false, or if the facts were already reported.
    pub fn take_over_limit(&self, may_say: impl FnOnce(&OverLimit) -> bool) -> Option<OverLimit> {
        let head = self.group.head();
        let stays = head.over_limit.load(Relaxed);
        if stays == 0 || head.reported.load(Relaxed) & OVER_LIMIT != 0 {
            return None;
        }
        let process = head.over_limit_process.load(Relaxed);
        let (is_own, is_there) = (process == own_number(), self.group.has(process));
        let over_limit = OverLimit {
            stays,
            process,
            most: head.over_limit_most.load(Relaxed),
            is_own,
            is_there,
        };
        self.takes(OVER_LIMIT, || may_say(&over_limit)).then_some(over_limit)
    }

    /// If faults have taken half of the time for 10 s, returns the bytes of blocks that a larger
    /// limit would keep resident. The number is returned once, to one process of the group for
    /// which `may_say` returns true. `arena` is the arena of this process.
    pub fn take_lacking(&self, arena: &Arena, may_say: impl FnOnce() -> bool) -> Option<u64> {
        let lacks = arena.lacks()?;
        self.takes(LACKING, may_say).then_some(lacks)
    }

    /// Returns true once, to the first process of the group for which `may_say` returns true. That
    /// process reports that it is traced.
    pub fn takes_traced(&self, may_say: impl FnOnce() -> bool) -> bool {
        self.takes(TRACED, may_say)
    }

    /// Returns whether this process is the first to report `message`, and `may_say` allows the
    /// report.
    fn takes(&self, message: u64, may_say: impl FnOnce() -> bool) -> bool {
        let reported = self.group.head().reported;
        reported.load(Relaxed) & message == 0
            && may_say()
            && reported.fetch_or(message, Relaxed) & message == 0
    }
}
