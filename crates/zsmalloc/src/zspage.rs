//! The header of a zspage. The header can be moved. The extent's descriptor, which never moves,
//! holds the pointer to the header (`HeaderPtr`).
//!
//! ```text
//!   header: |  0  by_fullness: links        |  zspages of the class that are about as full
//!           |  8  offering: links           |  those that offer retained pages
//!           | 16  inuse      20  busy       |  live objects; 1 during a release or prefault
//!           | 24  residency: 2 * 256 bits   |  which pages are committed, or retained
//!           | 88  taken: a bit per slot     |  in words of 64
//!           |     entries: u32 per slot     |  the entry of each object
//! ```
//! A slot is *free* (bit clear), *live* (bit set, entry's number) or *withheld* (bit set,
//! `WITHHELD`). Withheld slots lie on pages that are being released, and are not allocated during
//! the release. A page is untouched, committed or retained (`page::Residency`).
//!
//! The header changes only under the class's lock. `page::Extent` explains why the fields are
//! atomics.
//!
//! # Safety
//! The owner of a slot writes to the slot, and a page is released only while the slots on it are
//! withheld. So functions that take or free a slot, or end a release or prefault, are unsafe.
#![allow(unsafe_code)]

pub(crate) mod release;

use crate::class::Class;
use crate::sync::{AtomicU32, Ordering::Relaxed};
use page::{Links, PageSet, Residency, bits, page_size};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// The entry number of a withheld slot. No entry has this number.
const WITHHELD: u32 = u32::MAX;

#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct FixedHeader {
    /// The links in the list of the fullness group.
    pub(crate) by_fullness: Links,
    /// The links in the list of zspages that offer retained pages.
    pub(crate) offering: Links,
    inuse: AtomicU32,
    busy: AtomicU32,
    residency: Residency,
}

const _: () = assert!(size_of::<FixedHeader>() == 88 && align_of::<FixedHeader>() == 8);

impl FixedHeader {
    /// Returns the number of live objects, which is the number of taken slots that are not
    /// withheld.
    pub(crate) fn inuse(&self) -> u32 {
        self.inuse.load(Relaxed)
    }

    /// Returns whether a thread is releasing or prefaulting pages of this zspage, without the
    /// class's lock.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Relaxed) != 0
    }

    #[inline]
    pub(crate) fn committed(&self) -> &PageSet {
        self.residency.committed()
    }

    /// Returns the committed pages that no live object touches.
    #[inline]
    pub(crate) fn retained(&self) -> &PageSet {
        self.residency.retained()
    }

    /// Returns whether the zspage has retained pages and is not busy. A zspage with this property
    /// is in the list of zspages that offer retained pages.
    pub(crate) fn has_offer(&self) -> bool {
        !self.is_busy() && !self.residency.retained().is_empty()
    }
}

/// A header, borrowed under the class's lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header<'a> {
    class: &'a Class,
    /// The offset of the zspage in the pool's space.
    start: u64,
    fixed: &'a FixedHeader,
    taken: &'a [AtomicU64],
    entries: &'a [AtomicU32],
}

impl<'a> Header<'a> {
    /// Returns the header of the zspage that begins at offset `start`.
    ///
    /// # Safety
    /// The header was created from zeros for the objects of `class`, whose lock is held, and is not
    /// freed during `'a`.
    pub(crate) unsafe fn new(class: &'a Class, start: u64, header: NonNull<u8>) -> Self {
        let objects = class.objects() as usize;
        let words = Self::words(objects);
        // SAFETY: the caller guarantees that the header was created for this number of slots. So
        // the header consists of the fixed part, the bits and the entries (`bytes`). Zeros are
        // valid for the fixed part, the bits and the entries.
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

    #[inline]
    pub(crate) fn fixed(&self) -> &'a FixedHeader {
        self.fixed
    }

    fn words(objects: usize) -> usize {
        objects.div_ceil(64)
    }

    pub(crate) fn bytes(objects: usize) -> usize {
        size_of::<FixedHeader>() + Self::words(objects) * 8 + objects * 4
    }

    pub(crate) fn offset(&self, slot: u32) -> u64 {
        self.start + u64::from(self.class.grid().bytes_of(slot).start)
    }

    pub(crate) fn lowest_free(&self) -> Option<u32> {
        self.free_from(0)
    }

    /// Returns the lowest free slot at or above `start`.
    fn free_from(&self, start: u32) -> Option<u32> {
        bits::first(self.taken, start, false).filter(|&slot| (slot as usize) < self.entries.len())
    }

    /// Returns the lowest free slot whose pages are all committed. Skips ranges of free slots
    /// without committed pages, and ranges of pages without free slots, because a pool at its limit
    /// searches hundreds of zspages.
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

    /// Returns the entry number of a live slot.
    pub(crate) fn entry(&self, slot: u32) -> Option<u32> {
        let entry = self.entries[slot as usize].load(Relaxed);
        (self.is_taken(slot) && entry != WITHHELD).then_some(entry)
    }

    /// Returns the number of pages that must be committed before `slot` is taken.
    pub(crate) fn missing(&self, slot: u32) -> u32 {
        self.fixed.residency.missing(self.class.pages_for(slot))
    }

    /// Takes a free slot for `entry`, and marks its pages as used. Returns the new number of live
    /// objects, and the number of the pages that were retained.
    ///
    /// # Safety
    /// The class is locked, the slot is free, and the pages that are [`missing`](Self::missing)
    /// were charged.
    pub(crate) unsafe fn take(&self, slot: u32, entry: u32) -> (u32, u32) {
        let reused = self.fixed.residency.enter(self.class.pages_for(slot));
        self.set(slot, entry);
        let inuse = self.fixed.inuse() + 1;
        self.fixed.inuse.store(inuse, Relaxed);
        (inuse, reused)
    }

    /// Takes a free slot for `entry`, which is allowed to be `WITHHELD`.
    fn set(&self, slot: u32, entry: u32) {
        debug_assert!(!self.is_taken(slot), "slot {slot} is taken twice");
        let word = &self.taken[slot as usize / 64];
        word.store(word.load(Relaxed) | 1 << (slot % 64), Relaxed);
        self.entries[slot as usize].store(entry, Relaxed);
    }

    fn clear(&self, slot: u32) {
        debug_assert!(self.is_taken(slot), "slot {slot} is freed twice");
        let word = &self.taken[slot as usize / 64];
        word.store(word.load(Relaxed) & !(1 << (slot % 64)), Relaxed);
    }

    /// Frees a live slot. Returns the number of pages that become retained.
    ///
    /// # Safety
    /// The class is locked, and no entry refers to the slot's object now or later.
    pub(crate) unsafe fn free(&self, slot: u32) -> u32 {
        self.clear(slot);
        self.fixed.inuse.store(self.fixed.inuse() - 1, Relaxed);
        // Usually a neighbouring slot is live, so the neighbouring slots are checked first.
        let is_live = |page| self.has_live_neighbour(slot, page) || self.is_live(page);
        let emptied = self.class.pages_for(slot).filter(|&page| !is_live(page));
        emptied.filter(|&page| self.fixed.residency.leave(page)).count() as u32
    }

    /// Returns whether a slot next to `slot` also lies on `page` and is certainly live.
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
            // Slots are withheld only while pages are being released. At other times, a set bit
            // means a live slot.
            _ if self.fixed.is_busy() => slots.any(|slot| self.entry(slot).is_some()),
            _ => bits::any(self.taken, slots),
        }
    }

    /// Asserts that the state of slots and pages is consistent.
    pub(crate) fn check(&self) {
        let slots = self.entries.len() as u32;
        let beyond = (slots..self.taken.len() as u32 * 64).find(|&slot| self.is_taken(slot));
        assert_eq!(beyond, None, "a slot beyond the last of {}", self.start);
        let live = (0..slots).filter(|&slot| self.entry(slot).is_some()).count();
        assert_eq!(live, self.fixed.inuse() as usize, "live slots of {}", self.start);
        // I5: a committed page has a live object or is retained.
        self.fixed.residency.check(|page| page < self.class.pages() && self.is_live(page));
        let mut free = (0..slots).filter(|&slot| !self.is_taken(slot));
        let lowest = free.find(|&slot| self.missing(slot) == 0);
        assert_eq!(self.lowest_committed(), lowest, "free slots of {} with pages", self.start);
    }
}
