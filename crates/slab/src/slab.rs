//! A slab's management: the `data` of its extent's descriptor, and the index it points to.
//!
//! ```text
//!   |  0  next           4  prev                    |  slabs of its list, as raw extent ids; what waits to be
//!                                                      reclaimed is linked here too
//!   |  8  active        12  free                    |  objects out of the slab; where the next free one is
//!   | 16  live: address of a bit per object         |  set while a user has it, or it is reserved (the block)
//!   | 24  first object: address                     |
//!   | 32  index: address (block, or slab)           |
//!   | 40  list                                      |
//! ```
//! `linked-bufctl` keeps the first four in a header before its index instead. The bits change at any time, one by one;
//! everything else under the cache's lock.
//!
//! # Safety
//! - D1: `live`, `first` and `index` are set by `reset`, before the slab is in a list, to memory that stays until it is
//!   destroyed, of the bytes its shape says; `index` is used under the cache's lock only.
//! - D2: a descriptor is good as zeros: integers and null pointers.
#![allow(unsafe_code)]

use crate::layout::{HEADER, Layout, Shape};
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Relaxed};
use page::ExtentId;
use std::ptr::NonNull;

/// What changes as objects come and go.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Management {
    next: AtomicU32,
    prev: AtomicU32,
    active: AtomicU32,
    /// The head of the linked list; of `native` a word of the bits below which none is free.
    free: AtomicU32,
}

/// A slab's descriptor.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Slab {
    own: Management,
    live: AtomicPtr<AtomicU64>,
    first: AtomicPtr<u8>,
    index: AtomicPtr<u8>,
    pub(crate) list: AtomicU32,
}

// As drawn above, and a line of memory with what is the extent's.
const _: () = assert!(size_of::<Slab>() == 48 && size_of::<page::Extent<Slab>>() == 64);
const _: () = assert!(size_of::<Management>() <= HEADER);

// SAFETY: D2.
unsafe impl page::Zeroed for Slab {}

/// The end of a linked list of indexes.
const END: u32 = u32::MAX;

impl Slab {
    /// Address of the first object, null where there is no slab.
    #[inline]
    pub(crate) fn first(&self) -> *mut u8 {
        self.first.load(Relaxed)
    }

    /// The word with an object's live bit.
    #[inline]
    pub(crate) fn live(&self, index: usize) -> *const AtomicU64 {
        self.live.load(Relaxed).wrapping_add(index / 64)
    }

    /// The block that lies off the slab.
    pub(crate) fn block(&self) -> Option<NonNull<u8>> {
        NonNull::new(self.live.load(Relaxed).cast())
    }

    /// Ends being a slab: its objects are no one's from now on.
    pub(crate) fn clear(&self) {
        self.first.store(std::ptr::null_mut(), Relaxed);
        self.live.store(std::ptr::null_mut(), Relaxed);
    }
}

/// A slab that is held still by its cache's lock, or is known to no one else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held<'s> {
    pub(crate) slab: &'s Slab,
    shape: &'s Shape,
}

impl<'s> Held<'s> {
    /// # Safety
    /// The slab is of that shape (or is about to be: `reset` comes first), and its cache's lock is held as long as
    /// this lives, or no one else knows of the slab.
    pub(crate) unsafe fn new(slab: &'s Slab, shape: &'s Shape) -> Self {
        Held { slab, shape }
    }

    /// Makes it a slab without any object in use.
    ///
    /// # Safety
    /// `start` and `block` are memory of a slab and of a block of the shape, for no one else, until it is destroyed;
    /// `first` is where the first object goes, counted from `start`.
    pub(crate) unsafe fn reset(self, start: NonNull<u8>, block: NonNull<u8>, first: usize) {
        let Shape { objects, index_at, on_slab, .. } = *self.shape;
        let index_in = if on_slab { start } else { block };
        // SAFETY: the bits lie at the start of the block, the index where the shape has it, the first object in the slab.
        unsafe {
            block.write_bytes(0, self.shape.bits_bytes());
            self.slab.index.store(index_in.add(index_at).as_ptr(), Relaxed);
            self.slab.first.store(start.add(first).as_ptr(), Relaxed);
        }
        self.slab.live.store(block.as_ptr().cast(), Relaxed);
        self.set_links(None, None);
        self.management().active.store(0, Relaxed);
        self.management().free.store(0, Relaxed);
        match self.shape.layout {
            Layout::Native => (0..objects).step_by(64).for_each(|index| {
                let bits = u64::MAX >> (64 - (objects - index).min(64));
                self.set(index / 64, bits);
            }),
            Layout::LinkedBufctl => (0..objects).for_each(|index| {
                let next = if index + 1 == objects { END } else { index as u32 + 1 };
                self.set(index, next);
            }),
            Layout::Stack | Layout::StackU32 => {
                (0..objects).for_each(|index| self.set_index(index, index));
            }
        }
    }

    fn management(self) -> &'s Management {
        match self.shape.layout {
            // SAFETY: the index begins with the header (D1), whose bytes `reset` or its zeros made; a place in a slab or
            // block that is a multiple of 8, as the shape says.
            Layout::LinkedBufctl => unsafe { &*self.slab.index.load(Relaxed).cast() },
            _ => &self.slab.own,
        }
    }

    /// Place `nth` of the index, whose elements are `T`s.
    fn at<T>(self, nth: usize) -> *mut T {
        let header = if self.shape.layout == Layout::LinkedBufctl { HEADER } else { 0 };
        self.slab.index.load(Relaxed).wrapping_add(header).cast::<T>().wrapping_add(nth)
    }

    fn get<T: Copy>(self, nth: usize) -> T {
        // SAFETY: `nth` is below the number of elements (all callers count from the shape), which `reset` wrote (D1).
        unsafe { self.at::<T>(nth).read() }
    }

    fn set<T: Copy>(self, nth: usize, value: T) {
        // SAFETY: as above; no one else looks meanwhile (D1).
        unsafe { self.at::<T>(nth).write(value) }
    }

    /// Index `nth` of a stack.
    fn index(self, nth: usize) -> usize {
        match self.shape.width {
            1 => self.get::<u8>(nth) as usize,
            2 => self.get::<u16>(nth) as usize,
            _ => self.get::<u32>(nth) as usize,
        }
    }

    fn set_index(self, nth: usize, index: usize) {
        match self.shape.width {
            1 => self.set(nth, index as u8),
            2 => self.set(nth, index as u16),
            _ => self.set(nth, index as u32),
        }
    }

    /// Objects that are out of the slab: users', or in magazines.
    pub(crate) fn active(self) -> usize {
        self.management().active.load(Relaxed) as usize
    }

    pub(crate) fn next(self) -> Option<ExtentId> {
        ExtentId::from_raw(self.management().next.load(Relaxed))
    }

    pub(crate) fn prev(self) -> Option<ExtentId> {
        ExtentId::from_raw(self.management().prev.load(Relaxed))
    }

    pub(crate) fn set_next(self, next: Option<ExtentId>) {
        self.management().next.store(next.map_or(0, ExtentId::to_raw), Relaxed);
    }

    pub(crate) fn set_prev(self, prev: Option<ExtentId>) {
        self.management().prev.store(prev.map_or(0, ExtentId::to_raw), Relaxed);
    }

    pub(crate) fn set_links(self, prev: Option<ExtentId>, next: Option<ExtentId>) {
        self.set_prev(prev);
        self.set_next(next);
    }

    /// Takes a free object out; there must be one.
    pub(crate) fn take(self) -> usize {
        let management = self.management();
        let active = management.active.load(Relaxed);
        debug_assert!((active as usize) < self.shape.objects, "nothing is free");
        management.active.store(active + 1, Relaxed);
        match self.shape.layout {
            Layout::Native => {
                let mut word = management.free.load(Relaxed) as usize;
                while self.get::<u64>(word) == 0 {
                    word += 1;
                }
                management.free.store(word as u32, Relaxed);
                let bits: u64 = self.get(word);
                self.set(word, bits & (bits - 1));
                word * 64 + bits.trailing_zeros() as usize
            }
            Layout::LinkedBufctl => {
                let index = management.free.load(Relaxed) as usize;
                management.free.store(self.get(index), Relaxed);
                index
            }
            Layout::Stack | Layout::StackU32 => self.index(active as usize),
        }
    }

    /// Puts an object back that was taken.
    pub(crate) fn put(self, index: usize) {
        let management = self.management();
        let active = management.active.load(Relaxed) - 1;
        management.active.store(active, Relaxed);
        match self.shape.layout {
            Layout::Native => {
                let word = index / 64;
                self.set(word, self.get::<u64>(word) | 1 << (index % 64));
                management.free.store(management.free.load(Relaxed).min(word as u32), Relaxed);
            }
            Layout::LinkedBufctl => {
                self.set(index, management.free.load(Relaxed));
                management.free.store(index as u32, Relaxed);
            }
            Layout::Stack | Layout::StackU32 => self.set_index(active as usize, index),
        }
    }

    /// The objects that are in the slab, in the order in which they would be taken.
    pub(crate) fn free(self) -> Vec<usize> {
        let Shape { objects, layout, .. } = *self.shape;
        match layout {
            Layout::Native => (0..objects)
                .filter(|&index| self.get::<u64>(index / 64) >> (index % 64) & 1 == 1)
                .collect(),
            Layout::LinkedBufctl => {
                let mut at = self.management().free.load(Relaxed);
                let walk = std::iter::from_fn(|| {
                    let index = (at != END).then_some(at as usize)?;
                    at = self.get(index);
                    Some(index)
                });
                walk.take(objects + 1).collect()
            }
            Layout::Stack | Layout::StackU32 => {
                (self.active()..objects).map(|nth| self.index(nth)).collect()
            }
        }
    }

    /// Whether a user has the object.
    pub(crate) fn is_live(self, index: usize) -> bool {
        // SAFETY: D1.
        let word = unsafe { &*self.slab.live(index) };
        word.load(Relaxed) >> (index % 64) & 1 == 1
    }

    /// Asserts that the free objects are each there once, not live, and as many as are not active.
    pub(crate) fn check(self) {
        let mut free = self.free();
        assert_eq!(free.len() + self.active(), self.shape.objects, "free and active objects");
        assert!(free.iter().all(|&index| !self.is_live(index)), "a free object is live");
        free.sort_unstable();
        assert!(free.is_sorted_by(|a, b| a < b), "an object is free twice");
        assert!(free.last().is_none_or(|&last| last < self.shape.objects));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;
    use page::Zeroed;

    /// Memory of a slab and its block, outside any space.
    struct Bed {
        slab: Box<Slab>,
        memory: Vec<u64>,
        shape: Shape,
    }

    fn zeroed<T: Zeroed>() -> Box<T> {
        // SAFETY: zeros are a valid T, says Zeroed.
        unsafe { Box::<T>::new_zeroed().assume_init() }
    }

    impl Bed {
        fn new(layout: Layout, size: usize) -> Self {
            let shape = Shape::new(layout, size, 8).unwrap();
            let memory = vec![0x5555_5555_5555_5555; (shape.bytes() + shape.block_bytes()) / 8];
            let mut bed = Bed { slab: zeroed(), memory, shape };
            let start = NonNull::new(bed.memory.as_mut_ptr().cast::<u8>()).unwrap();
            // SAFETY: the memory is this test's alone, the block behind the slab.
            unsafe {
                let block = start.add(bed.shape.bytes());
                bed.held().reset(start, block, bed.shape.first);
            }
            bed
        }

        fn held(&self) -> Held<'_> {
            // SAFETY: no one else knows of it.
            unsafe { Held::new(&self.slab, &self.shape) }
        }
    }

    #[test]
    fn objects_come_once_each_in_every_layout() {
        for layout in Layout::ALL {
            for size in [8, 32, 100, 512, 4096, 30000] {
                let bed = Bed::new(layout, size);
                let (held, objects) = (bed.held(), bed.shape.objects);
                let mut out = Vec::new();
                let mut random = Rng::with_seed(size as u64);
                for step in 0..2000 {
                    if out.len() < objects && (out.is_empty() || random.bool()) {
                        out.push(held.take());
                    } else {
                        held.put(out.swap_remove(random.usize(..out.len())));
                    }
                    assert_eq!(held.active(), out.len());
                    if step % 16 == 0 {
                        held.check();
                        let free = held.free();
                        assert!(out.iter().all(|index| !free.contains(index)), "{layout} {size}");
                    }
                }
            }
        }
    }

    /// The walk that the text of 2013 shows: free = 6, array 1 END 5 7 0 4 3 2.
    #[test]
    fn the_linked_list_is_walked_as_it_was() {
        let bed = Bed::new(Layout::LinkedBufctl, 512);
        let held = bed.held();
        let order = [6, 3, 7, 2, 5, 4, 0, 1];
        assert_eq!((0..8).map(|_| held.take()).max(), Some(7));
        order.iter().rev().for_each(|&index| held.put(index));
        assert_eq!(held.free(), order);
        let array: Vec<u32> = (0..8).map(|nth| held.get(nth)).collect();
        assert_eq!(array, [1, END, 5, 7, 0, 4, 3, 2]);
    }

    #[test]
    fn a_stack_gives_the_last_first() {
        for layout in [Layout::Stack, Layout::StackU32] {
            let bed = Bed::new(layout, 512);
            let held = bed.held();
            assert_eq!([held.take(), held.take(), held.take()], [0, 1, 2]);
            held.put(0);
            held.put(2);
            assert_eq!((held.active(), held.take(), held.take()), (1, 2, 0));
        }
    }
}
