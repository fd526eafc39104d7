//! A table of leaves that are made as they are used, in memory of the pool's arena.
//!
//! ```text
//!   shelf 0: 64 leaves   shelf 1: 128   shelf 2: 256 ...   each an array of (leaf, once made)
//! ```
//! Leaves stay until the table goes; looking one up takes no lock.

use crate::Error;
use crate::sync::Mutex;
use slab::{Arena, Cache, CacheBox};
use std::sync::{Arc, OnceLock};

const FIRST: u64 = 64;
const SHELVES: usize = 26;

type Shelf<L> = Box<[OnceLock<CacheBox<L>>]>;

#[derive(Debug)]
pub(crate) struct Leaves<L> {
    cache: Cache<L>,
    shelves: [OnceLock<Shelf<L>>; SHELVES],
    /// Held while a leaf is made, so that no fork meets one half made.
    making: Mutex<()>,
}

impl<L> Leaves<L> {
    pub(crate) fn new(arena: &Arc<Arena>) -> Result<Self, Error> {
        Ok(Leaves {
            cache: Cache::new(arena)?,
            shelves: [const { OnceLock::new() }; SHELVES],
            making: Mutex::default(),
        })
    }

    /// Shelf of leaf `index`, and its place there: shelf k starts at FIRST * (2^k - 1).
    fn place(index: u64) -> (usize, usize) {
        let shifted = index + FIRST;
        let shelf = shifted.ilog2() - FIRST.ilog2();
        (shelf as usize, (shifted - (FIRST << shelf)) as usize)
    }

    pub(crate) fn get(&self, index: u64) -> Option<&L> {
        let (shelf, at) = Self::place(index);
        self.shelves.get(shelf)?.get()?[at].get().map(|leaf| &**leaf)
    }

    /// Leaf `index`, made by `leaf` if it is not there yet.
    pub(crate) fn get_or_make(&self, index: u64, leaf: impl FnOnce() -> L) -> Result<&L, Error> {
        if let Some(leaf) = self.get(index) {
            return Ok(leaf);
        }
        let _making = self.making.lock();
        let (shelf, at) = Self::place(index);
        let shelf = match self.shelves[shelf].get() {
            Some(shelf) => shelf,
            None => {
                let new = Self::shelf(FIRST << shelf)?;
                self.shelves[shelf].get_or_init(|| new)
            }
        };
        if let Some(leaf) = shelf[at].get() {
            return Ok(leaf);
        }
        let made = self.cache.alloc(leaf())?;
        Ok(shelf[at].get_or_init(|| made))
    }

    fn shelf(len: u64) -> Result<Shelf<L>, Error> {
        let mut shelf = Vec::new();
        let bytes = len as usize * size_of::<OnceLock<CacheBox<L>>>();
        let refused = |_| Error::Pages(page::Error::Mapping { bytes });
        shelf.try_reserve_exact(len as usize).map_err(refused)?;
        shelf.resize_with(len as usize, OnceLock::new);
        Ok(shelf.into_boxed_slice())
    }

    /// The leaves that were made.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &L> {
        let made = self.shelves.iter().filter_map(OnceLock::get).flatten();
        made.filter_map(|leaf| leaf.get().map(|leaf| &**leaf))
    }

    /// The first leaf from `index` on that was made.
    pub(crate) fn first_made(&self, index: u64) -> Option<u64> {
        let (first, at) = Self::place(index);
        let shelves = self.shelves.iter().enumerate().skip(first);
        shelves.filter_map(|(nth, shelf)| Some((nth, shelf.get()?))).find_map(|(nth, shelf)| {
            let from = if nth == first { at } else { 0 };
            let found = shelf.iter().skip(from).position(|leaf| leaf.get().is_some())?;
            Some((FIRST << nth) - FIRST + (from + found) as u64)
        })
    }

    /// Holds the table still over a fork.
    pub(crate) fn hold(&self) {
        self.making.hold();
        self.cache.hold();
    }

    pub(crate) fn let_go(&self) {
        self.cache.let_go();
        self.making.let_go();
    }

    /// Mends, in a child, what lost threads left.
    pub(crate) fn mend(&self) {
        self.cache.mend();
    }

    /// Bytes outside the arena.
    pub(crate) fn bytes(&self) -> usize {
        self.shelves.iter().filter_map(OnceLock::get).map(|shelf| size_of_val(&**shelf)).sum()
    }

    pub(crate) fn check(&self) {
        self.cache.check();
        assert_eq!(self.iter().count(), self.cache.stat().active_objects, "leaves");
    }
}
