//! A slab that someone may work in: its objects are taken and put back, as its layout notes them.
//!
//! # Safety
//! The descriptor's addresses are of memory as its shape says, and the index no one else's
//! meanwhile (sl-D1 in `slab`).
#![allow(unsafe_code)]

use crate::layout::Layout;
use crate::shape::{HEADER, Shape};
use crate::slab::{Management, Slab};
use crate::sync::Relaxed;
use page::{ExtentId, page_size};
use std::ptr::NonNull;

/// The end of a linked list of indexes.
const END: u32 = u32::MAX;

/// A slab that the calling thread may work in: it is its own, or the cache's lock is held and it is
/// no thread's, or no one else knows of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlabRef<'s> {
    pub(crate) slab: &'s Slab,
    shape: &'s Shape,
}

impl<'s> SlabRef<'s> {
    /// # Safety
    /// The slab is of that shape (or is about to be: `reset` comes first), and is held as said
    /// above, as long as this is used.
    #[inline]
    pub(crate) unsafe fn new(slab: &'s Slab, shape: &'s Shape) -> Self {
        SlabRef { slab, shape }
    }

    /// Makes it a slab without any object in use.
    ///
    /// # Safety
    /// `start` and `block` are memory of a slab and of a block of the shape, for no one else, until
    /// it is destroyed; `first` is where the first object goes, counted from `start`.
    pub(crate) unsafe fn reset(self, start: NonNull<u8>, block: NonNull<u8>, first: usize) {
        let Shape { objects, index_at, on_slab, bits_words, .. } = *self.shape;
        let index_in = if on_slab { start } else { block };
        // SAFETY: the bits lie at the start of the block, index and first object where the shape
        // has them.
        unsafe {
            block.write_bytes(0, 2 * 8 * bits_words);
            self.slab.index.store(index_in.add(index_at).as_ptr(), Relaxed);
            self.slab.first.store(start.add(first).as_ptr(), Relaxed);
        }
        self.slab.live.store(block.as_ptr().cast(), Relaxed);
        self.slab.bits(self.shape).end_at(objects);
        self.slab.set_released(0);
        self.set_links(None, None);
        self.rebuild();
    }

    /// Makes count and index what the bits say.
    pub(crate) fn rebuild(self) {
        let objects = self.shape.objects;
        let free = (0..objects).rev().filter(|&index| !self.is_live(index));
        match self.shape.layout {
            Layout::Native => return self.recount(),
            Layout::LinkedBufctl => {
                let mut head = END;
                free.for_each(|index| {
                    head = {
                        self.set(index, head);
                        index as u32
                    }
                });
                self.management().free.store(head, Relaxed);
            }
            Layout::Stack | Layout::StackU32 => {
                let places = (0..objects).rev();
                places.zip(free).for_each(|(nth, index)| self.set_index(nth, index));
            }
        }
        let live = (0..objects).filter(|&index| self.is_live(index)).count();
        self.management().active.store(live as u32, Relaxed);
    }

    #[inline]
    fn management(self) -> &'s Management {
        match self.shape.layout {
            // SAFETY: the index begins with the header (sl-D1), whose bytes `reset` or its zeros
            // made; a place in a slab or block that is a multiple of 8, as the shape says.
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
        // SAFETY: `nth` is below the number of objects (all callers count from the shape), and
        // `reset` wrote it (sl-D1).
        unsafe { self.at::<T>(nth).read() }
    }

    fn set<T: Copy>(self, nth: usize, value: T) {
        // SAFETY: as above; no one else looks meanwhile (sl-D1).
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

    /// Makes count and hint right, of a slab of `native` that was a thread's: which keeps neither.
    pub(crate) fn recount(self) {
        if self.shape.layout == Layout::Native {
            let Shape { objects, bits_words, .. } = *self.shape;
            let bits = self.slab.bits(self.shape);
            let active = bits.live() + objects - 64 * bits_words;
            self.slab.own.active.store(active as u32, Relaxed);
            self.slab.own.free.store(bits.next_word(0).unwrap_or(0) as u32, Relaxed);
        }
    }

    /// Objects in use.
    #[inline]
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

    /// The address of an object.
    pub(crate) fn object(self, index: usize) -> NonNull<u8> {
        debug_assert!(index < self.shape.objects);
        // SAFETY: the object lies in the slab (sl-D1), so not at null either.
        unsafe {
            NonNull::new_unchecked(
                self.slab.first().wrapping_add(index.wrapping_mul(self.shape.stride)),
            )
        }
    }

    /// Takes a free object, if there is one.
    pub(crate) fn alloc(self) -> Option<usize> {
        if self.shape.layout != Layout::Native {
            return self.alloc_indexed();
        }
        let management = &self.slab.own;
        let index = self.slab.bits(self.shape).alloc_from(management.free.load(Relaxed) as usize)?;
        management.free.store((index / 64) as u32, Relaxed);
        management.active.store(management.active.load(Relaxed) + 1, Relaxed);
        Some(index)
    }

    /// As `alloc`, where there is an index.
    fn alloc_indexed(self) -> Option<usize> {
        let management = self.management();
        let active = management.active.load(Relaxed);
        if active as usize >= self.shape.objects {
            return None;
        }
        management.active.store(active + 1, Relaxed);
        let index = match self.shape.layout {
            Layout::LinkedBufctl => {
                let index = management.free.load(Relaxed) as usize;
                management.free.store(self.get(index), Relaxed);
                index
            }
            _ => self.index(active as usize),
        };
        self.slab.bits(self.shape).set_live(index);
        Some(index)
    }

    /// Puts an object back; false where it is free already.
    pub(crate) fn free(self, index: usize) -> bool {
        let was_live = self.slab.bits(self.shape).free(index);
        if was_live {
            self.note_free(index);
        }
        was_live
    }

    /// Takes note of an object that became free.
    fn note_free(self, index: usize) {
        if self.shape.layout != Layout::Native {
            return self.note_free_indexed(index);
        }
        let management = &self.slab.own;
        // Wrong while the slab is a thread's, until `recount`.
        let active = management.active.load(Relaxed).wrapping_sub(1);
        management.active.store(active, Relaxed);
        let word = (index / 64) as u32;
        if word < management.free.load(Relaxed) {
            management.free.store(word, Relaxed);
        }
    }

    /// As `note_free`, where there is an index.
    fn note_free_indexed(self, index: usize) {
        let management = self.management();
        let active = management.active.load(Relaxed) as usize - 1;
        management.active.store(active as u32, Relaxed);
        if self.shape.layout == Layout::LinkedBufctl {
            self.set(index, management.free.load(Relaxed));
            management.free.store(index as u32, Relaxed);
        } else {
            self.set_index(active, index);
        }
    }

    /// Puts back what other threads have freed; how many objects.
    pub(crate) fn drain_remote(self) -> usize {
        let mut count = 0;
        self.slab.bits(self.shape).drain_remote(|index| {
            self.note_free(index);
            count += 1;
        });
        count
    }

    /// The pages on which no live object lies, of a slab whose objects begin with its first page.
    pub(crate) fn idle_pages(self) -> u16 {
        let Shape { stride, objects, pages, .. } = *self.shape;
        let is_idle = |&page: &usize| {
            let end = ((page + 1) * page_size()).div_ceil(stride).min(objects);
            (page * page_size() / stride..end).all(|index| !self.is_live(index))
        };
        (0..pages).filter(is_idle).fold(0, |idle, page| idle | 1 << page)
    }

    /// The free objects, in the order in which they would be taken.
    fn free_objects(self) -> Vec<usize> {
        let Shape { objects, layout, .. } = *self.shape;
        match layout {
            Layout::Native => (0..objects).filter(|&index| !self.is_live(index)).collect(),
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
        self.slab.bits(self.shape).is_live(index)
    }

    /// Asserts that the free objects are each there once, not live, and as many as are not active.
    pub(crate) fn check(self) {
        let mut free = self.free_objects();
        assert_eq!(free.len() + self.active(), self.shape.objects, "free and active objects");
        assert!(free.iter().all(|&index| !self.is_live(index)), "a free object is live");
        free.sort_unstable();
        assert!(free.is_sorted_by(|a, b| a < b), "an object is free twice");
        assert!(free.last().is_none_or(|&last| last < self.shape.objects));
        let hint = self.management().free.load(Relaxed) as usize * 64;
        let is_right =
            self.shape.layout != Layout::Native || free.iter().all(|&index| index >= hint);
        assert!(is_right, "an object below the hint is free");
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
                bed.slab_ref().reset(start, block, bed.shape.first);
            }
            bed
        }

        fn slab_ref(&self) -> SlabRef<'_> {
            // SAFETY: no one else knows of it.
            unsafe { SlabRef::new(&self.slab, &self.shape) }
        }
    }

    #[test]
    fn objects_come_once_each_in_every_layout() {
        for layout in Layout::ALL {
            for size in [8, 32, 100, 512, 4096, 30000] {
                let bed = Bed::new(layout, size);
                let (slab_ref, objects) = (bed.slab_ref(), bed.shape.objects);
                let mut out = Vec::new();
                let mut random = Rng::with_seed(testkit::seed(size as u64));
                for step in 0..2000 {
                    if out.len() < objects && (out.is_empty() || random.bool()) {
                        out.push(slab_ref.alloc().unwrap());
                    } else {
                        let index = out.swap_remove(random.usize(..out.len()));
                        assert!(slab_ref.free(index) && !slab_ref.free(index));
                    }
                    assert_eq!(slab_ref.active(), out.len());
                    if step % 16 == 0 {
                        slab_ref.check();
                        let free = slab_ref.free_objects();
                        assert!(out.iter().all(|index| !free.contains(index)), "{layout} {size}");
                    }
                }
                while slab_ref.alloc().is_some() {}
                assert_eq!(slab_ref.active(), objects);
                slab_ref.check();
            }
        }
    }

    /// The walk that the text of 2013 shows: free = 6, array 1 END 5 7 0 4 3 2.
    #[test]
    fn the_linked_list_is_walked_as_it_was() {
        let bed = Bed::new(Layout::LinkedBufctl, 512);
        let slab_ref = bed.slab_ref();
        let order = [6, 3, 7, 2, 5, 4, 0, 1];
        assert_eq!((0..8).filter_map(|_| slab_ref.alloc()).max(), Some(7));
        assert!(order.iter().rev().all(|&index| slab_ref.free(index)));
        assert_eq!(slab_ref.free_objects(), order);
        let array: Vec<u32> = (0..8).map(|nth| slab_ref.get(nth)).collect();
        assert_eq!(array, [1, END, 5, 7, 0, 4, 3, 2]);
    }

    #[test]
    fn a_stack_gives_the_last_first() {
        for layout in [Layout::Stack, Layout::StackU32] {
            let bed = Bed::new(layout, 512);
            let slab_ref = bed.slab_ref();
            assert_eq!([slab_ref.alloc(), slab_ref.alloc(), slab_ref.alloc()], [0, 1, 2].map(Some));
            assert!(slab_ref.free(0) && slab_ref.free(2));
            assert_eq!(
                (slab_ref.active(), slab_ref.alloc(), slab_ref.alloc()),
                (1, Some(2), Some(0))
            );
        }
    }
}
