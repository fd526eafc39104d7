//! Which pages a process does not use, as the kernel's page_idle tells.
//!
//! The kernel clears a page's bit when the page is used; a bit is set by writing it. Bits that are
//! written as 0 stay.

use crate::error::Error;
use crate::interrupt::Interrupt;
use std::collections::{BTreeMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Where the bits are: eight bytes for 64 pages.
pub(super) const BITMAP: &str = "/sys/kernel/mm/page_idle/bitmap";

const TICK: Duration = Duration::from_millis(50);

/// Returns which of the pages of these numbers are not used for so long.
pub(super) fn pages(
    bitmap: &Path,
    numbers: Vec<u64>,
    time: Duration,
    interrupt: &Interrupt,
) -> Result<HashSet<u64>, Error> {
    let failed = |why: io::Error| {
        Error::Failed(format!(
            "the kernel does not tell which pages are idle, by '{}': {why}; be root, on a kernel \
             with CONFIG_IDLE_PAGE_TRACKING, or leave out --idle",
            bitmap.display()
        ))
    };
    let file = OpenOptions::new().read(true).write(true).open(bitmap).map_err(failed)?;
    // Without the right to see them all are 0.
    if numbers.iter().all(|&number| number == 0) && !numbers.is_empty() {
        return Err(failed(io::ErrorKind::PermissionDenied.into()));
    }
    let mut words: BTreeMap<u64, u64> = BTreeMap::new();
    for number in numbers {
        *words.entry(number / 64).or_default() |= 1 << (number % 64);
    }
    words.iter().try_for_each(|(word, bits)| write(&file, *word, *bits)).map_err(failed)?;
    let until = Instant::now() + time;
    while Instant::now() < until {
        interrupt.check()?;
        sleep(TICK.min(until.saturating_duration_since(Instant::now())));
    }
    let mut idle = HashSet::new();
    for (word, bits) in words {
        let left = bits & read(&file, word).map_err(failed)?;
        idle.extend((0..64).filter(|bit| left >> bit & 1 == 1).map(|bit| word * 64 + bit));
    }
    Ok(idle)
}

fn write(bitmap: &File, word: u64, bits: u64) -> io::Result<()> {
    bitmap.write_all_at(&bits.to_ne_bytes(), word * 8)
}

fn read(bitmap: &File, word: u64) -> io::Result<u64> {
    let mut bits = [0; 8];
    bitmap.read_exact_at(&mut bits, word * 8)?;
    Ok(u64::from_ne_bytes(bits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn pages_that_are_used_meanwhile_are_not_idle() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bitmap");
        std::fs::write(&path, [0; 64]).unwrap();
        let idle = thread::scope(|scope| {
            let looks = scope.spawn(|| {
                let time = Duration::from_millis(400);
                pages(&path, vec![3, 64, 65, 200], time, &Interrupt::default()).unwrap()
            });
            // As the kernel does when page 65 is used, once all are marked.
            let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
            while read(&file, 3).unwrap() == 0 && !looks.is_finished() {
                thread::yield_now();
            }
            assert_eq!((read(&file, 0).unwrap(), read(&file, 1).unwrap()), (8, 3));
            write(&file, 1, 1).unwrap();
            looks.join().unwrap()
        });
        assert_eq!(idle, HashSet::from([3, 64, 200]));
    }

    #[test]
    fn who_may_not_see_numbers_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bitmap");
        let ask = || pages(&path, vec![0, 0], Duration::ZERO, &Interrupt::default());
        assert!(ask().unwrap_err().to_string().contains("leave out --idle"));
        std::fs::write(&path, [0; 64]).unwrap();
        assert!(ask().unwrap_err().to_string().contains("be root"));
    }
}
