//! The population: all pages that can be sampled, as a sequence.

use measure::page::PAGE_SIZE;
use measure::pages::PageReader;

/// A sequence of pages.
pub(super) trait Population {
    /// Returns the number of pages.
    fn pages(&self) -> u64;

    /// Reads pages from `first` until `buf` is full. Returns whether all these pages could be read.
    fn read(&self, first: u64, buf: &mut [u8]) -> bool;
}

/// The pages of files, as on a device to which the files are written in order.
impl Population for PageReader<'_> {
    fn pages(&self) -> u64 {
        self.plan.pages().into()
    }

    fn read(&self, first: u64, buf: &mut [u8]) -> bool {
        let (first, pages) = (first as u32, (buf.len() / PAGE_SIZE) as u32);
        self.read_all(first..first + pages, buf)
    }
}
