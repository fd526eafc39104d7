//! The memory there is for this process, and the limit of pool pages that suits it.

use super::cgroup;
use super::fields::Fields;

/// Of the memory there is, the part a device takes if nothing else is asked for: a touch of a page
/// never fails, the kernel ends a process instead, so some has to be left.
const LIMIT_PERCENT: u64 = 85;

/// What the program itself takes, and some for page tables and the files' cache.
const PROGRAM_BYTES: u64 = 6 << 20;

/// Returns the bytes of memory that this process may use: the machine's, or less if its cgroup says
/// so.
pub fn room() -> Option<u64> {
    let total = Fields::read("/proc/meminfo").bytes("MemTotal");
    [total, cgroup::memory_limit()].into_iter().flatten().min()
}

/// Returns the limit of this process's cgroup, in bytes, if it is below the machine's memory.
pub fn cgroup_limit() -> Option<u64> {
    let total = Fields::read("/proc/meminfo").bytes("MemTotal");
    cgroup::memory_limit().filter(|limit| total.is_none_or(|total| *limit < total))
}

/// Returns the limit of pool pages that suits `room`, where so many bytes are needed beside them.
pub fn limit_of(room: u64, beside: u64) -> u64 {
    let left = room.saturating_sub(beside).saturating_sub(PROGRAM_BYTES);
    left.min((room / 100).saturating_mul(LIMIT_PERCENT)).max(1)
}

/// Most bytes of pool pages, as it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemLimit {
    /// What fits the machine.
    Default,
    /// So many.
    Bytes(u64),
    /// None.
    None,
}

impl MemLimit {
    /// Returns what an argument means: 0 is none.
    pub fn new(asked: Option<u64>) -> Self {
        match asked {
            None => MemLimit::Default,
            Some(0) => MemLimit::None,
            Some(bytes) => MemLimit::Bytes(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_some() {
        assert!(room().unwrap() > 1 << 20);
    }

    #[test]
    fn the_limit_leaves_room_for_the_rest() {
        assert_eq!(limit_of(1000 << 20, 0), (1000 << 20) / 100 * 85);
        assert_eq!(limit_of(1000 << 20, 200 << 20), 794 << 20);
        assert_eq!(limit_of(1 << 20, 2 << 20), 1);
    }
}
