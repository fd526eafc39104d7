//! Extents: runs of consecutive pages, each with a descriptor, and the table of the descriptors.
//!
//! ```text
//!   extents: | 0 | 1 | 2 | ...           12 bytes and the owner's each
//!   used:    | bit per descriptor |      set while it belongs to an extent
//!   spare:   a number for each word of `used`, 1 if the word has a clear bit
//! ```
//! A new extent gets the lowest free number. When no descriptor in a page of the table is used, the
//! page is released. So after most extents are freed, only a few pages of the table remain.
//!
//! All changes are made under the space's lock. Look-ups take no lock.
//!
//! # Safety
//! A page of the table is released only while no descriptor in it is used, so no thread depends on
//! its bytes. Zeros are valid descriptors.
#![allow(unsafe_code)]

use crate::budget::Supply;
use crate::max_tree::MaxTree;
use crate::sync::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use crate::table::GrowingTable;
use crate::zeroed::Zeroed;
use crate::{Error, bits, page_shift, page_size};
use std::num::NonZeroU32;
use std::ops::Range;

/// The number of an extent within its space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExtentId(NonZeroU32);

impl ExtentId {
    /// Returns the id whose number is `raw`, or `None` if `raw` is 0.
    pub fn from_raw(raw: u32) -> Option<Self> {
        NonZeroU32::new(raw).map(ExtentId)
    }

    /// Returns the id's number, which is never 0.
    pub fn to_raw(self) -> u32 {
        self.0.get()
    }

    pub(crate) fn index(self) -> u32 {
        self.0.get() - 1
    }

    pub(crate) fn from_index(index: u32) -> Option<Self> {
        index.checked_add(1).and_then(Self::from_raw)
    }
}

/// The descriptor of an extent: 12 bytes and the owner's data. The memory of a descriptor holds the
/// same descriptor during the life of the space; `data` is never dropped and never replaced. So a
/// stale [`ExtentId`] refers to old values or zeros, never to other memory.
#[derive(Debug)]
pub struct Extent<D> {
    /// The number of the first page, which is the page's offset divided by the page size.
    first: AtomicU32,
    /// The number of pages; 0 while the descriptor is free. Writers store this field last. Readers
    /// read this field first.
    pages: AtomicU32,
    /// A number for the owner's use, set when the extent is allocated.
    tag: AtomicU32,
    /// The owner's data about the extent, for example the set of committed pages. In a new extent
    /// the data are zeros, or the data of an earlier extent with the same number.
    pub data: D,
}

const _: () = assert!(cfg!(all(test, loom)) || size_of::<Extent<()>>() == 12);

// SAFETY: the other fields are AtomicU32, and `D: Zeroed` makes zeros valid in `data`.
unsafe impl<D: Zeroed> Zeroed for Extent<D> {}

impl<D> Extent<D> {
    /// Returns a descriptor in the state of newly mapped memory.
    #[cfg(all(test, loom))]
    pub(crate) fn unused(data: D) -> Self {
        let [first, pages, tag] = std::array::from_fn(|_| AtomicU32::new(0));
        Extent { first, pages, tag, data }
    }

    /// Assigns the descriptor to an extent. The caller holds the space's lock.
    pub(crate) fn begin(&self, first: u32, pages: u32, tag: u32) {
        self.first.store(first, Relaxed);
        self.tag.store(tag, Relaxed);
        self.pages.store(pages, Release);
    }

    /// Marks the descriptor as free. The caller holds the space's lock. Returns the extent's first
    /// page and its number of pages.
    pub(crate) fn end(&self) -> (u32, u32) {
        (self.first.load(Relaxed), self.pages.swap(0, Relaxed))
    }

    /// Returns the offset of the extent's first byte.
    pub fn start(&self) -> u64 {
        (self.first.load(Relaxed) as u64) << page_shift()
    }

    /// Returns the number of pages that were requested, or 0 if the extent is freed. A caller that
    /// does not own the extent calls this function before `start` and `tag`. The results of `start`
    /// and `tag` then belong to the same extent, or to a later extent with the same number.
    pub fn pages(&self) -> u32 {
        self.pages.load(Acquire)
    }

    /// Returns the number that the owner last stored in `tag`, by
    /// [`Space::alloc`](crate::Space::alloc) or by [`set_tag`](Self::set_tag).
    pub fn tag(&self) -> u32 {
        self.tag.load(Relaxed)
    }

    /// Replaces the owner's number. The caller owns the extent.
    pub fn set_tag(&self, tag: u32) {
        self.tag.store(tag, Relaxed);
    }
}

/// The table of descriptors.
pub(crate) struct ExtentTable<D> {
    extents: GrowingTable<Extent<D>>,
    used: GrowingTable<AtomicU64>,
    /// The number of pages of the table `extents` that hold a used descriptor.
    pages: AtomicU32,
}

impl<D: Zeroed> ExtentTable<D> {
    pub(crate) fn new() -> Self {
        ExtentTable {
            extents: GrowingTable::new(),
            used: GrowingTable::new(),
            pages: AtomicU32::new(0),
        }
    }

    pub(crate) fn get(&self, id: ExtentId) -> Option<&Extent<D>> {
        self.extents.get(id.index())
    }

    /// Returns the size of the descriptors in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.pages.load(Relaxed) as usize * page_size() + self.used.bytes()
    }

    /// Returns the lowest spare descriptor. If all descriptors are used, first adds one to the
    /// table.
    pub(crate) fn spare(
        &self,
        spare: &mut MaxTree,
        supply: Option<&dyn Supply>,
    ) -> Result<ExtentId, Error> {
        let word = match spare.first(1) {
            Some(word) => word,
            None => {
                let word = self.used.len();
                spare.grow(word + 1, supply)?;
                self.used.push(supply)?;
                spare.set(word, 1);
                word
            }
        };
        let index = word.checked_mul(64).ok_or(Error::Exhausted)? + self.word(word).trailing_ones();
        while self.extents.len() <= index {
            self.extents.push(supply)?;
        }
        ExtentId::from_index(index).ok_or(Error::Exhausted)
    }

    /// Marks the spare descriptor `id` as used.
    pub(crate) fn claim(&self, spare: &mut MaxTree, id: ExtentId) {
        let pages = GrowingTable::<Extent<D>>::pages_of(id.index());
        let fresh = pages.filter(|page| !self.any_used(page.elements.clone())).count();
        self.pages.fetch_add(fresh as u32, Relaxed);
        self.set_used(id, true);
        let word = id.index() / 64;
        spare.set(word, u16::from(self.word(word) != u64::MAX));
    }

    /// Marks the descriptor `id` as spare. Releases the pages of the table in which no descriptor
    /// is used any more.
    ///
    /// # Safety
    /// The caller holds the space's lock, and no thread uses the extent any more.
    pub(crate) unsafe fn release(&self, spare: &mut MaxTree, id: ExtentId) {
        self.set_used(id, false);
        spare.set(id.index() / 64, 1);
        for page in GrowingTable::<Extent<D>>::pages_of(id.index()) {
            if !self.any_used(page.elements.clone()) {
                // SAFETY: no descriptor in the page is used, and none becomes used while the caller
                // holds the space's lock.
                unsafe { self.extents.release(&page) };
                self.pages.fetch_sub(1, Relaxed);
            }
        }
    }

    fn word(&self, word: u32) -> u64 {
        self.used.get(word).map_or(0, bits::load_acquire)
    }

    fn set_used(&self, id: ExtentId, used: bool) {
        if let Some(word) = self.used.get(id.index() / 64) {
            let before = bits::set_release(word, id.index() % 64, used);
            debug_assert_ne!(before, used, "{id:?}");
        }
    }

    fn any_used(&self, elements: Range<u32>) -> bool {
        bits::masks(elements).any(|(word, bits)| self.word(word as u32) & bits != 0)
    }

    /// Returns the used descriptors, lowest first.
    pub(crate) fn live(&self) -> impl Iterator<Item = ExtentId> {
        let mut word = 0;
        let mut bits = self.word(word);
        std::iter::from_fn(move || {
            while bits == 0 {
                word += 1;
                if word >= self.used.len() {
                    return None;
                }
                bits = self.word(word);
            }
            let index = word * 64 + bits.trailing_zeros();
            bits &= bits - 1;
            ExtentId::from_index(index)
        })
    }

    /// Asserts that the bits, the tree and the count of pages agree with the extents.
    pub(crate) fn check(&self, spare: &MaxTree) {
        spare.check();
        for word in 0..self.used.len() {
            let has_spare = self.word(word) != u64::MAX;
            assert_eq!(spare.get(word), u16::from(has_spare), "word {word} of descriptors");
        }
        let mut pages = Vec::new();
        for id in self.live() {
            assert!(self.get(id).is_some_and(|extent| extent.pages() > 0), "{id:?} has no pages");
            pages.extend(GrowingTable::<Extent<D>>::pages_of(id.index()).map(|page| page.elements));
        }
        pages.dedup();
        assert_eq!(pages.len() as u32, self.pages.load(Relaxed), "pages of descriptors");
        let live = (0..self.extents.len()).filter_map(|index| self.extents.get(index));
        let live = live.filter(|extent| extent.pages() > 0).count();
        assert_eq!(live, self.live().count(), "live descriptors");
    }
}
