//! The private anonymous memory of a process that is resident: what could be compressed of it.
//!
//! ```text
//!   /proc/PID/smaps -> mappings with anonymous pages -> pagemap: which are resident -> runs
//!   runs, one behind the other -> /proc/PID/mem
//! ```
//! The process goes on meanwhile. What it gave back since can't be read, and is left out.

use super::idle;
use super::mappings::mappings;
use super::population::Population;
use super::report::Source;
use crate::error::Error;
use crate::interrupt::Interrupt;
use crate::page::PAGE_SIZE;
use rustix::io::Errno;
use std::fs::{File, read};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

/// Bits of an entry of /proc/PID/pagemap, and those of the page's number.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const OF_FILE: u64 = 1 << 61;
const NUMBER: u64 = (1 << 55) - 1;

/// Entries that are read at a time.
const ENTRIES: usize = 4096;

/// Consecutive pages that are resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// Of all pages, the number of the first.
    index: u64,
    /// Where it lies in the process.
    address: u64,
    pages: u64,
}

/// See the module.
pub(super) struct Process {
    pid: u32,
    mem: File,
    runs: Vec<Run>,
    pages: u64,
    swapped: u64,
    idle: Option<Duration>,
}

impl Process {
    /// Finds the pages of process `pid`: all, or those that it does not use for a while.
    ///
    /// # Errors
    /// There is no such process, it may not be read, or the kernel does not tell what is idle.
    pub(super) fn new(
        pid: u32,
        idle: Option<Duration>,
        interrupt: &Interrupt,
    ) -> Result<Self, Error> {
        let failed = |why: io::Error| unreadable(pid, &why);
        // Names of files may be of any bytes.
        let smaps = read(format!("/proc/{pid}/smaps")).map_err(failed)?;
        let mappings = mappings(&String::from_utf8_lossy(&smaps));
        let pagemap = File::open(format!("/proc/{pid}/pagemap")).map_err(failed)?;
        let mem = File::open(format!("/proc/{pid}/mem")).map_err(failed)?;
        let mut process = Process { pid, mem, runs: Vec::new(), pages: 0, swapped: 0, idle };
        let unused = idle.map(|time| {
            let mut numbers = Vec::new();
            for mapping in &mappings {
                let add = |_, entry| numbers.extend(is_anonymous(entry).then_some(entry & NUMBER));
                each_entry(&pagemap, &mapping.range, add).map_err(failed)?;
            }
            idle::pages(&idle::Kernel::default(), numbers, time, interrupt)
        });
        let unused = unused.transpose()?;
        for mapping in mappings {
            interrupt.check()?;
            let (mut runs, mut present) = (Vec::new(), 0);
            each_entry(&pagemap, &mapping.range, |address, entry| {
                process.swapped += u64::from(entry & SWAPPED != 0);
                let is_wanted = unused.as_ref().is_none_or(|of| of.contains(&(entry & NUMBER)));
                if is_anonymous(entry) {
                    present += 1;
                    if is_wanted {
                        extend(&mut runs, address);
                    }
                }
            })
            .map_err(failed)?;
            // The page of zeros that all share has an entry too; it is in use, and so never idle.
            let zeros = match idle {
                None => u64::saturating_sub(present, mapping.anonymous.div_ceil(PAGE_SIZE as u64)),
                Some(_) => 0,
            };
            process.add_all(&runs, zeros, interrupt)?;
        }
        Ok(process)
    }

    /// Adds pages, but for `zeros` pages that read as zeros: those are no memory of the process.
    fn add_all(
        &mut self,
        runs: &[Range<u64>],
        mut zeros: u64,
        interrupt: &Interrupt,
    ) -> Result<(), Error> {
        let mut page = [0; PAGE_SIZE];
        for run in runs {
            interrupt.check()?;
            for address in run.clone().step_by(PAGE_SIZE) {
                let is_zero = zeros > 0
                    && self.mem.read_exact_at(&mut page, address).is_ok()
                    && page.iter().all(|byte| *byte == 0);
                if is_zero {
                    zeros -= 1;
                } else {
                    self.add(address);
                }
            }
        }
        Ok(())
    }

    /// Adds a page, which lies behind all others.
    fn add(&mut self, address: u64) {
        match self.runs.last_mut() {
            Some(run) if run.address + run.pages * PAGE_SIZE as u64 == address => run.pages += 1,
            _ => self.runs.push(Run { index: self.pages, address, pages: 1 }),
        }
        self.pages += 1;
    }

    /// Returns what is told of it.
    pub(super) fn source(&self) -> Source {
        let pid = self.pid;
        let name = read(format!("/proc/{pid}/comm")).unwrap_or_default();
        let name = String::from_utf8_lossy(&name).trim_end().escape_debug().to_string();
        Source {
            kind: "process",
            name: format!("{pid} {name}"),
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

/// Returns whether a page is resident, and no file's nor shared.
fn is_anonymous(entry: u64) -> bool {
    entry & (PRESENT | OF_FILE) == PRESENT
}

/// Passes each page of a mapping that has an entry: its address, and that.
fn each_entry(
    pagemap: &File,
    range: &Range<u64>,
    mut each: impl FnMut(u64, u64),
) -> io::Result<()> {
    let (mut page, end) = (range.start / PAGE_SIZE as u64, range.end / PAGE_SIZE as u64);
    let mut bytes = [0; ENTRIES * 8];
    while page < end {
        let wanted = ((end - page) as usize).min(ENTRIES) * 8;
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

/// Adds a page to runs of addresses, behind all others.
fn extend(runs: &mut Vec<Range<u64>>, address: u64) {
    let end = address + PAGE_SIZE as u64;
    match runs.last_mut() {
        Some(run) if run.end == address => run.end = end,
        _ => runs.push(address..end),
    }
}

fn unreadable(pid: u32, why: &io::Error) -> Error {
    if Errno::from_io_error(why) == Some(Errno::SRCH) {
        return Error::Failed(format!(
            "process {pid} has no memory of its own: it is the kernel's, or has ended; take another"
        ));
    }
    let remedy = match why.kind() {
        io::ErrorKind::NotFound => "take a number that 'ps -e' lists",
        io::ErrorKind::PermissionDenied => {
            "ask as root, or as the user that runs it where the kernel permits that \
             (kernel.yama.ptrace_scope)"
        }
        _ => "see that it still runs, and that /proc is mounted",
    };
    Error::Failed(format!("the memory of process {pid} can't be read: {why}; {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_zeros_that_all_share_are_left_out() {
        let own = [[0_u8; PAGE_SIZE], [1; PAGE_SIZE], [0; PAGE_SIZE], [0; PAGE_SIZE]];
        let (start, pages) = (own.as_ptr().addr() as u64, own.len() as u64);
        let runs = std::slice::from_ref(&(start..start + pages * PAGE_SIZE as u64)).to_vec();
        for (zeros, left) in [(0, vec![0, 1, 2, 3]), (2, vec![1, 3]), (9, vec![1])] {
            let mut process = Process {
                pid: std::process::id(),
                mem: File::open("/proc/self/mem").unwrap(),
                runs: Vec::new(),
                pages: 0,
                swapped: 0,
                idle: None,
            };
            process.add_all(&runs, zeros, &Interrupt::default()).unwrap();
            let addresses = process
                .runs
                .iter()
                .flat_map(|run| (0..run.pages).map(|page| run.address + page * PAGE_SIZE as u64));
            let found: Vec<_> =
                addresses.map(|address| (address - start) / PAGE_SIZE as u64).collect();
            assert_eq!(found, left, "{zeros}");
        }
        assert_eq!(own[1][0], 1);
    }

    #[test]
    fn this_process_finds_its_own_pages() {
        let pages = 1000_u64;
        let mut own = vec![0_u64; pages as usize * 512];
        own.chunks_mut(512).zip(0..).for_each(|(page, number)| page.fill(0xabcd_0000 + number));
        // What is only read has pages of zeros that all processes share, and that are none of its.
        let zeros = vec![0_u8; 64 << 20];
        assert!(zeros.iter().step_by(PAGE_SIZE).all(|byte| *byte == 0));
        let process = Process::new(std::process::id(), None, &Interrupt::default()).unwrap();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let anonymous = crate::memory::bytes(&status, "RssAnon").unwrap();
        let found = process.pages() * PAGE_SIZE as u64;
        assert!(found.abs_diff(anonymous) < anonymous / 10 + (2 << 20), "{found} {anonymous}");
        // All of the pages that were written are among them, in order, and read as they are.
        let mut page = vec![0; PAGE_SIZE];
        let mut seen = Vec::new();
        for number in 0..process.pages() {
            if process.read(number, &mut page) {
                let words = page.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word));
                // The vector begins a few words behind the start of a page.
                let words: Vec<u64> = words.skip(8).collect();
                if words[0] >> 16 == 0xabcd && words.iter().all(|word| *word == words[0]) {
                    seen.push(words[0] & 0xffff);
                }
            }
        }
        // The first and the last page of the vector are shared with others.
        assert!(seen.len() as u64 >= pages - 2 && seen.is_sorted(), "{}", seen.len());
        assert_eq!(own[512], 0xabcd_0001);
    }

    #[test]
    fn what_can_not_be_read_is_told() {
        let error = |pid| Process::new(pid, None, &Interrupt::default()).err().unwrap().to_string();
        assert!(error(i32::MAX as u32).contains("'ps -e'"), "{}", error(i32::MAX as u32));
    }
}
