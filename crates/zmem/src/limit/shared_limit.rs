//! The interface between the limit of a process and the other processes that share this limit.
//!
//! ```text
//!   Limit: this process -- Usage --> SharedLimit: sums over all processes, and their requests
//! ```
//! Fault handlers call these functions, so an implementation neither allocates nor waits for a
//! lock.

use std::fmt::Debug;

/// The memory of one process at one moment, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The limit, or `u64::MAX` if no limit is set.
    pub limit: u64,
    /// The part of the limit that is reserved for faults.
    pub reserve: u64,
    /// All memory that the process's pager holds.
    pub held: u64,
    /// The part of `held` that resident blocks occupy.
    pub resident: u64,
    /// The part of `resident` that could be evicted. Blocks that are charged to the parent are
    /// included, because they may later be charged to this process.
    pub evictable: u64,
    /// The part of `held` that page tables and words of blocks occupy.
    pub tables: u64,
}

/// The memory of all processes that share a limit, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// All memory that the processes hold.
    pub held: u64,
    /// The part of `held` that could be evicted.
    pub evictable: u64,
    /// The number of large processes, which hold at least a 16th of the limit. This process always
    /// counts as one.
    pub large: u64,
}

impl Sum {
    /// Returns the part of `held` that can't be evicted.
    pub fn unevictable(&self) -> u64 {
        self.held.saturating_sub(self.evictable)
    }
}

/// The bytes of blocks that this process shares with its parent and its children (zm-L16).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relatives {
    /// The bytes that this process shares with its parent, and that are charged to the parent.
    pub borrowed: u64,
    /// The bytes that a child still shares with this process: the maximum over all children.
    pub lent: u64,
    /// Whether a child recently found no room below the limit.
    pub is_child_short: bool,
}

/// The functions by which a process exchanges data with the other processes that share its limit.
pub trait SharedLimit: Debug + Send + Sync {
    /// Returns the floor of a process in bytes, under the limit `limit`. If no processes shared the
    /// limit, the floor would be `floor`.
    fn floor(&self, floor: u64, limit: u64) -> u64;

    /// Returns the bytes by which unevictable memory exceeds the limit, divided by the number of
    /// large processes. Also returns that number.
    fn excess(&self) -> (u64, u64);

    /// Returns the memory of all processes that share the limit. `own` is the memory of this
    /// process.
    fn sum(&self, own: &Usage) -> Sum;

    /// Returns the same as [`sum`](Self::sum). If `more` further bytes would exceed the limit minus
    /// the reserve, asks the other processes for room.
    fn check(&self, own: &Usage, more: u64) -> Sum;

    /// Returns the size in bytes of all memory of this process, whose pager holds `held` bytes.
    fn process_bytes(&self, held: u64) -> u64;

    /// Publishes the memory of this process to the other processes.
    fn publish(&self, own: &Usage);

    /// Returns whether this process holds more than its share of the limit (zm-L6).
    fn is_above_share(&self, own: &Usage) -> bool;

    /// Asks other processes for room. Returns whether this process is allowed to use a part of the
    /// reserve, because other processes hold more than their share and will evict.
    fn wants_room(&self, own: &Usage) -> bool;

    /// Returns whether the memory of this process should be measured again. Each fault calls this
    /// function once.
    fn is_measurement_due(&self) -> bool;

    /// Records `bytes`, the size of all anonymous memory of this process.
    fn note_process(&self, bytes: u64, own: &Usage);

    /// Records the size of the device's pages (`pages`), and the number of unused bytes in them
    /// (`room`). `changed` is the size of all objects that were freed or moved since the device was
    /// created.
    fn note_pool(&self, pages: u64, room: u64, changed: u64);

    /// Begins to count the memory of a child of fork separately.
    fn begin_child(&self);

    /// Returns whether this process must evict nothing, because a debugger reads its memory
    /// (zm-L19).
    fn keeps_all(&self) -> bool;

    /// Returns whether another process reads the memory of this process, or is about to read it
    /// (zm-L17).
    fn has_peers(&self) -> bool;

    /// Counts resident blocks of `bytes` bytes that are shared from the next fork on.
    fn add_blocks(&self, bytes: u64);

    /// Subtracts resident blocks of `bytes` bytes that are no longer shared.
    fn leave_blocks(&self, bytes: u64);

    /// Returns the size in bytes of the blocks that a new child would share with this process.
    fn blocks(&self) -> u64;

    /// Returns the bytes that this process shares with its parent and its children.
    fn relatives(&self) -> Relatives;

    /// Returns whether a fork should close blocks, because all processes would hold too much if a
    /// child had its own copies of `more` bytes (zm-L16).
    fn closes_at_fork(&self, own: &Usage, more: u64) -> bool;
}
