//! What this process holds, and what there is for it, in bytes.

use crate::cgroup;
use crate::error::Error;
use std::fs;

/// Of the memory there is, the part a device takes if nothing else is asked for: a touch of a page
/// never fails, the kernel ends a process instead, so some has to be left.
const LIMIT_PERCENT: u64 = 85;

/// What the program itself takes, and some for page tables and the files' cache.
const PROGRAM_BYTES: u64 = 6 << 20;

/// So many of them.
///
/// # Errors
/// The system has no memory for them.
pub(crate) fn many<T>(count: usize, make: impl FnMut() -> T) -> Result<Box<[T]>, Error> {
    let mut all = Vec::new();
    let bytes = (count as u64).saturating_mul(size_of::<T>() as u64);
    all.try_reserve_exact(count).map_err(|_| Error::NoRoom { bytes })?;
    all.resize_with(count, make);
    Ok(all.into())
}

/// What this process holds. `None` is what the kernel does not tell.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcessMemory {
    pub(crate) resident: Option<u64>,
    pub(crate) swapped: Option<u64>,
    pub(crate) page_tables: Option<u64>,
}

impl ProcessMemory {
    /// As of now. `status` counts resident pages roughly, so it serves only where `smaps_rollup` is
    /// missing.
    pub(crate) fn now() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let (rollup, status) = (read("/proc/self/smaps_rollup"), read("/proc/self/status"));
        ProcessMemory {
            resident: field(&rollup, "Rss").or_else(|| field(&status, "VmRSS")),
            swapped: field(&rollup, "Swap").or_else(|| field(&status, "VmSwap")),
            page_tables: field(&status, "VmPTE"),
        }
    }

    /// Resident and swapped together: what the process holds however the machine is pressed.
    fn held(&self) -> Option<i64> {
        let bytes = self.resident? + self.swapped.unwrap_or(0);
        i64::try_from(bytes).ok()
    }

    /// By how much it holds more than `before`.
    pub(crate) fn growth_since(&self, before: &ProcessMemory) -> Option<i64> {
        Some(self.held()? - before.held()?)
    }
}

/// The number in a line `Name:   123 kB`, in bytes.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The memory there is for this process: the machine's, or less if its cgroup says so.
pub(crate) fn room() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    [field(&meminfo, "MemTotal"), cgroup::memory_limit()].into_iter().flatten().min()
}

/// The limit of pool pages that suits `room`, where so many bytes are needed beside them.
pub(crate) fn limit_of(room: u64, beside: u64) -> u64 {
    let left = room.saturating_sub(beside).saturating_sub(PROGRAM_BYTES);
    left.min((room / 100).saturating_mul(LIMIT_PERCENT)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text =
            "00400000-7fff [rollup]\nRssAnon:   7 kB\nRss:     12 kB\nSwap:  0 kB\nBad: x kB\n";
        assert_eq!(field(text, "Rss"), Some(12288));
        assert_eq!(field(text, "Swap"), Some(0));
        assert_eq!(field(text, "Bad"), None);
        assert_eq!(field(text, "VmPTE"), None);
    }

    #[test]
    fn this_process_holds_something() {
        let before = ProcessMemory::now();
        let held = vec![1u8; 64 << 20];
        let growth = ProcessMemory::now().growth_since(&before).unwrap();
        assert!(growth > 60 << 20, "{growth} after {} bytes", held.len());
        assert!(room().unwrap() > 1 << 20);
    }

    #[test]
    fn the_limit_leaves_room_for_the_rest() {
        assert_eq!(limit_of(1000 << 20, 0), (1000 << 20) / 100 * 85);
        assert_eq!(limit_of(1000 << 20, 200 << 20), 794 << 20);
        assert_eq!(limit_of(1 << 20, 2 << 20), 1);
    }
}
