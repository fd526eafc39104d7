//! Thread slabs: the slabs that a thread owns. The thread allocates and frees their objects without
//! a lock or an atomic operation.
//!
//! ```text
//!   thread 3 --> | word: live, remote, base | divider | kept, limit |  used by allocation
//!                | slabs: the newest <--> ... <--> the oldest | current |   by descriptors
//!                | hints: first, live | first, live | ...      |  slabs by an address's granule
//! ```
//! The word is one word of the current slab's bits, for 64 objects from `base` on. The lowest free
//! object is allocated first. Slabs of a layout with an index have no hints and no word.
//!
//! # Safety
//! - sl-M1: only the thread itself records and uses its slabs. A [`Number`] can't leave its thread,
//!   and a number passes to another thread only under a lock. Other threads are allowed to read
//!   `kept`. Other threads are also allowed to set `limit` to 0, which requests that the thread
//!   gives up all free objects.
//! - sl-M2: the word and the hints refer only to slabs that the thread owns. A slab is recorded
//!   after the thread becomes its owner, and its record is removed before the thread gives up the
//!   slab. So the words of the bits remain valid, and the thread is allowed to change the live bits
//!   (sl-K3).
#![allow(unsafe_code)]

use crate::bits::{self, Bits, Word};
use crate::divider::Divider;
use crate::lists::links;
use crate::options::Tunables;
use crate::policy::{HINT_SHIFT, HINTS, PAGE_SHIFT_MAX, PAGES_MAX};
use crate::shape::Shape;
use crate::slab::Slab;
use crate::sync::{Acquire, AtomicPtr, AtomicU32, Relaxed, Release};
use crate::thread::{NUMBERS, Number};
use page::{ExtentId, ListHead, Space};
use std::cell::Cell;
use std::ptr::{NonNull, null_mut};

#[inline]
fn hint_index(address: usize) -> usize {
    (address >> HINT_SHIFT) % HINTS
}

/// The address of a slab, and its live bits.
#[derive(Clone, Copy, Debug)]
struct Hint {
    first: usize,
    live: *const Word,
}

impl Hint {
    /// Returns a hint for the table's index `place` that matches no slab. The hint's `first` is
    /// half a table away from all addresses that use the index `place`. Every slab is shorter than
    /// half a table.
    fn none(place: usize) -> Cell<Self> {
        let first = ((place + HINTS / 2) % HINTS) << HINT_SHIFT;
        Cell::new(Hint { first, live: std::ptr::null() })
    }
}

/// A group of 64 objects: their bits, and the address of the first object.
#[derive(Clone, Copy, Debug)]
struct Current {
    live: NonNull<Word>,
    remote: NonNull<Word>,
    base: NonNull<u8>,
}

/// The result of an attempt to free an object through a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FastFree {
    Done,
    /// The object was freed, and the thread now keeps more free objects than the limit allows.
    OverLimit,
    /// No hint covers the object, or the object is not live.
    Miss,
}

#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct ThreadSlabs {
    word: Cell<Option<Current>>,
    divider: Divider,
    /// The number of words of live bits in a slab, which equals the number of words of remote bits.
    words: usize,
    /// The number of free objects in the thread's slabs.
    kept: AtomicU32,
    /// The maximum of `kept`; 0 requests that the thread gives up all free objects.
    limit: AtomicU32,
    /// The thread's slabs, the newest first.
    slabs: Cell<ListHead>,
    oldest: Cell<Option<ExtentId>>,
    /// The slab from which objects are allocated.
    pub(crate) current: Cell<Option<ExtentId>>,
    number: u32,
    hints: [Cell<Hint>; HINTS],
}

// The fields that every call needs fit in one cache line.
const _: () = assert!(std::mem::offset_of!(ThreadSlabs, slabs) == 64);
// The longest slab, in granules, is shorter than half the table (see `Hint::none`).
const _: () = assert!(PAGES_MAX << (PAGE_SHIFT_MAX - HINT_SHIFT) < HINTS / 2);

impl ThreadSlabs {
    fn new(number: u32, limit: u32, shape: &Shape) -> Self {
        ThreadSlabs {
            word: Cell::new(None),
            divider: Divider::new(shape),
            words: shape.bits_words,
            kept: AtomicU32::new(0),
            limit: AtomicU32::new(limit),
            slabs: Cell::default(),
            oldest: Cell::new(None),
            current: Cell::new(None),
            number,
            hints: std::array::from_fn(Hint::none),
        }
    }

    /// Returns the thread's slabs, the newest first.
    pub(crate) fn slabs(&self) -> ListHead {
        self.slabs.get()
    }

    /// Returns the slab that the thread has owned for the longest time.
    pub(crate) fn oldest(&self) -> Option<ExtentId> {
        self.oldest.get()
    }

    /// Inserts a slab at the front of the list.
    pub(crate) fn push(&self, space: &Space<Slab>, id: ExtentId) {
        let mut slabs = self.slabs.get();
        if slabs.is_empty() {
            self.oldest.set(Some(id));
        }
        slabs.push_front(id, links(space));
        self.slabs.set(slabs);
    }

    /// Removes a slab from the list.
    pub(crate) fn remove(&self, space: &Space<Slab>, id: ExtentId) {
        let mut slabs = self.slabs.get();
        slabs.remove(id, links(space));
        self.slabs.set(slabs);
        if self.oldest.get() == Some(id) {
            self.oldest.set(space.extent(id).data.links.previous());
        }
    }

    /// Returns the thread's number.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Allocates a free object of the current word.
    #[inline]
    pub(crate) fn alloc(&self) -> Option<NonNull<u8>> {
        let Current { live, remote, base } = self.word.get()?;
        // SAFETY: the word belongs to a slab that this thread owns (sl-M2).
        let index = unsafe { bits::alloc(live.as_ref(), remote.as_ref()) }?;
        self.set_kept(self.kept().wrapping_sub(1));
        // SAFETY: bits beyond the last object are always set, so the number is that of an object,
        // which lies in the slab.
        Some(unsafe { base.add(index.wrapping_mul(self.divider.stride)) })
    }

    /// Frees an object of a slab that a hint refers to.
    ///
    /// # Safety
    /// If the object is live, no thread uses it.
    #[inline]
    pub(crate) unsafe fn free(&self, object: NonNull<u8>) -> FastFree {
        let address = object.addr().get();
        let Hint { first, live } = self.hints[hint_index(address)].get();
        let Some(index) = self.divider.index(address.wrapping_sub(first)) else {
            return FastFree::Miss;
        };
        // SAFETY: the slab at `first` contains an object with this number, and the thread owns the
        // slab (sl-M2). The words of live bits are followed by the same number of words of remote
        // bits.
        let freed = unsafe {
            let live = live.add(index / 64);
            bits::free(&*live, &*live.add(self.words), index)
        };
        if !freed {
            return FastFree::Miss;
        }
        let kept = self.kept().wrapping_add(1);
        self.set_kept(kept);
        if kept > self.limit.load(Relaxed) { FastFree::OverLimit } else { FastFree::Done }
    }

    /// Returns the index of the current word in `bits`, the bits of the current slab. Returns 0 if
    /// no word was selected yet.
    pub(crate) fn word_of(&self, bits: &Bits<'_>) -> usize {
        let is_it =
            |word: &Word| self.word.get().is_some_and(|own| std::ptr::eq(word, own.live.as_ptr()));
        bits.live.iter().position(is_it).unwrap_or(0)
    }

    /// Sets the current word, from which later calls allocate objects.
    ///
    /// # Safety
    /// The bits belong to a slab that the thread owns. The slab's first object lies at `first`. The
    /// thread calls [`forget`] before it gives up the slab.
    ///
    /// [`forget`]: Self::forget
    pub(crate) unsafe fn set_word(&self, bits: &Bits<'_>, first: NonNull<u8>, word: usize) {
        let [live, remote] = [&bits.live[word], &bits.remote[word]].map(NonNull::from);
        // SAFETY: every word has a bit for at least one object, and that object lies in the slab.
        let base = unsafe { first.add(word * 64 * self.divider.stride) };
        self.word.set(Some(Current { live, remote, base }));
    }

    /// Returns the indices of the hints for the granules of the slab with the first object `first`.
    fn hint_indices(&self, first: usize) -> impl Iterator<Item = usize> {
        (first >> HINT_SHIFT..=(first + self.divider.span - 1) >> HINT_SHIFT).map(|nth| nth % HINTS)
    }

    /// Records a slab of the thread, whose first object lies at `first`.
    ///
    /// # Safety
    /// The same requirements as for [`set_word`](Self::set_word).
    pub(crate) unsafe fn set_hint(&self, first: usize, live: &[Word]) {
        self.hint_indices(first)
            .for_each(|place| self.hints[place].set(Hint { first, live: live.as_ptr() }));
    }

    /// Removes the hints and the current word of slab `id`, whose first object lies at `first`.
    pub(crate) fn forget(&self, id: ExtentId, first: usize) {
        if self.current.get() == Some(id) {
            self.current.set(None);
            self.word.set(None);
        }
        let places =
            self.hint_indices(first).filter(|&place| self.hints[place].get().first == first);
        places.for_each(|place| self.hints[place].swap(&Hint::none(place)));
    }

    /// Asserts that the hints and the word refer to the thread's slabs (sl-M2). `slabs` are the
    /// thread's slabs, and `current` is the current one, if there is one.
    pub(crate) fn check(
        &self,
        slabs: &[(usize, *const Word)],
        current: Option<(&Bits<'_>, usize)>,
    ) {
        for (place, near) in self.hints.iter().enumerate() {
            let Hint { first, live } = near.get();
            let is_none = first == Hint::none(place).get().first;
            assert!(is_none || slabs.contains(&(first, live)), "sl-M2: {first:#x} is not its own");
        }
        if let Some(Current { live, remote, base }) = self.word.get() {
            let Some((bits, first)) = current else { panic!("sl-M2: a word without a slab") };
            let word = self.word_of(bits);
            let words = [&bits.live[word], &bits.remote[word]].map(NonNull::from);
            assert_eq!([live, remote], words, "sl-M2: the word is the current slab's");
            assert_eq!(base.addr().get(), first + word * 64 * self.divider.stride);
        }
    }

    #[inline]
    pub(crate) fn kept(&self) -> u32 {
        self.kept.load(Relaxed)
    }

    #[inline]
    pub(crate) fn set_kept(&self, kept: u32) {
        self.kept.store(kept, Relaxed);
    }

    /// Returns true if the thread keeps more free objects than the limit allows.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.kept() > self.limit.load(Relaxed)
    }

    /// Returns true if another thread has requested that this thread gives up all free objects.
    pub(crate) fn is_asked(&self) -> bool {
        self.limit.load(Relaxed) == 0
    }

    pub(crate) fn set_limit(&self, limit: u32) {
        self.limit.store(limit, Relaxed);
    }
}

/// The slabs of all threads in one cache.
#[derive(Debug)]
pub(crate) struct AllThreadSlabs {
    tunables: Tunables,
    /// The records, by the thread's number; null before a thread's first object.
    slots: [AtomicPtr<ThreadSlabs>; NUMBERS],
}

// SAFETY: only the thread itself accesses the record of the slabs that it owns (sl-M1).
unsafe impl Send for AllThreadSlabs {}
// SAFETY: only the thread itself accesses the record of the slabs that it owns (sl-M1).
unsafe impl Sync for AllThreadSlabs {}

impl AllThreadSlabs {
    pub(crate) fn new(tunables: Tunables) -> Self {
        AllThreadSlabs { tunables, slots: [const { AtomicPtr::new(null_mut()) }; NUMBERS] }
    }

    pub(crate) fn tunables(&self) -> Tunables {
        self.tunables
    }

    /// Returns the thread's slabs, if [`make`](Self::make) has created them.
    #[inline]
    pub(crate) fn of(&self, number: Number) -> Option<&ThreadSlabs> {
        let slot = &self.slots[usize::from(number.index())];
        // SAFETY: the pointer is null, or points to a leaked record, which exists until
        // `end_others`.
        unsafe { slot.load(Relaxed).as_ref() }
    }

    /// Returns the thread's slabs, and creates the record if necessary. Returns `None` if the
    /// thread is not allowed to own slabs, or if no memory is available.
    pub(crate) fn make(&self, number: Number, shape: &Shape) -> Option<&ThreadSlabs> {
        if let Some(made) = self.of(number) {
            return Some(made);
        }
        if number.raw() == 0 || self.tunables.limit == 0 {
            return None;
        }
        let slot = &self.slots[usize::from(number.index())];
        let mut memory = Vec::new();
        memory.try_reserve_exact(1).ok()?;
        memory.push(ThreadSlabs::new(number.raw(), self.tunables.limit, shape));
        let thread_slabs: *mut [ThreadSlabs] = Box::into_raw(memory.into_boxed_slice());
        slot.store(thread_slabs.cast(), Release);
        self.of(number)
    }

    /// Returns the slabs of all threads.
    ///
    /// # Safety
    /// No other thread uses the cache, or the caller accesses only `kept` and `limit`.
    pub(crate) unsafe fn all(&self) -> impl Iterator<Item = &ThreadSlabs> {
        // SAFETY: as in `of`; `make` initialised each record before it stored the pointer with
        // release.
        self.slots.iter().filter_map(|slot| unsafe { slot.load(Acquire).as_ref() })
    }

    /// Returns the number of free objects in slabs that threads own.
    pub(crate) fn kept(&self) -> usize {
        // SAFETY: only `kept` is read.
        unsafe { self.all() }.map(|thread_slabs| thread_slabs.kept() as usize).sum()
    }

    /// Requests that all threads give up all their free objects.
    pub(crate) fn ask(&self) {
        // SAFETY: only `limit` is changed.
        unsafe { self.all() }.for_each(|thread_slabs| thread_slabs.set_limit(0));
    }

    /// Returns the size of the records in bytes, without the slabs themselves.
    pub(crate) fn bytes(&self) -> usize {
        // SAFETY: the records are only counted.
        size_of_val(&self.slots) + unsafe { self.all() }.count() * size_of::<ThreadSlabs>()
    }

    /// Drops the records of all threads except the thread `number`.
    ///
    /// # Safety
    /// The process has no other threads, or none of them uses the cache.
    pub(crate) unsafe fn end_others(&self, number: Number) {
        for (place, slot) in self.slots.iter().enumerate() {
            if place != usize::from(number.index())
                && let Some(thread_slabs) = NonNull::new(slot.swap(null_mut(), Relaxed))
            {
                // SAFETY: `make` leaked the record, as a slice of one element, and only its thread
                // used the record (sl-M1).
                drop(unsafe {
                    Box::from_raw(std::ptr::slice_from_raw_parts_mut(thread_slabs.as_ptr(), 1))
                });
            }
        }
    }
}

impl Drop for AllThreadSlabs {
    fn drop(&mut self) {
        // SAFETY: `&mut self` excludes all other users. No thread has `Number::NONE`, so all
        // records are dropped.
        unsafe { self.end_others(Number::NONE) }
    }
}
