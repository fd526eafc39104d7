//! Messages, each of which only one process of a tree reports.

use super::Member;
use super::member::own_number;
use super::unevictable::Unevictable;
use std::sync::atomic::Ordering::Relaxed;

/// Bits for these messages: the limit can't be kept, a working set is larger than the limit, and a
/// process is traced.
const LOST: u64 = 1;
pub(crate) const LACKING: u64 = 2;
pub(crate) const TRACED: u64 = 4;

/// A limit that can't be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
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

impl Member {
    /// Records that the limit can't be kept, because `stays` bytes can't be evicted. `kept` is this
    /// process's part of these bytes.
    pub(crate) fn note_lost(&self, stays: u64, kept: &Unevictable) {
        let head = self.tree.head();
        if head.told.load(Relaxed) & LOST == 0 {
            self.kept.store(kept);
            head.lost.store(stays, Relaxed);
            let (process, bytes) = self.tree.largest();
            head.lost_most[0].store(process, Relaxed);
            head.lost_most[1].store(bytes, Relaxed);
        }
    }

    /// Returns the memory that this process could not evict when it found that the limit can't be
    /// kept. Returns `None` if another process detected the condition first.
    pub(crate) fn unevictable(&self) -> Option<Unevictable> {
        Some(self.kept.load()).filter(|kept| *kept != Unevictable::default())
    }

    /// Returns the facts about a limit that can't be kept. Returns `None` if no process found such
    /// a limit, if `may_say` returns false, or if the facts were already reported.
    pub(crate) fn take_lost(&self, may_say: impl FnOnce(&Lost) -> bool) -> Option<Lost> {
        let head = self.tree.head();
        let stays = head.lost.load(Relaxed);
        if stays == 0 || head.told.load(Relaxed) & LOST != 0 {
            return None;
        }
        let process = head.lost_most[0].load(Relaxed);
        let (is_own, is_there) = (process == own_number(), self.tree.has(process));
        let lost = Lost { stays, process, most: head.lost_most[1].load(Relaxed), is_own, is_there };
        self.takes(LOST, || may_say(&lost)).then_some(lost)
    }

    /// Returns whether this process is the first to report the message `said`, and `may_say` allows
    /// the report.
    pub(crate) fn takes(&self, said: u64, may_say: impl FnOnce() -> bool) -> bool {
        let told = self.tree.head().told;
        told.load(Relaxed) & said == 0 && may_say() && told.fetch_or(said, Relaxed) & said == 0
    }
}
