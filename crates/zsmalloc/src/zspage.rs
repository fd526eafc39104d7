//! A zspage: its extent's descriptor, which stays where it is, and its body, which may move.
//!
//! ```text
//!   extent: first page, pages, class | pointer to the body
//!   body:   |  0  next        4  previous   |  zspages of the fullness group, as raw extent ids; 0 = none
//!           |  8  next       12  previous   |  those of the class that offer ready pages, likewise
//!           | 16  inuse      20  busy       |  live objects; 1 while pages are being given back, or fetched
//!           | 24  committed: 256 bits       |  pages that are counted, for objects or to be ready
//!           | 56  ready: 256 bits           |  of them, those that no live object touches
//!           | 88  taken: a bit per slot     |  in words of 64
//!           |     owners: u32 per slot      |  whose the object is
//! ```
//! A slot is *free* (bit clear), *live* (bit set, owner's number) or *held* (bit set, `HELD`): held
//! slots are those on pages that are being given back, kept from the allocator meanwhile.
//!
//! All of it changes under the class's lock only; see `page::Extent` for why the fields are atomics.

use crate::sync::{AtomicPtr, AtomicU32, Ordering, Ordering::Relaxed};
use page::{PageSet, bits};
use std::ops::Range;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::AtomicU64;

/// Owner of a slot that is held for a release. No owner's word has this number.
pub(crate) const HELD: u32 = u32::MAX;

/// Bits of a body's address, as of a node's of the table of words; above them is the class.
const ADDRESS_BITS: u32 = 48;
const ADDRESS: usize = (1 << ADDRESS_BITS) - 1;

/// What an extent's descriptor keeps: where the body is, and the zspage's class, in one word. An extent's number is
/// used again: read one after the other, body and class could be of two lives of it. Null where there is no zspage, or one
/// that is being made or destroyed. It changes under the class's lock only.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Zspage(AtomicPtr<u8>);

impl Zspage {
    /// Makes it a zspage of `class`, or gives it another body.
    pub(crate) fn attach(&self, class: u32, body: NonNull<u8>) {
        let raw = body.as_ptr();
        assert!(raw.addr() <= ADDRESS && class >> (usize::BITS - ADDRESS_BITS) == 0, "{raw:?}");
        let raw = raw.map_addr(|address| address | (class as usize) << ADDRESS_BITS);
        self.0.store(raw, Ordering::Release);
    }

    /// Makes it none.
    pub(crate) fn detach(&self) {
        self.0.store(null_mut(), Relaxed);
    }

    /// The body, if it is a zspage of `class`. Who has that class's lock finds it so as long as he has it.
    #[inline]
    pub(crate) fn body(&self, class: u32) -> Option<NonNull<u8>> {
        let raw = self.0.load(Ordering::Acquire);
        let body = NonNull::new(raw.map_addr(|address| address & ADDRESS));
        body.filter(|_| (raw.addr() >> ADDRESS_BITS) as u32 == class)
    }

    /// Whether it is a zspage, of whichever class.
    pub(crate) fn is_attached(&self) -> bool {
        !self.0.load(Ordering::Acquire).is_null()
    }
}

/// The zspages before and after one in a list, as raw extent ids; 0 is none.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Links {
    pub(crate) next: AtomicU32,
    pub(crate) previous: AtomicU32,
}

/// The fixed part of a body.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Head {
    /// In the list of the fullness group.
    pub(crate) group: Links,
    /// In the list of those that offer ready pages.
    pub(crate) offers: Links,
    inuse: AtomicU32,
    busy: AtomicU32,
    pub(crate) committed: PageSet,
    pub(crate) ready: PageSet,
}

const _: () = assert!(size_of::<Head>() == 88 && align_of::<Head>() == 8);

impl Head {
    /// Live objects: allocated slots, those held for a release left out.
    pub(crate) fn inuse(&self) -> u32 {
        self.inuse.load(Relaxed)
    }

    pub(crate) fn set_inuse(&self, inuse: u32) {
        self.inuse.store(inuse, Relaxed);
    }

    /// Whether a thread gives pages of this zspage back, or fetches some, at the moment, outside the lock.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Relaxed) != 0
    }

    pub(crate) fn set_busy(&self, busy: bool) {
        self.busy.store(u32::from(busy), Relaxed);
    }

    /// Whether ready pages may be given back: there are some, and no one is about it. Such a zspage is in the list for it.
    pub(crate) fn has_offer(&self) -> bool {
        !self.is_busy() && !self.ready.is_empty()
    }

    /// Takes the zspage out of all lists and counts, but for the pages it has.
    pub(crate) fn reset(&self) {
        for links in [&self.group, &self.offers] {
            links.next.store(0, Relaxed);
            links.previous.store(0, Relaxed);
        }
        self.inuse.store(0, Relaxed);
        self.busy.store(0, Relaxed);
        self.ready.clear();
    }
}

/// A body, borrowed under the class's lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body<'a> {
    /// Offset of the zspage in the pool's space.
    pub(crate) start: u64,
    pub(crate) head: &'a Head,
    pub(crate) taken: &'a [AtomicU64],
    pub(crate) owners: &'a [AtomicU32],
}

impl Body<'_> {
    /// Words of the bitmap for `objects` slots.
    pub(crate) fn words(objects: usize) -> usize {
        objects.div_ceil(64)
    }

    /// Bytes of a body for `objects` slots.
    pub(crate) fn bytes(objects: usize) -> usize {
        size_of::<Head>() + Self::words(objects) * 8 + objects * 4
    }

    /// The lowest free slot.
    pub(crate) fn lowest_free(&self) -> Option<u32> {
        self.free_from(0)
    }

    /// The lowest free slot from `start` on.
    pub(crate) fn free_from(&self, start: u32) -> Option<u32> {
        bits::first(self.taken, start, false).filter(|&slot| (slot as usize) < self.owners.len())
    }

    pub(crate) fn is_taken(&self, slot: u32) -> bool {
        self.taken[slot as usize / 64].load(Relaxed) >> (slot % 64) & 1 == 1
    }

    /// The owner's number of a live slot.
    pub(crate) fn owner(&self, slot: u32) -> Option<u32> {
        let owner = self.owners[slot as usize].load(Relaxed);
        (self.is_taken(slot) && owner != HELD).then_some(owner)
    }

    /// Takes a free slot for `owner`, which may be `HELD`.
    pub(crate) fn take(&self, slot: u32, owner: u32) {
        debug_assert!(!self.is_taken(slot), "slot {slot} is taken twice");
        let word = &self.taken[slot as usize / 64];
        word.store(word.load(Relaxed) | 1 << (slot % 64), Relaxed);
        self.owners[slot as usize].store(owner, Relaxed);
    }

    /// Makes a slot free.
    pub(crate) fn give(&self, slot: u32) {
        debug_assert!(self.is_taken(slot), "slot {slot} is freed twice");
        let word = &self.taken[slot as usize / 64];
        word.store(word.load(Relaxed) & !(1 << (slot % 64)), Relaxed);
    }

    /// Whether one of `slots` is live.
    pub(crate) fn any_live(&self, mut slots: Range<u32>) -> bool {
        // Slots are held only while pages are being given back; else the bits alone tell.
        match self.head.is_busy() {
            true => slots.any(|slot| self.owner(slot).is_some()),
            false => bits::any(self.taken, slots),
        }
    }

    /// Holds those of `slots` that are free.
    pub(crate) fn hold(&self, slots: Range<u32>) {
        for slot in slots.filter(|&slot| !self.is_taken(slot)) {
            self.take(slot, HELD);
        }
    }

    /// Makes those of `slots` free that are held.
    pub(crate) fn unhold(&self, slots: Range<u32>) {
        for slot in slots {
            if self.is_taken(slot) && self.owner(slot).is_none() {
                self.give(slot);
            }
        }
    }

    /// Number of live slots, after a look at the bits beyond the last.
    pub(crate) fn check(&self) -> u32 {
        for slot in self.owners.len()..self.taken.len() * 64 {
            assert!(!self.is_taken(slot as u32), "slot {slot} is beyond the last");
        }
        (0..self.owners.len() as u32).filter(|&slot| self.owner(slot).is_some()).count() as u32
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_found_by_its_class_alone() {
        let zspage = Zspage(AtomicPtr::default());
        let [body, other] = [0x7fff_ffff_fff8, 8]
            .map(|address| NonNull::new(std::ptr::without_provenance_mut(address)).unwrap());
        assert!(!zspage.is_attached() && zspage.body(0).is_none());
        for class in [0, 1, 700, 0xffff] {
            zspage.attach(class, body);
            assert_eq!((zspage.body(class), zspage.body(class ^ 1)), (Some(body), None));
            zspage.attach(class, other);
            assert_eq!(zspage.body(class), Some(other));
            zspage.detach();
            assert!(!zspage.is_attached() && zspage.body(class).is_none());
        }
    }
}
