//! How much memory this process and the machine use, in bytes, as the kernel counts it.

use std::fs;
use std::path::Path;

use rustix::param::page_size;

use crate::Error;

/// What this process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessMemory {
    /// Resident, shared pages included.
    pub resident: u64,
    /// Swapped out.
    pub swapped: u64,
    /// Page tables (VmPTE).
    pub page_tables: u64,
}

impl ProcessMemory {
    /// As of now.
    pub fn now() -> Result<ProcessMemory, Error> {
        let rollup = Fields::read("/proc/self/smaps_rollup")?;
        let status = Fields::read("/proc/self/status")?;
        Ok(ProcessMemory {
            resident: rollup.bytes("Rss")?,
            swapped: rollup.bytes("Swap")?,
            page_tables: status.bytes("VmPTE")?,
        })
    }

    /// Resident and swapped together: what the process holds however the machine is pressed.
    pub fn held(&self) -> u64 {
        self.resident + self.swapped
    }
}

/// What the machine has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineMemory {
    /// Pages in no use at all: MemFree, and those that processors keep in lists of their own for
    /// the next who asks. MemFree leaves these out though they are free: some hundred MiB after
    /// much was given back at once. The two are read one after the other, so what moves between
    /// them meanwhile is off, by a batch of 63 pages or a few.
    pub free: u64,
    /// What programs could get without swapping (MemAvailable).
    pub available: u64,
}

impl MachineMemory {
    /// As of now.
    pub fn now() -> Result<MachineMemory, Error> {
        let meminfo = Fields::read("/proc/meminfo")?;
        let listed = listed_pages(&read(ZONEINFO)?)?;
        Ok(MachineMemory {
            free: meminfo.bytes("MemFree")? + listed * page_size() as u64,
            available: meminfo.bytes("MemAvailable")?,
        })
    }
}

const ZONEINFO: &str = "/proc/zoneinfo";

/// Free pages in the lists of all processors, from the text of /proc/zoneinfo: there, for every
/// zone and processor, a line `count: 123`.
fn listed_pages(zoneinfo: &str) -> Result<u64, Error> {
    let malformed = |text: &str| Error::Malformed {
        thing: format!("count in {ZONEINFO}"),
        text: text.to_string(),
        expected: "a number of pages for each zone and processor",
    };
    let counts = zoneinfo.lines().filter_map(|line| line.trim_start().strip_prefix("count:"));
    let mut pages = None;
    for count in counts.map(str::trim) {
        let count: u64 = count.parse().map_err(|_| malformed(count))?;
        pages = Some(pages.unwrap_or(0) + count);
    }
    pages.ok_or_else(|| malformed(""))
}

fn read(path: &'static str) -> Result<String, Error> {
    let refused = Error::file(
        "read",
        Path::new(path),
        "mount proc on /proc, on a kernel with smaps_rollup (4.14 or later)",
    );
    fs::read_to_string(path).map_err(refused)
}

// A file of lines `Name:   123 kB`.
struct Fields {
    path: &'static str,
    text: String,
}

impl Fields {
    fn read(path: &'static str) -> Result<Fields, Error> {
        Ok(Fields { path, text: read(path)? })
    }

    fn bytes(&self, name: &str) -> Result<u64, Error> {
        let line = self.text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kilobytes =
            line.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        kilobytes.map(|kilobytes| kilobytes * 1024).ok_or_else(|| Error::Malformed {
            thing: format!("{name} in {}", self.path),
            text: line.unwrap_or("").trim().to_string(),
            expected: "a number of kB",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touched_pages_are_seen() {
        let before = ProcessMemory::now().unwrap();
        let bytes = vec![1_u8; 64 << 20];
        let after = ProcessMemory::now().unwrap();
        assert!(bytes.iter().all(|&byte| byte == 1));
        assert!(after.held() >= before.held() + (48 << 20), "{before:?} {after:?}");
        assert!(after.page_tables > 0);
        let machine = MachineMemory::now().unwrap();
        assert!(machine.free > 0 && machine.available > 0);
    }

    #[test]
    fn a_name_is_not_taken_for_a_longer_one() {
        let fields = Fields { path: "x", text: "SwapPss: 8 kB\nSwap:   4 kB\nOdd: many\n".into() };
        assert_eq!(fields.bytes("Swap").unwrap(), 4096);
        assert!(fields.bytes("Odd").unwrap_err().to_string().contains("many"));
        assert!(fields.bytes("None").is_err());
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
        assert_eq!(listed_pages(text).unwrap(), 5683);
        assert_eq!(listed_pages("cpu: 0\n  count: 0\n").unwrap(), 0);
        assert!(listed_pages("Node 0, zone DMA\n  pages free 3\n").is_err());
        assert!(listed_pages("  count: -1\n").unwrap_err().to_string().contains("-1"));
    }
}
