//! The descriptors of a space's extents, given out lowest number first.
//!
//! ```text
//!   extents: | 0 | 1 | 2 | ...           12 bytes and the owner's each
//!   used:    | bit per descriptor |      set while it is an extent's
//!   spare:   a number for each word of `used`, 1 where it has a clear bit; the lowest is found in a few steps
//! ```
//! A page of the table in which no descriptor is used is given back; so what is left after most
//! extents went is few pages of low numbers.
//!
//! What changes is changed under the space's lock; looking up takes none.
//!
//! # Safety
//! A page of the table goes only while no descriptor in it is used: then no one expects its bytes,
//! and zeros are as good.
#![allow(unsafe_code)]

use crate::max_tree::MaxTree;
use crate::supply::Supply;
use crate::sync::{AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::table::GrowingTable;
use crate::zeroed::Zeroed;
use crate::{Error, Extent, ExtentId, bits, page_size};
use std::ops::Range;

pub(crate) struct ExtentTable<D> {
    extents: GrowingTable<Extent<D>>,
    used: GrowingTable<AtomicU64>,
    /// Pages of `extents` with a descriptor that is used.
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

    /// Bytes of memory that the descriptors take.
    pub(crate) fn bytes(&self) -> usize {
        self.pages.load(Relaxed) as usize * page_size() + self.used.bytes()
    }

    /// The lowest descriptor that is not used, made if need be.
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

    /// Takes the spare descriptor `id` into use.
    pub(crate) fn claim(&self, spare: &mut MaxTree, id: ExtentId) {
        let pages = GrowingTable::<Extent<D>>::pages_of(id.index());
        let fresh = pages.filter(|page| !self.any_used(page.elements.clone())).count();
        self.pages.fetch_add(fresh as u32, Relaxed);
        self.set_used(id, true);
        let word = id.index() / 64;
        spare.set(word, u16::from(self.word(word) != u64::MAX));
    }

    /// Makes `id` a spare descriptor again, and gives back the pages in which none is used any
    /// more.
    pub(crate) fn release(&self, spare: &mut MaxTree, id: ExtentId) {
        self.set_used(id, false);
        spare.set(id.index() / 64, 1);
        for page in GrowingTable::<Extent<D>>::pages_of(id.index()) {
            if !self.any_used(page.elements.clone()) {
                // SAFETY: no descriptor in the page is used, and the lock that is held keeps it so.
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

    /// The descriptors that are used, lowest first.
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

    /// Asserts that the bits, what is noted of them, and the count of pages agree with the extents.
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
