//! The memory of this process that may be evicted, and the sums over all processes that share the
//! limit.
//!
//! ```text
//!   resident:  | floor | evicted if room is needed | shared blocks (zm-L16)           |
//!              | counts for this process           | for this process | for the parent |
//! ```
//! A process may always keep resident blocks up to its floor, so that it can run.

use super::{Limit, SharedLimit, Sum, Usage};
use crate::kept_file::anonymous;
use crate::policy::{EXCESS_WEIGHT, FLOOR_SHARE, OVER_LIMIT_FLOOR_SHARE, TIGHT_SHARE};
use std::sync::atomic::Ordering::Relaxed;

/// Returns the floor `floor` of a limit, grown by `excess`: see [`SharedLimit::excess`].
fn grown(floor: u64, limit: u64, (excess, large): (u64, u64)) -> u64 {
    // The bound exists because a brief excess must not raise the floor much.
    let most = limit / OVER_LIMIT_FLOOR_SHARE / large.max(1);
    (floor + excess * EXCESS_WEIGHT).min(floor.max(most))
}

impl Limit {
    /// Returns the memory that this process holds now.
    pub(crate) fn usage(&self) -> Usage {
        let (limit, resident) = (self.limit.load(Relaxed), self.resident_bytes());
        let is_evicting = self.get().is_some() && !self.has_no_progress() && !self.keeps_all();
        let kept = if is_evicting { self.kept_floor(limit) } else { resident };
        Usage {
            limit,
            reserve: self.reserve_of(limit),
            held: resident + self.beside_resident(),
            resident,
            evictable: resident.saturating_sub(kept),
            tables: self.tables.load(Relaxed),
        }
    }

    fn shared_and_limit(&self) -> Option<(&dyn SharedLimit, u64)> {
        self.shared.as_deref().zip(self.get())
    }

    /// Returns the bytes that this process keeps resident (its floor) if the limit can be kept.
    fn kept_floor(&self, limit: u64) -> u64 {
        let floor = limit / FLOOR_SHARE;
        self.shared.as_ref().map_or(floor, |shared| shared.floor(floor, limit))
    }

    /// Returns the bytes that this process may always have resident.
    fn floor(&self, limit: u64) -> u64 {
        grown(self.kept_floor(limit), limit, self.excess())
    }

    /// Returns the bytes by which unevictable memory exceeds the limit, divided by the number of
    /// large processes, and that number. Pinned blocks do not count as unevictable, because they
    /// can be evicted once they are unpinned.
    fn excess(&self) -> (u64, u64) {
        match &self.shared {
            Some(shared) => shared.excess(),
            None => (self.beside_resident().saturating_sub(self.limit.load(Relaxed)), 1),
        }
    }

    /// Returns whether unevictable memory exceeds the limit.
    pub(crate) fn is_over_limit(&self) -> bool {
        self.excess().0 > 0
    }

    /// Returns the resident bytes of this process above its floor.
    pub(crate) fn above_floor(&self) -> u64 {
        self.get().map_or(0, |limit| self.own_bytes().saturating_sub(self.floor(limit)))
    }

    pub(super) fn is_more_than_floor(&self, limit: u64) -> bool {
        self.own_bytes() > self.floor(limit)
    }

    /// Returns the sums over all processes.
    fn sum(&self) -> Sum {
        let own = self.usage();
        let alone = Sum { held: own.held, evictable: own.evictable, large: 1 };
        self.shared.as_ref().map_or(alone, |shared| shared.sum(&own))
    }

    /// Returns whether unevictable memory of all processes together leaves little room below the
    /// limit.
    pub(crate) fn is_tight(&self) -> bool {
        self.get().is_some_and(|limit| self.sum().unevictable() > limit - limit / TIGHT_SHARE)
    }

    /// Returns whether blocks may be opened ahead of their first touch. The program may write to
    /// open blocks later without a fault. So the check counts all open blocks, even blocks that the
    /// kernel does not count yet, and permits all large processes together a quarter of the limit.
    pub(crate) fn has_room(&self) -> bool {
        self.get().is_none_or(|limit| {
            let all = self.sum();
            all.held <= limit / 2 && self.held() <= limit / 4 / all.large
        })
    }

    /// Returns whether more than `mark` bytes are held if `more` further blocks become resident.
    /// The bytes of all processes that share the limit count.
    pub(super) fn is_above(&self, more: usize, mark: u64) -> bool {
        let more = (more * self.block) as u64;
        let check = |shared: &dyn SharedLimit| shared.check(&self.usage(), more).held;
        self.shared.as_deref().map_or_else(|| self.held(), check) + more > mark
    }

    /// Returns whether this process evicts no blocks because a debugger reads its memory (zm-L19).
    pub(crate) fn keeps_all(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.keeps_all())
    }

    /// Returns the bytes held. If the limit is shared, the result is the size of all memory of the
    /// process, as the kernel last counted it.
    pub(crate) fn process_held(&self) -> u64 {
        self.shared.as_ref().map_or(self.held(), |shared| shared.process_bytes(self.held()))
    }

    /// Returns the resident part of `process_held`. Blocks that were opened ahead count as
    /// resident, although they use no memory until they are written.
    pub(crate) fn process_resident(&self) -> u64 {
        self.resident_bytes().min(self.process_held())
    }

    /// Publishes the memory of this process to the processes that share the limit.
    pub(super) fn publish(&self) {
        self.shared.iter().for_each(|shared| shared.publish(&self.usage()));
    }

    /// Returns whether this process holds more than its share of a shared limit, and more than its
    /// floor.
    pub(crate) fn is_above_share(&self) -> bool {
        self.shared_and_limit().is_some_and(|(shared, limit)| {
            self.is_more_than_floor(limit) && shared.is_above_share(&self.usage())
        })
    }

    /// Records that this process found no room. Returns whether it may use a part of the reserve,
    /// because other processes hold more than their share and will evict it.
    pub(crate) fn wants_of_others(&self) -> bool {
        self.shared_and_limit().is_some_and(|(shared, _)| shared.wants_room(&self.usage()))
    }

    /// Records the size of all anonymous memory of this process.
    pub(crate) fn weigh_process(&self) {
        if let Some(shared) = &self.shared
            && let Some(bytes) = anonymous()
        {
            shared.note_process(bytes, &self.usage());
        }
    }

    /// Calls `weigh_process` if a measurement is due.
    pub(crate) fn weigh_now_and_then(&self) {
        if self.shared.as_ref().is_some_and(|shared| shared.is_measurement_due()) {
            self.weigh_process();
        }
    }

    /// In a child of fork, leaves the parent's place among the processes that share the limit, and
    /// sets the peak to the present values.
    pub(crate) fn begin_child(&self) {
        self.peak.begin(self.process_held(), self.process_resident());
        self.shared.iter().for_each(|shared| shared.begin_child());
        self.publish();
    }

    /// Counts blocks that will be shared from the next fork on. The blocks stay resident.
    pub(crate) fn add_shared(&self, blocks: usize) {
        self.shared.iter().for_each(|shared| shared.add_blocks((blocks * self.block) as u64));
    }

    /// Subtracts blocks that are no longer shared.
    pub(crate) fn leave_shared(&self, blocks: usize) {
        self.shared.iter().for_each(|shared| shared.leave_blocks((blocks * self.block) as u64));
    }

    fn shared_bytes(&self) -> u64 {
        self.shared.as_ref().map_or(0, |shared| shared.blocks())
    }

    pub(crate) fn shared_blocks(&self) -> usize {
        self.shared_bytes() as usize / self.block
    }

    /// Returns two numbers: the bytes of shared blocks whose eviction would free nothing, and the
    /// bytes that children may share. The first number includes blocks that count for the parent.
    /// The first number also includes blocks that a child shares, unless a child needs room and
    /// will therefore drop them.
    fn staying(&self) -> (u64, u64) {
        let bytes = self.shared_bytes();
        let Some(shared) = self.shared.as_ref().filter(|_| bytes > 0) else { return (0, 0) };
        let relatives = shared.relatives();
        let stays = if relatives.is_child_short { 0 } else { relatives.lent };
        ((relatives.borrowed + stays).min(bytes), relatives.lent)
    }

    /// Returns whether another process shares some of the blocks, so that it matters which blocks
    /// are accessed.
    pub(crate) fn is_sharing(&self) -> bool {
        let relatives = self.shared.as_ref().map(|shared| shared.relatives());
        relatives.is_some_and(|relatives| relatives.borrowed > 0 || relatives.lent > 0)
    }

    /// Returns the resident bytes, except the bytes of blocks whose eviction would free nothing.
    fn own_bytes(&self) -> u64 {
        self.resident_bytes().saturating_sub(self.staying().0)
    }

    /// Returns whether some shared blocks may be evicted. Blocks that children share may be evicted
    /// only if `has_no_progress` is true because the last round evicted no other block. Evicting
    /// such blocks saves memory only when the children drop them, too.
    pub(crate) fn may_evict_shared(&self, has_no_progress: bool) -> bool {
        let (staying, lent) = self.staying();
        let own = self.shared_bytes().saturating_sub(staying);
        own > 0 && (has_no_progress || own > lent)
    }

    /// Returns whether a fork should close the resident blocks (zm-L16).
    pub(crate) fn closes_at_fork(&self) -> bool {
        let more = self.resident_bytes().saturating_sub(self.shared_bytes());
        self.shared_and_limit()
            .is_some_and(|(shared, _)| shared.closes_at_fork(&self.usage(), more))
    }
}

#[cfg(test)]
mod tests {
    use super::grown;

    #[test]
    fn a_floor_grows_with_the_excess_up_to_a_share_of_the_limit() {
        for (half_excess, floor) in [(0, 1), (1, 3), (2, 5), (3, 7), (138, 8)] {
            assert_eq!(grown(2, 128, (half_excess, 2)), 2 * floor, "{half_excess}");
        }
        assert_eq!([grown(2, 128, (138, 0)), grown(2, 128, (138, 1000))], [32, 2]);
    }
}
