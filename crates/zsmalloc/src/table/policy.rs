//! The thresholds of the table of entries and of handle slots, each with its reason.

/// A conversion replaces a wide node by a packed node if at most this number of entries remain. The
/// number is below the capacity of the largest packed node, so that a few more entries do not
/// require a wide node again. A chain gets a wide node if its packed nodes have space for this
/// number of entries.
pub(crate) const REPACKED_ENTRIES_MAX: usize = if cfg!(loom) { 2 } else { 80 };
/// A new leaf begins with a dense node if at least this number of its entries are in packed nodes
/// of its span. A leaf with many entries in packed nodes is probably being filled.
pub(crate) const LEAF_CROWD: usize = if cfg!(loom) { 2 } else { 8 };
/// The maximum number of chains that a pass over the table retires before it waits for readers. One
/// wait costs more than a few conversions, but the chains' memory is freed only after the wait.
pub(crate) const RETIRED_CHAINS_MAX: usize = if cfg!(loom) { 2 } else { 64 };
/// A pass over the table is due if at least one per this number of entries that the table can hold
/// has changed since the last pass.
pub(crate) const PASS_CHANGED_SHARE: u64 = 16;
/// One in this number of a new node's entries is counted as changed. With this number, a pass is
/// due when a table that is being filled has doubled.
pub(crate) const PASS_MADE_SHARE: usize = 8;
/// The number of links of spans, or of floors, in the first chunk that is allocated. This number of
/// spans suffices for a device of 4 GiB, and the links of these spans fill two cache lines.
pub(crate) const FIRST_CHUNK: u64 = if cfg!(loom) { 2 } else { 16 };
/// The numbers of entries that packed nodes can hold. Small nodes with these capacities fill a
/// multiple of 16 bytes.
#[cfg(not(loom))]
pub(crate) const CAPACITIES: [usize; 11] = [2, 4, 5, 7, 12, 16, 24, 32, 48, 64, 96];
#[cfg(loom)]
pub(crate) const CAPACITIES: [usize; 1] = [2];

/// The maximum by which a removed handle slot is allowed to raise its leaf's floor. Without this
/// limit, a slot that is reused often would raise the generations of the leaf's other slots.
pub(crate) const FLOOR_LIFT_MAX: u32 = 256;
/// A shard takes a leaf only if at least this number of the leaf's handle slots are free. The
/// search for a leaf with fewer free slots would cost more than the use of these slots saves.
pub(crate) const LEAF_ROOM_MIN: u32 = if cfg!(loom) { 1 } else { 64 };
/// The number of shards of handle slots. Threads of different shards do not wait for each other,
/// but each shard occupies a leaf, which is rarely full.
pub(crate) const HANDLE_SHARDS: usize = if cfg!(loom) { 1 } else { 8 };
/// The number of freed handle slots that a shard remembers, because their entries are likely in the
/// processor's caches. With this number a shard fits in 256 bytes.
pub(crate) const RECENT_SLOTS: usize = 24;
