//! The directory: one entry per leaf, in shelves that are made as they are used and stay.
//!
//! ```text
//!   shelf 0: 64 leaves   shelf 1: 128   shelf 2: 256 ...   each an array of entries: | link 8 | leaf's own |
//! ```

use super::Beside;
use super::node::Chain;
use crate::Error;
use crate::parts::table_of;
use page::Supply;
use std::sync::OnceLock;

const FIRST: u64 = if cfg!(loom) { 1 } else { 64 };
const SHELVES: usize = 26;

/// What is kept of a leaf.
#[derive(Debug)]
pub(super) struct Entry<E: Beside> {
    pub(super) chain: Chain<E>,
    pub(super) leaf: E::Leaf,
}

#[derive(Debug)]
pub(super) struct Directory<E: Beside> {
    shelves: [OnceLock<Box<[Entry<E>]>>; SHELVES],
}

impl<E: Beside> Directory<E> {
    pub(super) fn new() -> Self {
        Directory { shelves: [const { OnceLock::new() }; SHELVES] }
    }

    /// Shelf of a leaf, and its place there: shelf k starts at FIRST * (2^k - 1).
    #[inline]
    fn place(leaf: u64) -> (usize, usize) {
        let shifted = leaf + FIRST;
        let shelf = shifted.ilog2() - FIRST.ilog2();
        (shelf as usize, (shifted - (FIRST << shelf)) as usize)
    }

    #[inline]
    pub(super) fn get(&self, leaf: u64) -> Option<&Entry<E>> {
        let (shelf, at) = Self::place(leaf);
        self.shelves.get(shelf)?.get().map(|shelf| &shelf[at])
    }

    /// The entry of a leaf, its shelf made if need be: under the table's lock.
    pub(super) fn get_or_make(
        &self,
        leaf: u64,
        seed: E::Seed,
        supply: Option<&dyn Supply>,
    ) -> Result<&Entry<E>, Error> {
        let (nth, at) = Self::place(leaf);
        let shelf = match self.shelves[nth].get() {
            Some(shelf) => shelf,
            None => {
                let entries = (0..(FIRST << nth) as usize)
                    .map(|_| Ok(Entry { chain: Chain::new(), leaf: E::leaf(seed) }));
                let new = table_of(supply, entries)?;
                self.shelves[nth].get_or_init(|| new)
            }
        };
        Ok(&shelf[at])
    }

    /// All entries there are, with their leaves, from that of `leaf` on.
    pub(super) fn from(&self, leaf: u64) -> impl Iterator<Item = (u64, &Entry<E>)> {
        let (first, at) = Self::place(leaf);
        let shelves = self.shelves.iter().enumerate().skip(first);
        shelves.filter_map(|(nth, shelf)| Some((nth, shelf.get()?))).flat_map(
            move |(nth, shelf)| {
                let start = (FIRST << nth) - FIRST;
                let from = if nth == first { at } else { 0 };
                (start + from as u64..).zip(&shelf[from..])
            },
        )
    }

    /// The first leaf from `leaf` on that has nodes.
    pub(super) fn first_made(&self, leaf: u64) -> Option<u64> {
        self.from(leaf).find(|(_, entry)| entry.chain.is_made()).map(|(leaf, _)| leaf)
    }

    pub(super) fn bytes(&self) -> usize {
        self.shelves.iter().filter_map(OnceLock::get).map(|shelf| size_of_val(&**shelf)).sum()
    }
}
