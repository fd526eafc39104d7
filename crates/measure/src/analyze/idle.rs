//! Which pages a process does not use, as the kernel's page_idle tells.
//!
//! The kernel clears a page's bit when the page is used; a bit is set by writing it. Bits that are
//! written as 0 stay. Pages that were made as one (huge ones) have the bit of their first alone,
//! which /proc/kpageflags tells.

use crate::error::Error;
use crate::interrupt::Interrupt;
use std::collections::{BTreeMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Bits of a page's flags: it is the first of several that were made as one, or another of them.
const FIRST: u64 = 1 << 15;
const BEHIND: u64 = 1 << 16;

/// Pages that are made as one, at most: but for those of hugetlb, which no heap has.
const TOGETHER: usize = 512;

const TICK: Duration = Duration::from_millis(50);

/// Where the kernel tells it.
pub(super) struct Kernel {
    /// A bit for each page.
    bitmap: PathBuf,
    /// Eight bytes of flags for each.
    flags: PathBuf,
}

impl Default for Kernel {
    fn default() -> Self {
        let (bitmap, flags) = ("/sys/kernel/mm/page_idle/bitmap", "/proc/kpageflags");
        Kernel { bitmap: bitmap.into(), flags: flags.into() }
    }
}

/// Returns which of the pages of these numbers are not used for so long.
pub(super) fn pages(
    kernel: &Kernel,
    numbers: Vec<u64>,
    time: Duration,
    interrupt: &Interrupt,
) -> Result<HashSet<u64>, Error> {
    let failed = |why: io::Error| {
        Error::Failed(format!(
            "the kernel does not tell which pages are idle, by '{}': {why}; be root, on a kernel \
             with CONFIG_IDLE_PAGE_TRACKING, or leave out --idle",
            kernel.bitmap.display()
        ))
    };
    let file = OpenOptions::new().read(true).write(true).open(&kernel.bitmap);
    let file = file.map_err(failed)?;
    // Without the right to see them all are 0.
    if numbers.iter().all(|&number| number == 0) && !numbers.is_empty() {
        return Err(failed(io::ErrorKind::PermissionDenied.into()));
    }
    let pages = with_firsts(File::open(&kernel.flags).ok(), numbers);
    let mut words: BTreeMap<u64, u64> = BTreeMap::new();
    for (_, first) in &pages {
        *words.entry(first / 64).or_default() |= 1 << (first % 64);
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
    let is_idle = |(_, first): &(u64, u64)| idle.contains(first);
    Ok(pages.into_iter().filter(is_idle).map(|(page, _)| page).collect())
}

/// Returns each page with the first of those that it was made as one with: itself, if it was alone,
/// or if that is not told.
fn with_firsts(flags: Option<File>, mut pages: Vec<u64>) -> Vec<(u64, u64)> {
    pages.sort_unstable();
    pages.dedup();
    // The flags of as many pages as are made as one, and of which.
    let (mut told, mut start) = ([0; TOGETHER * 8], None);
    let first = |page: u64| {
        let from = page - page % TOGETHER as u64;
        if start != Some(from) {
            told.fill(0);
            start = Some(from);
            // Behind the last page of all the file ends.
            let _ = flags.as_ref().map(|flags| flags.read_at(&mut told, from * 8));
        }
        let of = told.as_chunks::<8>().0;
        let is = |nth: usize, bit: u64| u64::from_ne_bytes(of[nth]) & bit != 0;
        let nth = (page - from) as usize;
        let before = (0..nth).rev().find(|nth| is(*nth, FIRST)).filter(|_| is(nth, BEHIND));
        (page, before.map_or(page, |nth| from + nth as u64))
    };
    pages.into_iter().map(first).collect()
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
        let kernel = Kernel { bitmap: path.clone(), flags: dir.path().join("none") };
        let idle = thread::scope(|scope| {
            let looks = scope.spawn(|| {
                let time = Duration::from_millis(400);
                pages(&kernel, vec![3, 64, 65, 200], time, &Interrupt::default()).unwrap()
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
    fn pages_that_were_made_as_one_are_idle_together() {
        let dir = tempfile::tempdir().unwrap();
        let [bitmap, flags] = ["bitmap", "flags"].map(|name| dir.path().join(name));
        std::fs::write(&bitmap, [0; 256]).unwrap();
        // Pages 512 to 527 were made as one, as were 600 to 603; 604 is alone.
        let of = |page: u64| match page {
            512 | 600 => FIRST,
            513..=527 | 601..=603 => BEHIND,
            _ => 0,
        };
        let all: Vec<u8> = (0..700).flat_map(|page| of(page).to_ne_bytes()).collect();
        std::fs::write(&flags, all).unwrap();
        let firsts = with_firsts(File::open(&flags).ok(), vec![604, 603, 527, 512, 9, 9, 9000]);
        let expected = [(9, 9), (512, 512), (527, 512), (603, 600), (604, 604), (9000, 9000)];
        assert_eq!(firsts, expected);
        let kernel = Kernel { bitmap: bitmap.clone(), flags };
        let numbers = vec![520, 527, 601, 604];
        let idle = pages(&kernel, numbers.clone(), Duration::ZERO, &Interrupt::default()).unwrap();
        assert_eq!(idle, numbers.into_iter().collect());
        // Their bit is that of the first.
        let written = std::fs::read(&bitmap).unwrap();
        let set = (0..2048).filter(|bit| written[bit / 8] >> (bit % 8) & 1 == 1);
        assert_eq!(set.collect::<Vec<_>>(), [512, 600, 604]);
    }

    #[test]
    fn who_may_not_see_numbers_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bitmap");
        let kernel = Kernel { bitmap: path.clone(), flags: dir.path().join("none") };
        let ask = || pages(&kernel, vec![0, 0], Duration::ZERO, &Interrupt::default());
        assert!(ask().unwrap_err().to_string().contains("leave out --idle"));
        std::fs::write(&path, [0; 64]).unwrap();
        assert!(ask().unwrap_err().to_string().contains("be root"));
    }
}
