//! Thresholds that are choices.

/// Blocks of a piece: what the clock's hand goes over at a time, and the most that are evicted at
/// once. A `u64` has a bit for each.
pub(crate) const PIECE: usize = 64;

/// Most bytes that a fault or an eviction moves at once, if a block is not larger.
pub(crate) const BATCH_BYTES: usize = 256 << 10;

/// Returns how many blocks of `unit` bytes that is.
pub(crate) const fn batch(unit: usize) -> usize {
    if unit < BATCH_BYTES { BATCH_BYTES / unit } else { 1 }
}

/// Most rounds for which the clock passes over a block that was touched in probation.
pub(crate) const HEAT_KEPT_MAX: u32 = 3;

/// A touch of what is shared since a fork opens so many bytes at least: a fault costs as much as
/// some pages that count for two processes without need.
pub(crate) const SHARED_BYTES: usize = 32 << 10;

/// In probation is at most this share of the resident blocks.
pub(crate) const PROBATION_SHARE: usize = 8;
