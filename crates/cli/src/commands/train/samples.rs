//! Reads blocks of files to train a dictionary, and holds out other blocks to try the dictionary
//! on.

use crate::commands::policy::{HELD_ONE_OF, SAMPLE_BYTES, SEED};
use crate::error::Error;
use crate::progress::Progress;
use crate::text::counted;
use measure::Interrupt;
use measure::page::{PAGE_SIZE, same_filled};
use measure::pages::PageReader;

/// The blocks that train a dictionary, and the held-out blocks. Each vector holds its blocks one
/// after the other.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    /// The size of a block in bytes.
    pub(crate) block: usize,
    pub(crate) training: Vec<u8>,
    pub(crate) held_out: Vec<u8>,
    /// The number of blocks read, including same-filled blocks.
    pub(crate) taken: u32,
    /// The size of all files in bytes.
    pub(crate) bytes_of_all: u64,
}

impl Samples {
    /// Reads blocks of `block` bytes from the files, at the boundaries that a device's blocks would
    /// have. Same-filled blocks are left out, because a device does not compress them.
    pub(crate) fn read(
        source: &PageReader<'_>,
        block: usize,
        interrupt: &Interrupt,
    ) -> Result<Self, Error> {
        let pages = (block / PAGE_SIZE) as u32;
        let count = source.plan.pages() / pages;
        let taken = count.min((SAMPLE_BYTES / block) as u32);
        let progress = Progress::new("reading", u64::from(taken) * block as u64);
        let bytes_of_all = u64::from(source.plan.pages()) * PAGE_SIZE as u64;
        let mut samples = Samples { block, taken, bytes_of_all, ..Samples::default() };
        let mut rng = fastrand::Rng::with_seed(SEED);
        // `left` counts down the blocks of a group of `HELD_ONE_OF`. The block at which `left`
        // equals `held` is held out.
        let (mut left, mut held) = (0, 0);
        let mut data = vec![0; block];
        for nth in 0..taken {
            interrupt.check()?;
            let first = (u64::from(nth) * u64::from(count) / u64::from(taken)) as u32 * pages;
            let is_whole = source.read_all(first..first + pages, &mut data);
            progress.advance(block as u64);
            if is_whole && same_filled(&data).is_none() {
                if left == 0 {
                    (left, held) = (HELD_ONE_OF, rng.usize(1..=HELD_ONE_OF));
                }
                let is_held = left == held;
                let side = if is_held { &mut samples.held_out } else { &mut samples.training };
                side.extend_from_slice(&data);
                left -= 1;
            }
        }
        Ok(samples)
    }

    /// Checks that enough blocks were read for a dictionary of `size` bytes.
    pub(crate) fn check(&self, size: usize) -> Result<(), String> {
        let given = (self.training.len() + self.held_out.len()) / self.block;
        let training = zcomp::samples_needed(self.block, size);
        let needed = training.div_ceil(HELD_ONE_OF - 1) * HELD_ONE_OF;
        if given >= needed {
            return Ok(());
        }
        Err(format!(
            "{} of {} bytes, without same-filled ones, are too few for a dictionary of {size} \
             bytes, which takes {needed}; give more files, or a smaller --size",
            counted(given as u64, "block"),
            self.block
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::pages::{SkippedFiles, Wanted, plan};

    #[test]
    fn blocks_are_cut_as_on_a_device_and_one_of_eight_is_held_out() {
        let dir = tempfile::tempdir().unwrap();
        // The file has 100 pages of numbers, 3 same-filled pages, and a last page of 5 bytes.
        let numbers = (0..100 * 1024u32).flat_map(u32::to_le_bytes);
        let bytes: Vec<u8> = numbers.chain([7; 3 * PAGE_SIZE]).chain([1, 2, 3, 4, 5]).collect();
        std::fs::write(dir.path().join("a"), bytes).unwrap();
        let (skipped, interrupt) = (SkippedFiles::default(), Interrupt::default());
        let paths = [dir.path().to_owned()];
        let plan = plan(&paths, None, Wanted::All, &skipped, &interrupt).unwrap();
        let source = PageReader { plan: &plan, skipped: &skipped };
        let samples = Samples::read(&source, PAGE_SIZE, &interrupt).unwrap();
        let blocks = |bytes: &[u8]| bytes.len() / PAGE_SIZE;
        assert_eq!(blocks(&samples.training) + blocks(&samples.held_out), 101);
        assert!((12..=13).contains(&blocks(&samples.held_out)));
        let firsts =
            |bytes: &[u8]| -> Vec<u8> { bytes.iter().step_by(PAGE_SIZE).copied().collect() };
        assert!(firsts(&samples.training).is_sorted() || samples.training.len() > 64 * PAGE_SIZE);
        assert!(samples.check(80 * PAGE_SIZE).is_ok());
        let error = samples.check(89 * PAGE_SIZE).unwrap_err();
        assert!(error.contains("101 blocks") && error.contains("takes 104"), "{error}");
        let large = Samples::read(&source, 16 * PAGE_SIZE, &interrupt).unwrap();
        assert_eq!(large.training.len() + large.held_out.len(), 6 * 16 * PAGE_SIZE);
        let again = Samples::read(&source, PAGE_SIZE, &interrupt).unwrap();
        assert!(again.training == samples.training && again.held_out == samples.held_out);
    }
}
