//! The population: the sequence of pages from which a sample is drawn.

use measure::page::PAGE_SIZE;
use measure::pages::PageReader;

pub(super) trait Population {
    fn pages(&self) -> u64;

    /// Reads pages, beginning with page `first`, until `buf` is full. Returns true if all these
    /// pages could be read.
    fn read(&self, first: u64, buf: &mut [u8]) -> bool;
}

/// The pages of files, in the order in which a device stores the files.
impl Population for PageReader<'_> {
    fn pages(&self) -> u64 {
        self.plan.pages().into()
    }

    fn read(&self, first: u64, buf: &mut [u8]) -> bool {
        let (first, pages) = (first as u32, (buf.len() / PAGE_SIZE) as u32);
        self.read_all(first..first + pages, buf)
    }
}
