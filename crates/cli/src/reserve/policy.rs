//! Sizes of the reserve.

/// The size of a unit of the reserve in bytes. Most small allocations fit into one unit.
pub(crate) const UNIT: usize = 64;

/// The strongest alignment that the reserve supports, in bytes: the alignment of its mapping.
pub(crate) const ALIGN_MAX: usize = 4096;

/// The size in bytes of the largest allocation that the reserve serves. Code requests larger
/// allocations by functions such as `try_reserve`.
pub const LARGEST: usize = 64 << 10;

/// Memory is short if more than 1/`SHARE` of the reserve is in use. The threshold is not 0, because
/// a part can stay in use long after memory is available again.
pub const SHARE: usize = 4;
