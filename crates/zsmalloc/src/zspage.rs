//! The header of a zspage, which may move: the extent's descriptor, which stays where it is, has
//! the pointer to it (`HeaderPtr`).
//!
//! ```text
//!   header: |  0  by_fullness: links        |  zspages of the class that are about as full
//!           |  8  offering: links           |  those that offer retained pages
//!           | 16  inuse      20  busy       |  live objects; 1 while pages are on their way
//!           | 24  residency: 2 * 256 bits   |  which pages are committed, or retained
//!           | 88  taken: a bit per slot     |  in words of 64
//!           |     entries: u32 per slot     |  whose the object is
//! ```
//! A slot is *free* (bit clear), *live* (bit set, entry's number) or *withheld* (bit set,
//! `WITHHELD`): those slots are those on pages that are being given back, kept from the allocator
//! meanwhile. A page is untouched, committed or retained, and changes as a slab's does
//! (`page::Residency`).
//!
//! All of it changes under the class's lock only; see `page::Extent` for why the fields are
//! atomics.
//!
//! # Safety
//! Who is given a slot writes there, and pages are given back by what is withheld: so what takes a
//! slot or frees it is unsafe, and so is the end of what a thread does with a zspage's pages.
#![allow(unsafe_code)]

mod release;

use crate::class::Class;
use crate::sync::{AtomicU32, Ordering::Relaxed};
use page::{Links, PageSet, Residency, bits, page_size};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// Entry of a slot that is withheld for a release. No entry has this number.
const WITHHELD: u32 = u32::MAX;

/// The fixed part of a header.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct FixedHeader {
    /// In the list of the fullness group.
    pub(crate) by_fullness: Links,
    /// In the list of those that offer retained pages.
    pub(crate) offering: Links,
    inuse: AtomicU32,
    busy: AtomicU32,
    residency: Residency,
}

const _: () = assert!(size_of::<FixedHeader>() == 88 && align_of::<FixedHeader>() == 8);

impl FixedHeader {
    /// Live objects: taken slots, withheld ones left out.
    pub(crate) fn inuse(&self) -> u32 {
        self.inuse.load(Relaxed)
    }

    /// Whether a thread gives pages of this zspage back, or prefaults some, at the moment, outside
    /// the lock.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Relaxed) != 0
    }

    /// Returns the pages that are committed.
    #[inline]
    pub(crate) fn committed(&self) -> &PageSet {
        self.residency.committed()
    }

    /// Returns those of them that no live object touches.
    #[inline]
    pub(crate) fn retained(&self) -> &PageSet {
        self.residency.retained()
    }

    /// Returns whether retained pages may be given back: there are some, and no one is about it.
    /// Such a zspage is in the list for it.
    pub(crate) fn has_offer(&self) -> bool {
        !self.is_busy() && !self.residency.retained().is_empty()
    }
}

/// A header, borrowed under the class's lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header<'a> {
    class: &'a Class,
    /// Offset of the zspage in the pool's space.
    start: u64,
    fixed: &'a FixedHeader,
    taken: &'a [AtomicU64],
    entries: &'a [AtomicU32],
}

impl<'a> Header<'a> {
    /// Opens the header of the zspage that begins at offset `start`.
    ///
    /// # Safety
    /// It was made of zeros for the objects of `class`, whose lock is held, and stays for `'a`.
    pub(crate) unsafe fn new(class: &'a Class, start: u64, header: NonNull<u8>) -> Self {
        let objects = class.objects() as usize;
        let words = Self::words(objects);
        // SAFETY: it was made for this many slots, as the caller says, so fixed part, bits and
        // entries lie one behind the other in it (`bytes`); zeros are valid for all of them.
        unsafe {
            let taken = header.add(size_of::<FixedHeader>());
            let entries = taken.add(words * 8);
            Header {
                class,
                start,
                fixed: header.cast().as_ref(),
                taken: std::slice::from_raw_parts(taken.cast().as_ptr(), words),
                entries: std::slice::from_raw_parts(entries.cast().as_ptr(), objects),
            }
        }
    }

    /// Returns the fixed part.
    #[inline]
    pub(crate) fn fixed(&self) -> &'a FixedHeader {
        self.fixed
    }

    /// Words of the bitmap for `objects` slots.
    fn words(objects: usize) -> usize {
        objects.div_ceil(64)
    }

    /// Returns the bytes of a header for `objects` slots.
    pub(crate) fn bytes(objects: usize) -> usize {
        size_of::<FixedHeader>() + Self::words(objects) * 8 + objects * 4
    }

    /// Offset of a slot in the pool's space.
    pub(crate) fn offset(&self, slot: u32) -> u64 {
        self.start + u64::from(self.class.grid().bytes_of(slot).start)
    }

    /// Returns the lowest free slot.
    pub(crate) fn lowest_free(&self) -> Option<u32> {
        self.free_from(0)
    }

    /// Returns the lowest free slot from `start` on.
    fn free_from(&self, start: u32) -> Option<u32> {
        bits::first(self.taken, start, false).filter(|&slot| (slot as usize) < self.entries.len())
    }

    /// Returns the lowest free slot whose pages are all committed. Free slots without pages, and
    /// committed pages without free slots, are passed over many at a time: at the limit hundreds of
    /// zspages are looked at.
    pub(crate) fn lowest_committed(&self) -> Option<u32> {
        let (class, committed) = (self.class, self.fixed.committed());
        let room = committed.len() as usize * page_size();
        if room < (self.fixed.inuse() as usize + 1) * class.size() {
            return None;
        }
        let mut slot = self.lowest_free()?;
        while let Some(missing) = committed.first_missing(class.pages_for(slot)) {
            let next = committed.first_from(missing)?;
            slot = self.free_from(class.grid().first_slot_from(next).max(slot + 1))?;
        }
        Some(slot)
    }

    pub(crate) fn is_taken(&self, slot: u32) -> bool {
        self.taken[slot as usize / 64].load(Relaxed) >> (slot % 64) & 1 == 1
    }

    /// Returns the entry's number of a live slot.
    pub(crate) fn entry(&self, slot: u32) -> Option<u32> {
        let entry = self.entries[slot as usize].load(Relaxed);
        (self.is_taken(slot) && entry != WITHHELD).then_some(entry)
    }

    /// Returns how many pages are to be committed before `slot` is taken.
    pub(crate) fn missing(&self, slot: u32) -> u32 {
        self.fixed.residency.missing(self.class.pages_for(slot))
    }

    /// Takes a free slot for `entry`, with its pages. Returns the number of live objects then, and
    /// how many of the pages were retained.
    ///
    /// # Safety
    /// The class is locked, the slot is free, and what is [`missing`](Self::missing) was charged.
    pub(crate) unsafe fn take(&self, slot: u32, entry: u32) -> (u32, u32) {
        let reused = self.fixed.residency.enter(self.class.pages_for(slot));
        self.set(slot, entry);
        let inuse = self.fixed.inuse() + 1;
        self.fixed.inuse.store(inuse, Relaxed);
        (inuse, reused)
    }

    /// Takes a free slot for `entry`, which may be `WITHHELD`.
    fn set(&self, slot: u32, entry: u32) {
        debug_assert!(!self.is_taken(slot), "slot {slot} is taken twice");
        let word = &self.taken[slot as usize / 64];
        word.store(word.load(Relaxed) | 1 << (slot % 64), Relaxed);
        self.entries[slot as usize].store(entry, Relaxed);
    }

    /// Makes a slot free.
    fn clear(&self, slot: u32) {
        debug_assert!(self.is_taken(slot), "slot {slot} is freed twice");
        let word = &self.taken[slot as usize / 64];
        word.store(word.load(Relaxed) & !(1 << (slot % 64)), Relaxed);
    }

    /// Makes a live slot free. Returns the number of pages that are retained by that.
    ///
    /// # Safety
    /// The class is locked, and no entry names the slot, or will.
    pub(crate) unsafe fn free(&self, slot: u32) -> u32 {
        self.clear(slot);
        self.fixed.inuse.store(self.fixed.inuse() - 1, Relaxed);
        // Mostly a neighbour lives.
        let is_live = |page| self.has_live_neighbour(slot, page) || self.is_live(page);
        let emptied = self.class.pages_for(slot).filter(|&page| !is_live(page));
        emptied.filter(|&page| self.fixed.residency.leave(page)).count() as u32
    }

    /// Returns whether a slot beside `slot` lies on `page` too, and is live for sure.
    fn has_live_neighbour(&self, slot: u32, page: u32) -> bool {
        let (before, after) = self.class.neighbours(slot, page);
        let is_taken = |beside: Option<u32>| beside.is_some_and(|slot| self.is_taken(slot));
        !self.fixed.is_busy() && (is_taken(before) || is_taken(after))
    }

    /// Returns whether a live object needs `page`.
    pub(crate) fn is_live(&self, page: u32) -> bool {
        let mut slots = self.class.grid().slots_of(page..page + 1);
        match (self.fixed.inuse(), self.class.commits_whole) {
            (0, _) => false,
            (_, true) => true,
            // Slots are withheld only while pages are being given back; else the bits alone tell.
            _ if self.fixed.is_busy() => slots.any(|slot| self.entry(slot).is_some()),
            _ => bits::any(self.taken, slots),
        }
    }
}
