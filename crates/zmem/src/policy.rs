//! Thresholds and other tuning parameters.

use crate::contexts::CONTEXTS_MAX;

/// The number of blocks of a clock window. The clock's hand examines one clock window at a time,
/// and at most one clock window is evicted at once. A `u64` has a bit for each block of a clock
/// window.
pub(crate) const CLOCK_WINDOW: usize = 64;

/// The maximum number of bytes that a fault or an eviction moves at once, unless a block is larger.
pub(crate) const BATCH_BYTES: usize = 256 << 10;

/// Returns the number of blocks of `size` bytes in a batch.
pub(crate) const fn batch(size: usize) -> usize {
    if size < BATCH_BYTES { BATCH_BYTES / size } else { 1 }
}

/// The buffers of contexts use at most this share (1/32) of a limit, regardless of the number of
/// processors. The buffers for two processors are always permitted.
const CONTEXTS_SHARE: usize = 32;

/// Returns the number of contexts: one for each processor, two more, and one for each of `threads`
/// threads that handle faults.
pub(crate) fn contexts(processors: usize, threads: usize, limit: Option<u64>) -> usize {
    let of = |processors: usize| processors + 2 + threads.min(processors);
    let afforded =
        limit.map_or(CONTEXTS_MAX, |limit| limit as usize / CONTEXTS_SHARE / BATCH_BYTES);
    of(processors).min(of(2).max(afforded)).min(CONTEXTS_MAX)
}

/// The maximum number of rounds for which the clock passes over a block that was accessed in
/// probation.
pub(crate) const HEAT_KEPT_MAX: u32 = 3;

/// A fault on blocks that are shared since a fork opens at least this number of bytes, because
/// avoiding a fault is worth a few pages that count twice unnecessarily.
pub(crate) const SHARED_BYTES: usize = 32 << 10;

/// At most this share (1/8) of the resident blocks is in probation.
pub(crate) const PROBATION_SHARE: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_for_all_processors_if_the_limit_has_room_for_them() {
        const MIB: u64 = 1 << 20;
        assert_eq!([1, 2, 16, 64].map(|count| contexts(count, 0, None)), [3, 4, 18, CONTEXTS_MAX]);
        assert_eq!([1, 2, 16, 64].map(|count| contexts(count, 0, Some(MIB))), [3, 4, 4, 4]);
        assert_eq!([2, 16].map(|count| contexts(count, count, Some(MIB))), [6, 6]);
        // Each buffer has 256 KiB. All buffers together may use 1/32 of the limit.
        assert_eq!([39, 40, 48].map(|mib| contexts(16, 0, Some(mib * MIB))), [4, 5, 6]);
        assert_eq!([143, 144, 152].map(|mib| contexts(16, 0, Some(mib * MIB))), [17, 18, 18]);
    }
}
