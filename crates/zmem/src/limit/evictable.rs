//! The memory that this process is allowed to evict, and the memory of all processes that share the
//! limit.
//!
//! ```text
//!   resident:  | floor | evicted if room is needed | shared blocks (zm-L16)           |
//!              | charged to this process           | to this process  | to the parent  |
//! ```
//! A process keeps the bytes of its floor resident, so that it can run.

use super::{Limit, SharedLimit, Sum, Usage};
use crate::descriptor::MEMORY_USED;
use crate::policy::{EXCESS_WEIGHT, FLOOR_SHARE, OVER_LIMIT_FLOOR_SHARE, TIGHT_SHARE};
use rustix::io::pread;
use std::sync::atomic::Ordering::Relaxed;

/// Returns a floor that is larger than `floor` if unevictable memory exceeds the limit. `(excess,
/// large)` is the result of [`SharedLimit::excess`].
fn grown(floor: u64, limit: u64, (excess, large): (u64, u64)) -> u64 {
    // The floor needs an upper bound, because a large excess may last only briefly.
    let most = limit / OVER_LIMIT_FLOOR_SHARE / large.max(1);
    (floor + excess * EXCESS_WEIGHT).min(floor.max(most))
}

/// Returns the limit and the sizes of the memory that this process holds now.
pub(crate) fn usage(of: &Limit) -> Usage {
    let (limit, resident) = (of.limit.load(Relaxed), of.resident_bytes());
    let is_evicting = of.get().is_some() && !of.has_no_progress() && !keeps_all(of);
    let kept = if is_evicting { kept_floor(of, limit) } else { resident };
    Usage {
        limit,
        reserve: of.reserve_of(limit),
        held: resident + of.beside_resident(),
        resident,
        evictable: resident.saturating_sub(kept),
        tables: of.tables.load(Relaxed),
    }
}

fn shared_and_limit(of: &Limit) -> Option<(&dyn SharedLimit, u64)> {
    of.shared.as_deref().zip(of.get())
}

/// Returns the floor in bytes that this process has while unevictable memory does not exceed the
/// limit.
fn kept_floor(of: &Limit, limit: u64) -> u64 {
    let floor = limit / FLOOR_SHARE;
    of.shared.as_ref().map_or(floor, |shared| shared.floor(floor, limit))
}

/// Returns the floor of this process in bytes.
fn floor(of: &Limit, limit: u64) -> u64 {
    grown(kept_floor(of, limit), limit, excess(of))
}

/// Returns the result of [`SharedLimit::excess`], or the same values for a limit that is not
/// shared. Pinned blocks do not count as unevictable, because they can be evicted once they are
/// unpinned.
fn excess(of: &Limit) -> (u64, u64) {
    match &of.shared {
        Some(shared) => shared.excess(),
        None => (of.beside_resident().saturating_sub(of.limit.load(Relaxed)), 1),
    }
}

/// Returns whether unevictable memory exceeds the limit.
pub(crate) fn is_over_limit(of: &Limit) -> bool {
    excess(of).0 > 0
}

/// Returns the resident bytes of this process above its floor. Shared blocks whose eviction would
/// free no memory are not included.
pub(crate) fn above_floor(of: &Limit) -> u64 {
    let kept = |limit| staying(of).0 + floor(of, limit);
    of.get().map_or(0, |limit| of.resident_bytes().saturating_sub(kept(limit)))
}

/// Returns the memory of all processes that share the limit, or of this process if it shares its
/// limit with none.
fn sum(of: &Limit) -> Sum {
    let own = usage(of);
    let alone = Sum { held: own.held, evictable: own.evictable, large: 1 };
    of.shared.as_ref().map_or(alone, |shared| shared.sum(&own))
}

/// Returns whether the unevictable memory of all processes leaves little room below the limit.
pub(crate) fn is_tight(of: &Limit) -> bool {
    of.get().is_some_and(|limit| sum(of).unevictable() > limit - limit / TIGHT_SHARE)
}

/// Returns whether a fault is allowed to open untouched neighbours of the accessed block. The
/// program can later write to open blocks without a fault. Therefore, this function counts all open
/// blocks of this process, although unwritten blocks use no memory.
pub(crate) fn has_room(of: &Limit) -> bool {
    of.get().is_none_or(|limit| {
        let all = sum(of);
        all.held <= limit / 2 && of.held() <= limit / 4 / all.large
    })
}

/// Returns whether more than `mark` bytes would be held if `more` further blocks became resident.
/// If processes share the limit, the memory of all these processes is counted.
pub(super) fn is_above(of: &Limit, more: usize, mark: u64) -> bool {
    let more = (more * of.block) as u64;
    let check = |shared: &dyn SharedLimit| shared.check(&usage(of), more).held;
    of.shared.as_deref().map_or_else(|| of.held(), check) + more > mark
}

/// Returns whether this process must evict nothing, because a debugger reads its memory (zm-L19).
pub(crate) fn keeps_all(of: &Limit) -> bool {
    of.shared.as_ref().is_some_and(|shared| shared.keeps_all())
}

/// Returns the bytes that this process holds. If the limit is shared, these include the process's
/// memory outside of the arena, as last measured.
pub(crate) fn process_held(of: &Limit) -> u64 {
    of.shared.as_ref().map_or(of.held(), |shared| shared.process_bytes(of.held()))
}

/// Returns the bytes of resident blocks, at most the result of `process_held`. Open blocks that
/// were never written count as resident, although they use no memory.
pub(crate) fn process_resident(of: &Limit) -> u64 {
    of.resident_bytes().min(process_held(of))
}

/// Publishes this process's memory to the processes that share the limit.
pub(super) fn publish(of: &Limit) {
    of.shared.iter().for_each(|shared| shared.publish(&usage(of)));
}

/// Returns whether this process holds more than its share of a shared limit, and more than its
/// floor.
pub(crate) fn is_above_share(of: &Limit) -> bool {
    let is_above = |shared: &dyn SharedLimit| shared.is_above_share(&usage(of));
    above_floor(of) > 0 && of.shared.as_deref().is_some_and(is_above)
}

/// Asks other processes for room. Returns whether this process is allowed to use a part of the
/// reserve, because other processes hold more than their share and will evict.
pub(crate) fn wants_of_others(of: &Limit) -> bool {
    shared_and_limit(of).is_some_and(|(shared, _)| shared.wants_room(&usage(of)))
}

/// Returns the size of this process's anonymous memory in bytes, if it can be read from /proc.
fn anonymous() -> Option<u64> {
    if page::is_confined() {
        return None;
    }
    let mut bytes = [0; 96];
    let len = MEMORY_USED.with(|file| pread(file, &mut bytes, 0)).ok()?;
    let text = str::from_utf8(&bytes[..len]).ok()?;
    let mut numbers = text.split(' ').map(str::parse::<u64>);
    let (resident, shared) = (numbers.nth(1)?.ok()?, numbers.next()?.ok()?);
    // The kernel reports 0 pages if the first thread of the process has ended.
    (resident > 0).then_some(resident.saturating_sub(shared) * page::page_size() as u64)
}

/// Records the size of all anonymous memory of this process.
pub(crate) fn weigh_process(of: &Limit) {
    if let Some(shared) = &of.shared
        && let Some(bytes) = anonymous()
    {
        shared.note_process(bytes, &usage(of));
    }
}

/// Begins to count the memory of a child of fork separately, and sets the maxima to the present
/// values.
pub(crate) fn begin_child(of: &Limit) {
    of.peak.begin(process_held(of), process_resident(of));
    of.shared.iter().for_each(|shared| shared.begin_child());
    publish(of);
}

/// Counts resident blocks that are shared from the next fork on.
pub(crate) fn add_shared(of: &Limit, blocks: usize) {
    of.shared.iter().for_each(|shared| shared.add_blocks((blocks * of.block) as u64));
}

/// Subtracts blocks that are no longer shared.
pub(crate) fn leave_shared(of: &Limit, blocks: usize) {
    of.shared.iter().for_each(|shared| shared.leave_blocks((blocks * of.block) as u64));
}

fn shared_bytes(of: &Limit) -> u64 {
    of.shared.as_ref().map_or(0, |shared| shared.blocks())
}

pub(crate) fn shared_blocks(of: &Limit) -> usize {
    shared_bytes(of) as usize / of.block
}

/// Returns the size of the shared blocks whose eviction would free no memory, and the size of the
/// blocks that a child still shares. Evicting a block that is charged to the parent frees no
/// memory. Evicting a block that a child shares frees no memory unless a child needs room, because
/// only then will the child drop the block.
fn staying(of: &Limit) -> (u64, u64) {
    let bytes = shared_bytes(of);
    let Some(shared) = of.shared.as_ref().filter(|_| bytes > 0) else { return (0, 0) };
    let relatives = shared.relatives();
    let stays = if relatives.is_child_short { 0 } else { relatives.lent };
    ((relatives.borrowed + stays).min(bytes), relatives.lent)
}

/// Returns whether another process still shares some of this process's blocks.
pub(crate) fn is_sharing(of: &Limit) -> bool {
    let relatives = of.shared.as_ref().map(|shared| shared.relatives());
    relatives.is_some_and(|relatives| relatives.borrowed > 0 || relatives.lent > 0)
}

/// Returns whether this process is allowed to evict shared blocks. Evicting a block that a child
/// shares frees memory only when the child drops the block, too. So shared blocks are evicted only
/// if this frees more bytes than children share, or if `has_no_progress` is true: the last round
/// evicted nothing.
pub(crate) fn may_evict_shared(of: &Limit, has_no_progress: bool) -> bool {
    let (staying, lent) = staying(of);
    let own = shared_bytes(of).saturating_sub(staying);
    own > 0 && (has_no_progress || own > lent)
}

/// Returns whether a fork should close the resident blocks (zm-L16).
pub(crate) fn closes_at_fork(of: &Limit) -> bool {
    let more = of.resident_bytes().saturating_sub(shared_bytes(of));
    shared_and_limit(of).is_some_and(|(shared, _)| shared.closes_at_fork(&usage(of), more))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_grows_with_the_excess_up_to_a_share_of_the_limit() {
        for (half_excess, floor) in [(0, 1), (1, 3), (2, 5), (3, 7), (138, 8)] {
            assert_eq!(grown(2, 128, (half_excess, 2)), 2 * floor, "{half_excess}");
        }
        assert_eq!([grown(2, 128, (138, 0)), grown(2, 128, (138, 1000))], [32, 2]);
    }

    #[test]
    fn what_this_process_has_is_told() {
        let before = anonymous().unwrap();
        let block = vec![1u8; 64 << 20];
        let with = anonymous().unwrap();
        assert!(with >= before + (60 << 20), "{before}, {with}, {}", block[5]);
    }
}
