//! The message that the limit can't be kept, and the kinds of memory that a process can't evict.

use crate::member::GroupMember;
use crate::messages::{OVER_LIMIT, takes};
use crate::process::own_number;
use crate::sums::largest;
use std::sync::atomic::Ordering::Relaxed;
use zmem::{Arena, SharedLimit, Usage};

/// The numbers of bytes that a process can't evict, by kind: compressed data and the pager's
/// metadata, resident blocks, shared memory, and private memory that the pager does not manage.
pub(crate) type Unevictable = [u64; 4];

/// Describes a limit that can't be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverLimit {
    /// The number of bytes that the processes together can't evict.
    pub stays: u64,
    /// The ID of the process that holds the largest part of `stays`.
    pub process: u64,
    /// The number of unevictable bytes that `process` holds.
    pub most: u64,
    /// Whether `process` is the ID of the calling process.
    pub is_own: bool,
    /// Whether `process` is still in the group.
    pub is_there: bool,
}

impl OverLimit {
    /// Records that the limit can't be kept, because `stays` bytes can't be evicted. `kept`
    /// contains the numbers of bytes that this process can't evict.
    pub(crate) fn note(own: &GroupMember, stays: u64, kept: &Unevictable) {
        let (group, head) = (own.group(), own.group().head());
        if head.reported.load(Relaxed) & OVER_LIMIT == 0 {
            own.unevictable.iter().zip(kept).for_each(|(word, bytes)| word.store(*bytes, Relaxed));
            head.over_limit.store(stays, Relaxed);
            let stays = |(held, evictable): (u64, u64)| held.saturating_sub(evictable);
            let (_, process, bytes) = largest(group, stays).unwrap_or_default();
            head.over_limit_process.store(process, Relaxed);
            head.over_limit_most.store(bytes, Relaxed);
        }
    }

    /// Returns the recorded description of a limit that can't be kept. Returns `None` if nothing
    /// was recorded, if `may_say` returns false, or if the message was already reported.
    pub fn take(own: &GroupMember, may_say: impl FnOnce(&Self) -> bool) -> Option<Self> {
        let (group, head) = (own.group(), own.group().head());
        let stays = head.over_limit.load(Relaxed);
        if stays == 0 || head.reported.load(Relaxed) & OVER_LIMIT != 0 {
            return None;
        }
        let process = head.over_limit_process.load(Relaxed);
        let over_limit = OverLimit {
            stays,
            process,
            most: head.over_limit_most.load(Relaxed),
            is_own: process == own_number(),
            is_there: group.find(process).is_some(),
        };
        takes(group, OVER_LIMIT, || may_say(&over_limit)).then_some(over_limit)
    }
}

/// The numbers of bytes that a process holds and can't evict, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Compressed data and the pager's metadata.
    pub compressed: u64,
    /// The part of `compressed` that is stored uncompressed, because compression would not make it
    /// smaller.
    pub incompressible: u64,
    /// Blocks that system calls or locks pin in memory.
    pub pinned: u64,
    /// Other resident blocks: the floor of the process, blocks whose eviction frees nothing, and
    /// blocks that were pinned for calls that have returned.
    pub resident: u64,
    /// Blocks that stay resident because a debugger reads them.
    pub debugged: u64,
    /// Shared memory.
    pub shared: u64,
    /// Private memory that the pager does not manage, outside or inside the arena.
    pub unmanaged: u64,
}

impl Holdings {
    /// Returns the memory that this process could not evict when it last found that the limit can't
    /// be kept. If the process has not found this yet, returns the memory that it can't evict now.
    /// `arena` is the arena of this process.
    pub fn of(own: &GroupMember, arena: &Arena) -> Self {
        // Another thread may be storing these words, so they may describe different times.
        let recorded = own.unevictable.each_ref().map(|word| word.load(Relaxed));
        let recorded = Some(recorded).filter(|bytes| *bytes != [0; 4]);
        let [compressed, resident, shared, unmanaged] =
            recorded.unwrap_or_else(|| unevictable(own, &arena.usage()));
        let pinned = arena.pinned_bytes().min(resident);
        let others = resident - pinned;
        let (resident, debugged) = if own.keeps_all() { (0, others) } else { (others, 0) };
        Holdings {
            compressed,
            incompressible: arena.incompressible_bytes().min(compressed),
            pinned,
            resident,
            debugged,
            shared,
            unmanaged,
        }
    }

    /// Returns the sum of all kinds, in bytes.
    pub fn all(&self) -> u64 {
        let managed = self.compressed + self.pinned + self.resident + self.debugged;
        managed + self.shared + self.unmanaged
    }
}

/// Returns the memory that this process holds now and can't evict.
pub(crate) fn unevictable(own: &GroupMember, usage: &Usage) -> Unevictable {
    // Blocks that were opened, but not yet written, use no memory.
    let written = own.process_bytes(usage.resident).min(usage.resident);
    [
        usage.held - usage.resident,
        written.saturating_sub(usage.evictable),
        own.slot.shared_bytes(),
        own.beside.load(Relaxed).max(0) as u64,
    ]
}
