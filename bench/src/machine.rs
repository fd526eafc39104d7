//! The free memory of the machine.

use std::fs::read_to_string;

use measure::memory::Fields;
use rustix::param::page_size;

use crate::Error;

/// The free memory of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineMemory {
    /// The number of bytes in free pages: MemFree, and the pages in the kernel's per-processor
    /// lists. The lists are not part of MemFree, and can hold some hundred MiB after much memory
    /// was released. MemFree and the lists are read one after the other. Pages that the kernel
    /// moves between the two reads cause an error of a few batches of 63 pages.
    pub free: u64,
}

impl MachineMemory {
    /// Returns the current free memory.
    ///
    /// # Errors
    /// Fails if the kernel does not report it.
    pub fn now() -> Result<MachineMemory, Error> {
        let free = Fields::read("/proc/meminfo").known("MemFree")?;
        let zones = read_to_string("/proc/zoneinfo").unwrap_or_default();
        let listed = listed_pages(&zones).ok_or_else(|| Error::Setup {
            reason: "/proc/zoneinfo has no count".to_owned(),
            remedy: "mount proc on /proc",
        })?;
        Ok(MachineMemory { free: free + listed * page_size() as u64 })
    }
}

/// Returns the number of free pages in the lists of all processors. `zoneinfo` is the text of
/// /proc/zoneinfo, which has a line `count: 123` for every zone and processor.
fn listed_pages(zoneinfo: &str) -> Option<u64> {
    let counts = zoneinfo.lines().filter_map(|line| line.trim_start().strip_prefix("count:"));
    let mut pages = None;
    for count in counts {
        let count: u64 = count.trim().parse().ok()?;
        pages = Some(pages.unwrap_or(0) + count);
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_free_pages() {
        assert!(MachineMemory::now().unwrap().free > 0);
    }

    #[test]
    fn listed_pages_of_all_zones_and_processors_are_summed() {
        let text = "Node 0, zone      DMA
  pages free     3840
      nr_free_pages 3840
  pagesets
    cpu: 0
              count:    0
              high:     2630
  vm stats threshold: 4
    cpu: 1
              count:    5621
Node 0, zone   Normal
  pagesets
    cpu: 0
              count:    62
";
        assert_eq!(listed_pages(text), Some(5683));
        assert_eq!(listed_pages("cpu: 0\n  count: 0\n"), Some(0));
        assert_eq!(listed_pages("Node 0, zone DMA\n  pages free 3\n"), None);
        assert_eq!(listed_pages("  count: 1\n  count: -1\n"), None);
    }
}
