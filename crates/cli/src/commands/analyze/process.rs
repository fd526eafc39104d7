//! The resident private anonymous memory of a process. `uzram run` could compress this memory.
//!
//! ```text
//!   /proc/PID/smaps -> mappings with anonymous pages -> pagemap: which are resident -> runs
//!   runs, one behind the other -> /proc/PID/mem
//! ```
//! The process continues to run. If the process releases memory before the memory is read, the
//! sample lacks that memory.
//!
//! When the process reads memory that it never wrote, the kernel maps its zero page. The zero page
//! uses no memory, but in pagemap it looks like a page that processes have shared since a fork. So
//! each shared page is read, and left out if it contains only zeros.

use super::idle;
use super::population::Population;
use super::report::Source;
use crate::commands::policy::PAGEMAP_ENTRIES;
use crate::error::Error;
use measure::Interrupt;
use measure::page::{PAGE_SIZE, same_filled};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

/// Flags of an entry of /proc/PID/pagemap. `NUMBER` masks the page's number in the entry.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const OF_FILE: u64 = 1 << 61;
const MAPPED_ONCE: u64 = 1 << 56;
const NUMBER: u64 = (1 << 55) - 1;

/// Consecutive pages that are resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// The number of the first page in the population.
    index: u64,
    /// The address of the first page in the process.
    address: u64,
    pages: u64,
}

pub(super) struct Process {
    pid: u32,
    mem: File,
    runs: Vec<Run>,
    pages: u64,
    swapped: u64,
    idle: Option<Duration>,
}

impl Process {
    /// Finds the pages of process `pid`. If `idle` is set, waits for that time and keeps only pages
    /// that no process used during the wait.
    ///
    /// # Errors
    /// Fails if the process can't be read, or idle pages are not tracked.
    pub(super) fn new(
        pid: u32,
        idle: Option<Duration>,
        interrupt: &Interrupt,
    ) -> Result<Self, Error> {
        let failed = |why: io::Error| unreadable(pid, &why);
        // smaps contains names of files, which need not be UTF-8.
        let smaps = fs::read(format!("/proc/{pid}/smaps")).map_err(failed)?;
        let mappings = mappings(&String::from_utf8_lossy(&smaps));
        let pagemap = File::open(format!("/proc/{pid}/pagemap")).map_err(failed)?;
        let mem = File::open(format!("/proc/{pid}/mem")).map_err(failed)?;
        let mut process = Process { pid, mem, runs: Vec::new(), pages: 0, swapped: 0, idle };
        let unused = idle.map(|time| {
            let mut numbers = Vec::new();
            for range in &mappings {
                let add = |_, entry| numbers.extend(is_anonymous(entry).then_some(entry & NUMBER));
                each_entry(&pagemap, range, add).map_err(failed)?;
            }
            idle::pages(idle::KERNEL, numbers, time, interrupt)
        });
        let unused = unused.transpose()?;
        for range in mappings {
            interrupt.check()?;
            each_entry(&pagemap, &range, |address, entry| {
                process.swapped += u64::from(entry & SWAPPED != 0);
                let is_wanted = unused.as_ref().is_none_or(|of| of.contains(&(entry & NUMBER)));
                let may_be_own = || entry & MAPPED_ONCE != 0 || !process.is_zeros(address);
                if is_anonymous(entry) && is_wanted && may_be_own() {
                    process.add(address);
                }
            })
            .map_err(failed)?;
        }
        Ok(process)
    }

    fn is_zeros(&self, address: u64) -> bool {
        let mut page = [1; PAGE_SIZE];
        self.mem.read_exact_at(&mut page, address).is_ok() && same_filled(&page) == Some(0)
    }

    /// Adds a page at the end of the population.
    fn add(&mut self, address: u64) {
        match self.runs.last_mut() {
            Some(run) if run.address + run.pages * PAGE_SIZE as u64 == address => run.pages += 1,
            _ => self.runs.push(Run { index: self.pages, address, pages: 1 }),
        }
        self.pages += 1;
    }

    pub(super) fn source(&self) -> Source {
        let pid = self.pid;
        // The kernel can cut the name inside a character.
        let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
        let name = String::from_utf8_lossy(&name);
        Source {
            kind: "process",
            name: format!("{pid} {}", name.trim_end().escape_debug()),
            pid: Some(pid),
            swapped_bytes: Some(self.swapped * PAGE_SIZE as u64),
            idle_seconds: self.idle.map(|time| time.as_secs()),
            ..Source::default()
        }
    }
}

impl Population for Process {
    fn pages(&self) -> u64 {
        self.pages
    }

    fn read(&self, first: u64, buf: &mut [u8]) -> bool {
        let mut page = first;
        let mut rest = buf;
        while !rest.is_empty() {
            let at = self.runs.partition_point(|run| run.index <= page);
            let Some(run) = at.checked_sub(1).map(|at| self.runs[at]) else { return false };
            let into = page - run.index;
            let bytes = rest.len().min(((run.pages - into) as usize) * PAGE_SIZE);
            let (part, behind) = rest.split_at_mut(bytes);
            let address = run.address + into * PAGE_SIZE as u64;
            if bytes == 0 || self.mem.read_exact_at(part, address).is_err() {
                return false;
            }
            page += (bytes / PAGE_SIZE) as u64;
            rest = behind;
        }
        true
    }
}

/// Returns true if the page of a pagemap entry is resident and belongs neither to a file nor to
/// shared memory.
fn is_anonymous(entry: u64) -> bool {
    entry & (PRESENT | OF_FILE) == PRESENT
}

/// Calls `each` with the address and the pagemap entry of each page of a mapping.
fn each_entry(
    pagemap: &File,
    range: &Range<u64>,
    mut each: impl FnMut(u64, u64),
) -> io::Result<()> {
    let (mut page, end) = (range.start / PAGE_SIZE as u64, range.end / PAGE_SIZE as u64);
    let mut bytes = [0; PAGEMAP_ENTRIES * 8];
    while page < end {
        let wanted = ((end - page) as usize).min(PAGEMAP_ENTRIES) * 8;
        let read = pagemap.read_at(&mut bytes[..wanted], page * 8)?;
        for entry in bytes[..read].as_chunks::<8>().0 {
            each(page * PAGE_SIZE as u64, u64::from_ne_bytes(*entry));
            page += 1;
        }
        if read < 8 {
            break;
        }
    }
    Ok(())
}

/// Returns the address ranges of private mappings with anonymous pages, resident or swapped out.
fn mappings(smaps: &str) -> Vec<Range<u64>> {
    let mut found = Vec::new();
    let (mut mapping, mut end) = (None, 0);
    for line in smaps.lines() {
        if let Some((mut addresses, is_private)) = head(line) {
            // smaps lists a mapping twice if the mapping grew during the read.
            addresses.start = addresses.start.max(end);
            end = addresses.end;
            mapping = Some((addresses, is_private));
        }
        let has_some = ["Anonymous", "Swap"]
            .iter()
            .any(|name| measure::memory::bytes(line, name).is_some_and(|bytes| bytes > 0));
        if has_some {
            found.extend(mapping.take().filter(|(_, is_private)| *is_private).map(|(of, _)| of));
        }
    }
    found
}

/// Parses the first line of a mapping in smaps. Returns its addresses, and whether the mapping is
/// private.
fn head(line: &str) -> Option<(Range<u64>, bool)> {
    let mut words = line.split(' ');
    let (start, end) = words.next()?.split_once('-')?;
    let address = |text| u64::from_str_radix(text, 16).ok();
    Some((address(start)?..address(end)?, words.next()?.ends_with('p')))
}

fn unreadable(pid: u32, why: &io::Error) -> Error {
    let remedy = match why.kind() {
        io::ErrorKind::NotFound => "take a number that 'ps -e' lists",
        _ if Errno::from_io_error(why) == Some(Errno::SRCH) => {
            "take one that has memory of its own: this is a thread of the kernel, or has ended"
        }
        io::ErrorKind::PermissionDenied => {
            "ask with the capability CAP_SYS_PTRACE, as root has it but in many containers, or as \
             the user that runs it where the kernel permits that (kernel.yama.ptrace_scope)"
        }
        _ => "see that it still runs, and that /proc is mounted",
    };
    Error::Failed(format!("the memory of process {pid} can't be read: {why}; {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::process::Stdio;

    #[test]
    fn mappings_with_anonymous_pages_are_found() {
        let smaps = "1000-3000 rw-p 00000000 00:00 0 \nRss: 8 kB\nAnonymous: 8 kB\nSwap: 0 kB\n\
            3000-4000 rw-p 00000000 00:00 0 \nAnonymous: 0 kB\nSwap: 4 kB\n\
            3000-4800 rw-p 00000000 00:00 0 \nAnonymous: 0 kB\nSwap: 4 kB\n\
            4800-5000 rw-s 00000000 00:00 0 \nAnonymous: 4 kB\nSwap: 0 kB\n\
            5000-6000 r--p 00000000 00:00 7 /a b\nAnonymous: 0 kB\nSwap: 0 kB\n";
        assert_eq!(mappings(smaps), [0x1000..0x3000, 0x3000..0x4000, 0x4000..0x4800]);
    }

    #[test]
    fn memory_that_was_only_read_is_not_counted() {
        // malloc gets memory of this size from mmap, so only the test's own writes touch the pages.
        let pages = 10240;
        let mut own = vec![0_u8; pages * PAGE_SIZE];
        own[2000 * PAGE_SIZE] = 1;
        let read: usize = own.iter().step_by(PAGE_SIZE).map(|byte| usize::from(*byte)).sum();
        assert_eq!(read, 1);
        let process = Process::new(std::process::id(), None, &Interrupt::default()).unwrap();
        let start = own.as_ptr() as u64;
        let inner = start + PAGE_SIZE as u64..start + ((pages - 1) * PAGE_SIZE) as u64;
        let within = process.runs.iter().filter(|run| inner.contains(&run.address));
        let counted: u64 = within.map(|run| run.pages).sum();
        assert!((1..=512).contains(&counted), "{counted} pages");
        drop(own);
    }

    #[test]
    fn this_process_finds_its_own_pages() {
        let pages = 1000_u64;
        let mut own = vec![0_u64; pages as usize * 512];
        let start = own.as_ptr().align_offset(PAGE_SIZE);
        let whole = own[start..].chunks_mut(512);
        whole.zip(0..).for_each(|(page, number)| page.fill(0xabcd_0000 + number));
        let process = Process::new(std::process::id(), None, &Interrupt::default()).unwrap();
        let mut page = vec![0; PAGE_SIZE];
        let mut seen = Vec::new();
        for number in 0..process.pages() {
            if process.read(number, &mut page) {
                let word = same_filled(&page).filter(|word| word >> 16 == 0xabcd);
                seen.extend(word.map(|word| word & 0xffff));
            }
        }
        // Other allocations share the vector's first and last page.
        assert!(seen.len() as u64 >= pages - 2 && seen.is_sorted(), "{}", seen.len());
        assert_eq!(own[start + 512], 0xabcd_0001);
    }

    /// The other process waits for input, so its memory is constant while this test counts pages
    /// twice.
    #[test]
    fn every_page_of_another_process_is_found() {
        let mut cat = std::process::Command::new("cat");
        let mut cat = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        cat.stdin.as_mut().unwrap().write_all(b"ready").unwrap();
        cat.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
        let process = Process::new(cat.id(), None, &Interrupt::default()).unwrap();
        let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", cat.id())).unwrap();
        drop(cat.stdin.take());
        cat.wait().unwrap();
        let found = process.pages() * PAGE_SIZE as u64;
        assert_eq!(Some(found), measure::memory::bytes(&rollup, "Anonymous"), "{rollup}");
    }

    #[test]
    fn what_can_not_be_read_is_told() {
        let error = |pid| Process::new(pid, None, &Interrupt::default()).err().unwrap().to_string();
        assert!(error(i32::MAX as u32).contains("'ps -e'"), "{}", error(i32::MAX as u32));
        let kernels = unreadable(2, &Errno::SRCH.into()).to_string();
        assert!(kernels.contains("thread of the kernel"), "{kernels}");
    }
}
