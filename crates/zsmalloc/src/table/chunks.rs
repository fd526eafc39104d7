//! Tables that grow by chunks. A chunk is allocated on first use and never freed.
//!
//! ```text
//!   chunk 0: entries 0 to 15   chunk 1: 16 to 31   chunk 2: 32 to 63   chunk 3: 64 to 127 ...
//! ```
//! If the number of entries is a power of two and at least 16, all chunks are full.

use super::policy::FIRST_CHUNK;
use crate::Error;
use page::Supply;
use page::heap::boxed;
use std::sync::OnceLock;

/// The number of chunks: enough for 2^23 entries, the maximum number of leaves.
const CHUNKS: usize = 20;

#[derive(Debug)]
pub(super) struct Chunks<T> {
    chunks: [OnceLock<Box<[T]>>; CHUNKS],
}

impl<T> Chunks<T> {
    pub(super) fn new() -> Self {
        Chunks { chunks: [const { OnceLock::new() }; CHUNKS] }
    }

    /// Returns the number of an entry's chunk, and the entry's index in that chunk.
    #[inline]
    fn locate(nth: u64) -> (usize, usize) {
        let order = (nth | (FIRST_CHUNK - 1)).ilog2();
        // The subtraction does not overflow, because `order` is at least the order of FIRST_CHUNK -
        // 1.
        (order.wrapping_sub(FIRST_CHUNK.ilog2() - 1) as usize, (nth ^ Self::start(order)) as usize)
    }

    /// Returns the number of the first entry in the chunk whose last entry's number has `order + 1`
    /// bits.
    #[inline]
    fn start(order: u32) -> u64 {
        (1 << order) & !(FIRST_CHUNK - 1)
    }

    #[inline]
    pub(super) fn get(&self, nth: u64) -> Option<&T> {
        let (chunk, at) = Self::locate(nth);
        self.chunks.get(chunk)?.get().map(|chunk| &chunk[at])
    }

    /// Returns an entry, and allocates its chunk if necessary. Only one thread at a time is allowed
    /// to call this function.
    pub(super) fn get_or_make(
        &self,
        nth: u64,
        supply: Option<&dyn Supply>,
        make: impl Fn() -> T,
    ) -> Result<&T, Error> {
        let (nth, at) = Self::locate(nth);
        let chunk = match self.chunks[nth].get() {
            Some(chunk) => chunk,
            None => {
                let count = FIRST_CHUNK << nth.saturating_sub(1);
                let entries = (0..count as usize).map(|_| make());
                let new = boxed(supply, entries)?;
                self.chunks[nth].get_or_init(|| new)
            }
        };
        Ok(&chunk[at])
    }

    /// Returns all existing entries from number `nth` on, with their numbers.
    pub(super) fn from(&self, nth: u64) -> impl Iterator<Item = (u64, &T)> {
        let (first, at) = Self::locate(nth);
        let chunks = self.chunks.iter().enumerate().skip(first);
        chunks.filter_map(|(nth, chunk)| Some((nth, chunk.get()?))).flat_map(move |(nth, chunk)| {
            let start = Self::start(nth as u32 + FIRST_CHUNK.ilog2() - 1);
            let from = if nth == first { at } else { 0 };
            (start + from as u64..).zip(&chunk[from..])
        })
    }

    pub(super) fn bytes(&self) -> usize {
        self.chunks.iter().filter_map(OnceLock::get).map(|chunk| size_of_val(&**chunk)).sum()
    }
}
