//! The pages that a process does not use, according to the kernel's page_idle.
//!
//! Writing 1 to a bit sets the bit; writing 0 leaves it unchanged. The kernel clears the bit when
//! the page is used. Only the first page of a huge page or another compound page has a bit. The
//! other pages of a compound page have the flag `TAIL` in /proc/kpageflags.

use crate::commands::policy::IDLE_TICK;
use crate::error::Error;
use measure::Interrupt;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The paths of the kernel's files that describe all pages, in the order of page numbers: a bitmap
/// with eight bytes for 64 pages, and the flags, eight bytes for each page.
pub(super) const KERNEL: [&str; 2] = ["/sys/kernel/mm/page_idle/bitmap", "/proc/kpageflags"];

/// The flag of every page of a compound page except the first.
const TAIL: u64 = 1 << 16;

/// Waits for `time`, and returns those of the pages `numbers` that were not used during this time.
pub(super) fn pages(
    [bitmap, flags]: [&str; 2],
    numbers: Vec<u64>,
    time: Duration,
    interrupt: &Interrupt,
) -> Result<HashSet<u64>, Error> {
    let failed_by = |place: &str, why: io::Error| {
        Error::Failed(format!(
            "the kernel does not tell which pages are idle, by '{place}': {why}; be root, on a \
             kernel with CONFIG_IDLE_PAGE_TRACKING, or leave out --idle"
        ))
    };
    let failed = |why| failed_by(bitmap, why);
    let file = OpenOptions::new().read(true).write(true).open(bitmap).map_err(failed)?;
    // Without the capability, the kernel reports all numbers as 0.
    if numbers.iter().all(|&number| number == 0) && !numbers.is_empty() {
        return Err(failed(io::ErrorKind::PermissionDenied.into()));
    }
    let firsts = firsts(flags, numbers).map_err(|why| failed_by(flags, why))?;
    let mut words: BTreeMap<u64, u64> = BTreeMap::new();
    for first in firsts.values() {
        *words.entry(first / 64).or_default() |= 1 << (first % 64);
    }
    words.iter().try_for_each(|(word, bits)| write(&file, *word, *bits)).map_err(failed)?;
    let until = Instant::now() + time;
    while Instant::now() < until {
        interrupt.check()?;
        sleep(IDLE_TICK.min(until.saturating_duration_since(Instant::now())));
    }
    for (word, bits) in &mut words {
        *bits &= read(&file, *word).map_err(failed)?;
    }
    let is_idle = |first: u64| words[&(first / 64)] >> (first % 64) & 1 == 1;
    Ok(firsts.into_iter().filter(|(_, first)| is_idle(*first)).map(|(number, _)| number).collect())
}

/// Returns each number together with the number of the page whose bit covers it.
fn firsts(flags: &str, numbers: Vec<u64>) -> io::Result<BTreeMap<u64, u64>> {
    let file = File::open(flags)?;
    let numbers: BTreeSet<u64> = numbers.into_iter().collect();
    let mut firsts = BTreeMap::new();
    // The previous page, and the page whose bit covers it.
    let mut last = (0, 0);
    for number in numbers {
        let mut at = number;
        while at > 0 && read(&file, at)? & TAIL != 0 {
            at = if at - 1 == last.0 { last.1 } else { at - 1 };
        }
        last = (number, at);
        firsts.insert(number, at);
    }
    Ok(firsts)
}

fn write(bitmap: &File, word: u64, bits: u64) -> io::Result<()> {
    bitmap.write_all_at(&bits.to_ne_bytes(), word * 8)
}

fn read(file: &File, word: u64) -> io::Result<u64> {
    let mut bits = [0; 8];
    file.read_exact_at(&mut bits, word * 8)?;
    Ok(u64::from_ne_bytes(bits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// Returns a directory with a bitmap, and flags of 512 pages, of which `tails` are not the
    /// first of a compound page.
    fn kernel(tails: &[usize]) -> (tempfile::TempDir, [String; 2]) {
        let dir = tempfile::tempdir().unwrap();
        let names = ["bitmap", "flags"].map(|name| dir.path().join(name).display().to_string());
        std::fs::write(&names[0], [0; 64]).unwrap();
        let mut flags = [0; 512];
        tails.iter().for_each(|&tail| flags[tail] = TAIL);
        std::fs::write(&names[1], flags.map(u64::to_ne_bytes).concat()).unwrap();
        (dir, names)
    }

    #[test]
    fn pages_that_are_used_meanwhile_are_not_idle() {
        // Two compound pages, of 3 and 4 pages. The process uses only the last two pages of the
        // second compound page.
        let (_dir, [bitmap, flags]) = kernel(&[129, 130, 257, 258, 259]);
        let idle = thread::scope(|scope| {
            let looks = scope.spawn(|| {
                let time = Duration::from_millis(400);
                let numbers = vec![3, 64, 65, 200, 130, 129, 128, 258, 259, 0];
                pages([&bitmap, &flags], numbers, time, &Interrupt::default()).unwrap()
            });
            // Changes the bitmap as the kernel does when page 65 and the second compound page are
            // used.
            let file = OpenOptions::new().read(true).write(true).open(&bitmap).unwrap();
            while read(&file, 4).unwrap() == 0 && !looks.is_finished() {
                thread::yield_now();
            }
            let bits = [0, 1, 2, 3, 4].map(|word| read(&file, word).unwrap());
            assert_eq!(bits, [9, 3, 1, 1 << (200 - 192), 1]);
            write(&file, 1, 1).unwrap();
            write(&file, 4, 0).unwrap();
            looks.join().unwrap()
        });
        assert_eq!(idle, HashSet::from([0, 3, 64, 200, 128, 129, 130]));
    }

    #[test]
    fn who_may_not_see_numbers_is_told() {
        let (_dir, [bitmap, flags]) = kernel(&[]);
        let ask = |bitmap: &str, flags: &str, numbers| {
            pages([bitmap, flags], numbers, Duration::ZERO, &Interrupt::default())
                .unwrap_err()
                .to_string()
        };
        assert!(ask("no/such", &flags, vec![0, 0]).contains("leave out --idle"));
        assert!(ask(&bitmap, &flags, vec![0, 0]).contains("be root"));
        assert!(ask(&bitmap, "no/such", vec![0, 1]).contains("by 'no/such'"));
    }
}
