//! Finds pages that a process does not use, by the kernel's bitmap page_idle.
//!
//! Writing 1 to a bit of page_idle sets the bit, and writing 0 leaves the bit unchanged. The kernel
//! clears the bit when the page is used. The bit of a compound page, such as a huge page, belongs
//! to its first page. The other pages of a compound page have the flag `TAIL` in /proc/kpageflags.

use crate::commands::policy::IDLE_TICK;
use crate::error::Error;
use measure::Interrupt;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The paths of the kernel's bitmap, one bit per page, and of its flags, eight bytes per page. Both
/// files are in the order of page numbers.
pub(super) const KERNEL: [&str; 2] = ["/sys/kernel/mm/page_idle/bitmap", "/proc/kpageflags"];

/// The flag of each page of a compound page except its first page.
const TAIL: u64 = 1 << 16;

/// Waits for `time`. Returns the numbers of the pages that no process used during the wait.
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
    // Without CAP_SYS_ADMIN, /proc/PID/pagemap shows each page number as 0.
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

/// Maps the number of each page to the number of the page whose idle bit applies to it.
fn firsts(flags: &str, numbers: Vec<u64>) -> io::Result<BTreeMap<u64, u64>> {
    let file = File::open(flags)?;
    let numbers: BTreeSet<u64> = numbers.into_iter().collect();
    let mut firsts = BTreeMap::new();
    // The number of the previous page, and the number of the page whose idle bit applies to it.
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

    /// Makes a bitmap and flags for 512 pages, of which `tails` have the flag `TAIL`.
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
        // The compound pages begin at pages 128 and 256. The process has only the last two pages of
        // the second compound page.
        let (_dir, [bitmap, flags]) = kernel(&[129, 130, 257, 258, 259]);
        let idle = thread::scope(|scope| {
            let looks = scope.spawn(|| {
                let time = Duration::from_millis(400);
                let numbers = vec![3, 64, 65, 200, 130, 129, 128, 258, 259, 0];
                pages([&bitmap, &flags], numbers, time, &Interrupt::default()).unwrap()
            });
            // Clears the bits of page 65 and of the second compound page, as the kernel does on
            // use.
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
