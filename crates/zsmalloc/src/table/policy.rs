//! The thresholds of the table of entries and of handle slots, each with its reason.

/// The maximum number of entries in packed nodes, before a chain gets a wide node. The longest
/// search then passes 24 nodes.
pub(crate) const PACKED_ENTRIES_MAX: usize = if cfg!(loom) { 2 } else { 96 };
/// The maximum number of entries for which packed nodes replace a wide one. The number is below
/// `PACKED_ENTRIES_MAX`, so that a few more entries do not require a wide node again.
pub(crate) const REPACKED_ENTRIES_MAX: usize = if cfg!(loom) { 2 } else { 80 };
/// A leaf counts as being filled, so that it begins with a dense node, if at least this number of
/// its entries are in the packed nodes of its span.
pub(crate) const LEAF_CROWD: usize = if cfg!(loom) { 2 } else { 8 };
/// The maximum number of chains that a pass over the table retires before it waits for readers. One
/// wait costs more than a few conversions; the chains' memory is free only after it.
pub(crate) const RETIRED_CHAINS_MAX: usize = if cfg!(loom) { 2 } else { 64 };
/// The maximum by which a removed handle slot may raise its leaf's floor. The limit exists because
/// a slot that is reused often would raise the generations of the other slots.
pub(crate) const FLOOR_LIFT_MAX: u32 = 256;
/// The minimum number of free handle slots in a leaf for a shard to take the leaf. With fewer
/// slots, the search would cost more than it saves.
pub(crate) const LEAF_ROOM_MIN: u32 = if cfg!(loom) { 1 } else { 64 };
/// The number of shards of handle slots: threads of different shards do not wait for each other.
pub(crate) const HANDLE_SHARDS: usize = if cfg!(loom) { 1 } else { 8 };
/// The number of freed handle slots that a shard remembers, because their entries are likely in the
/// processor's caches.
pub(crate) const RECENT_SLOTS: usize = 24;
/// A pass over the table is due if one of this number of the table's entries has become empty since
/// the last pass.
pub(crate) const PASS_CHANGED_SHARE: u64 = 16;
/// The number of entries of a new node for each entry that is counted as changed. With this number,
/// a pass is due when a table that is being filled has doubled.
pub(crate) const PASS_MADE_SHARE: usize = 8;
