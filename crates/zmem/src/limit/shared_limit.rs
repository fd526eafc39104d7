//! The interface between the limit of one process and the other processes that share the limit.
//!
//! ```text
//!   Limit: this process -- Usage --> SharedLimit: sums over all processes, and their requests
//! ```
//! Fault handlers call all functions, so an implementation neither allocates nor waits for a lock.

use std::fmt::Debug;

/// The memory of one process at one moment, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The limit, or `u64::MAX` if no limit is set.
    pub limit: u64,
    /// The part of the limit that is reserved for faults.
    pub reserve: u64,
    /// All memory that the process's pager counts.
    pub held: u64,
    /// The part of `held` that is resident blocks.
    pub resident: u64,
    /// The part of `resident` that could be evicted. Blocks that count for the parent are included,
    /// because they must be known as evictable when they count for this process later.
    pub evictable: u64,
    /// The part of `held` that is page tables and words of blocks.
    pub tables: u64,
}

/// The sums of the memory that processes hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// The bytes that all processes hold.
    pub held: u64,
    /// The bytes of `held` that could be evicted.
    pub evictable: u64,
    /// The number of large processes, at least 1.
    pub large: u64,
}

impl Sum {
    /// Returns the bytes that can't be evicted.
    pub fn unevictable(&self) -> u64 {
        self.held.saturating_sub(self.evictable)
    }
}

/// The bytes of shared blocks that exist in other processes too (zm-L16).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relatives {
    /// The bytes that this process shares with its parent, which count for the parent.
    pub borrowed: u64,
    /// The maximum over all children of the bytes that the child still shares with this process.
    pub lent: u64,
    /// Whether a child found no room recently.
    pub is_child_short: bool,
}

/// The other processes that share a limit.
pub trait SharedLimit: Debug + Send + Sync {
    /// Returns the bytes that a process keeps resident under the limit `limit`, given the bytes
    /// `floor` that it would keep without other processes.
    fn floor(&self, floor: u64, limit: u64) -> u64;

    /// Returns the bytes by which unevictable memory exceeds the limit, divided by the number of
    /// large processes, and that number.
    fn excess(&self) -> (u64, u64);

    /// Returns the sums over all processes.
    fn sum(&self, own: &Usage) -> Sum;

    /// Returns the sums over all processes. Records whether the sum plus `more` bytes exceeds the
    /// limit minus the reserve, and asks other processes for room in that case.
    fn check(&self, own: &Usage, more: u64) -> Sum;

    /// Returns the size of this process's memory in bytes, if its pager counts `held` bytes.
    fn process_bytes(&self, held: u64) -> u64;

    /// Publishes the memory of this process.
    fn publish(&self, own: &Usage);

    /// Returns whether this process holds more than its share of the limit (zm-L6).
    fn is_above_share(&self, own: &Usage) -> bool;

    /// Records that this process found no room. Returns whether it may use a part of the reserve,
    /// because other processes hold more than their share and will evict it.
    fn wants_room(&self, own: &Usage) -> bool;

    /// Returns whether the process's memory should be measured again. The pager calls this function
    /// once for each fault.
    fn is_measurement_due(&self) -> bool;

    /// Records `bytes`, the size of all anonymous memory of this process.
    fn note_process(&self, bytes: u64, own: &Usage);

    /// Records the size of the device's pages, the bytes in these pages that no object uses, and
    /// the bytes of all objects that were freed or moved since the device was created.
    fn note_pool(&self, pages: u64, room: u64, changed: u64);

    /// Begins to count a child of fork as a process of its own.
    fn begin_child(&self);

    /// Returns whether this process evicts no blocks because a debugger reads its memory (zm-L19).
    fn keeps_all(&self) -> bool;

    /// Returns whether another process reads this process's memory, or is about to read it
    /// (zm-L17).
    fn has_peers(&self) -> bool;

    /// Counts `bytes` of resident blocks that are shared from the next fork on.
    fn add_blocks(&self, bytes: u64);

    /// Subtracts `bytes` of resident blocks that are no longer shared.
    fn leave_blocks(&self, bytes: u64);

    /// Returns the bytes of blocks that a child would share.
    fn blocks(&self) -> u64;

    /// Returns the bytes of shared blocks that exist in other processes too.
    fn relatives(&self) -> Relatives;

    /// Returns whether a fork should close blocks, because all processes together would hold much
    /// if a child had its own copies of `more` bytes of this process (zm-L16).
    fn closes_at_fork(&self, own: &Usage, more: u64) -> bool;
}
