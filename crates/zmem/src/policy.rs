//! Figures that are choices.

/// Blocks that the hand of the clock goes over at a time; no more go at once. As many as a word has
/// bits.
pub(crate) const PIECE: usize = 64;

/// Bytes that a fault, or an eviction, moves at once; at least a block.
pub(crate) const BATCH_BYTES: usize = 256 << 10;

/// A block that was touched in probation is passed over so many rounds at most.
pub(crate) const HEAT_KEPT_MAX: u32 = 3;
