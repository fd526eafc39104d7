//! Tables that grow: shelves that are made as they are used, and stay.
//!
//! ```text
//!   shelf 0: entries 0 to 15   shelf 1: 16 to 31   shelf 2: 32 to 63   shelf 3: 64 to 127 ...
//! ```
//! As many entries as a power of two says fill their shelves.

use crate::Error;
use crate::parts::table_of;
use page::Supply;
use std::sync::OnceLock;

const FIRST: u64 = if cfg!(loom) { 2 } else { 16 };
/// For 2^23 entries, which is the leaves there can be.
const SHELVES: usize = 20;

#[derive(Debug)]
pub(super) struct Shelves<T> {
    shelves: [OnceLock<Box<[T]>>; SHELVES],
}

impl<T> Shelves<T> {
    pub(super) fn new() -> Self {
        Shelves { shelves: [const { OnceLock::new() }; SHELVES] }
    }

    /// Shelf of an entry, and its place there.
    #[inline]
    fn place(nth: u64) -> (usize, usize) {
        // Where nothing is kept, one entry does for all.
        let nth = if size_of::<T>() == 0 { 0 } else { nth };
        let order = (nth | (FIRST - 1)).ilog2();
        // Nothing here overflows: `order` is at least that of FIRST - 1, and `nth` begins with its bit.
        (order.wrapping_sub(FIRST.ilog2() - 1) as usize, (nth ^ Self::start(order)) as usize)
    }

    /// The first entry of the shelf whose last has so many bits but one.
    #[inline]
    fn start(order: u32) -> u64 {
        (1 << order) & !(FIRST - 1)
    }

    #[inline]
    pub(super) fn get(&self, nth: u64) -> Option<&T> {
        let (shelf, at) = Self::place(nth);
        self.shelves.get(shelf)?.get().map(|shelf| &shelf[at])
    }

    /// An entry, its shelf made if need be: by one thread at a time.
    pub(super) fn get_or_make(
        &self,
        nth: u64,
        supply: Option<&dyn Supply>,
        make: impl Fn() -> T,
    ) -> Result<&T, Error> {
        let (nth, at) = Self::place(nth);
        let shelf = match self.shelves[nth].get() {
            Some(shelf) => shelf,
            None => {
                let count = FIRST << nth.saturating_sub(1);
                let entries = (0..count as usize).map(|_| Ok(make()));
                let new = table_of(supply.filter(|_| size_of::<T>() > 0), entries)?;
                self.shelves[nth].get_or_init(|| new)
            }
        };
        Ok(&shelf[at])
    }

    /// All entries there are, with their numbers, from number `nth` on.
    pub(super) fn from(&self, nth: u64) -> impl Iterator<Item = (u64, &T)> {
        let (first, at) = Self::place(nth);
        let shelves = self.shelves.iter().enumerate().skip(first);
        shelves.filter_map(|(nth, shelf)| Some((nth, shelf.get()?))).flat_map(
            move |(nth, shelf)| {
                let start = Self::start(nth as u32 + FIRST.ilog2() - 1);
                let from = if nth == first { at } else { 0 };
                (start + from as u64..).zip(&shelf[from..])
            },
        )
    }

    pub(super) fn bytes(&self) -> usize {
        self.shelves.iter().filter_map(OnceLock::get).map(|shelf| size_of_val(&**shelf)).sum()
    }
}
