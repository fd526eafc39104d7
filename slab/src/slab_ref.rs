//! Access to a slab. Allocates and frees the slab's objects, and records its free objects in its
//! index. The format of the index depends on the layout.
//!
//! # Safety
//! The descriptor's addresses refer to memory of the slab's shape. No other thread uses the index
//! at the same time (sl-D1 in `slab`). The SAFETY comment of code that creates a [`SlabRef`]
//! justifies the access to the slab's memory.
#![allow(unsafe_code)]

use crate::bits::Bits;
use crate::layout::Layout;
use crate::layouts_2013::Index;
use crate::shape::Shape;
use crate::slab::Slab;
use crate::sync::Relaxed;
use page::page_size;
use std::ptr::NonNull;

/// A slab that the calling thread is allowed to access. There are three cases: the thread owns the
/// slab; no thread owns the slab and the cache's lock is held; no other thread can reach the slab.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlabRef<'s> {
    pub(crate) slab: &'s Slab,
    shape: &'s Shape,
    /// The index, or `None` if the bits determine the free objects.
    index: Option<Index<'s>>,
}

impl<'s> SlabRef<'s> {
    /// Returns access to a slab.
    ///
    /// # Safety
    /// `begin` was called for the slab with this shape. While the result exists, the calling thread
    /// is allowed to access the slab, as described above.
    #[inline]
    pub(crate) unsafe fn new(slab: &'s Slab, shape: &'s Shape) -> Self {
        let Shape { layout, objects, width, .. } = *shape;
        let index = (layout != Layout::Native).then(|| {
            // SAFETY: the shape determines the arguments. The caller guarantees that the slab has
            // this shape, and that the thread is allowed to access it.
            unsafe { Index::new(slab, objects, width, layout == Layout::LinkedBufctl) }
        });
        SlabRef { slab, shape, index }
    }

    /// Initialises the descriptor of a slab without objects in use.
    ///
    /// # Safety
    /// `start` and `block` are memory for a slab and a block of this shape. Only this slab uses
    /// this memory until the slab is destroyed. `first` is the offset of the first object from
    /// `start`. No other thread can reach the slab while the result exists.
    pub(crate) unsafe fn begin(
        slab: &'s Slab,
        shape: &'s Shape,
        (start, block): (NonNull<u8>, NonNull<u8>),
        first: usize,
    ) -> Self {
        let Shape { objects, index_at, on_slab, bits_words, .. } = *shape;
        let index_in = if on_slab { start } else { block };
        // SAFETY: the bits lie at the start of the block. The shape determines the places of the
        // index and the first object. So the slab has this shape.
        let slab_ref = unsafe {
            block.write_bytes(0, 2 * 8 * bits_words);
            slab.begin(block, start.add(first), index_in.add(index_at));
            SlabRef::new(slab, shape)
        };
        slab_ref.own_bits().end_at(objects);
        slab_ref.rebuild();
        slab_ref
    }

    /// Returns the bits of the slab's objects.
    ///
    /// # Safety
    /// A caller that changes live bits thereby allocates free objects, or frees its own objects.
    pub(crate) unsafe fn bits(self) -> Bits<'s> {
        self.own_bits()
    }

    fn own_bits(self) -> Bits<'s> {
        // SAFETY: the caller of `new` guaranteed that the slab has this shape, and that the holder
        // of this `SlabRef` is allowed to access the slab's memory. Only a caller that allocates or
        // frees objects changes live bits.
        unsafe { self.slab.bits(self.shape.bits_words) }
    }

    /// Recomputes the count and the index from the bits.
    pub(crate) fn rebuild(self) {
        match self.index {
            None => self.recount(),
            Some(index) => {
                index.rebuild((0..self.shape.objects).filter(|&index| !self.is_live(index)));
            }
        }
    }

    /// Recomputes the count and the hint of a `native` slab when a thread gives up the slab. The
    /// owning thread maintains neither the count nor the hint.
    pub(crate) fn recount(self) {
        if self.index.is_none() {
            let Shape { objects, bits_words, .. } = *self.shape;
            let bits = self.own_bits();
            let active = bits.live() + objects - 64 * bits_words;
            self.slab.counts.active.store(active as u32, Relaxed);
            self.slab.counts.free.store(bits.next_word(0).unwrap_or(0) as u32, Relaxed);
        }
    }

    /// Returns the number of objects in use.
    #[inline]
    pub(crate) fn active(self) -> usize {
        match self.index {
            None => self.slab.counts.active.load(Relaxed) as usize,
            Some(index) => index.active(),
        }
    }

    /// Returns the address of an object.
    pub(crate) fn object(self, index: usize) -> NonNull<u8> {
        assert!(index < self.shape.objects, "a slab has no object {index}");
        // SAFETY: the object lies in the slab (sl-D1), so its address is within the slab and not
        // null.
        unsafe { NonNull::new_unchecked(self.slab.first().add(index * self.shape.stride)) }
    }

    /// Allocates a free object and returns its number, or returns `None` if no object is free.
    pub(crate) fn alloc(self) -> Option<usize> {
        if let Some(index) = self.index {
            let index = index.take()?;
            self.own_bits().set_live(index);
            return Some(index);
        }
        let counts = &self.slab.counts;
        let index = self.own_bits().alloc_from(counts.free.load(Relaxed) as usize)?;
        counts.free.store((index / 64) as u32, Relaxed);
        counts.active.store(counts.active.load(Relaxed) + 1, Relaxed);
        Some(index)
    }

    /// Frees an object. Returns false if the object is already free.
    ///
    /// # Safety
    /// If the object is live, no thread uses it.
    pub(crate) unsafe fn free(self, index: usize) -> bool {
        let was_live = self.own_bits().free(index);
        if was_live {
            self.note_free(index);
        }
        was_live
    }

    /// Records an object as free.
    fn note_free(self, index: usize) {
        if let Some(indexes) = self.index {
            return indexes.put(index);
        }
        let counts = &self.slab.counts;
        // While a thread owns the slab, the count is not exact. `recount` corrects the count.
        counts.active.store(counts.active.load(Relaxed).wrapping_sub(1), Relaxed);
        let word = (index / 64) as u32;
        if word < counts.free.load(Relaxed) {
            counts.free.store(word, Relaxed);
        }
    }

    /// Marks the remotely freed objects as free. Returns their number.
    pub(crate) fn drain_remote(self) -> usize {
        let mut count = 0;
        self.own_bits().drain_remote(|index| {
            self.note_free(index);
            count += 1;
        });
        count
    }

    /// Removes the slab's owner, and then marks the remotely freed objects as free (sl-B1). Returns
    /// the number of remotely freed objects.
    ///
    /// # Safety
    /// The cache's lock is held. No thread accesses the slab, or has recorded the slab's bits.
    pub(crate) unsafe fn orphan(self) -> usize {
        self.own_bits().orphan();
        self.drain_remote()
    }

    /// Returns the pages on which no live object lies. The first object must begin on the first
    /// page of the slab.
    pub(crate) fn idle_pages(self) -> u16 {
        let Shape { stride, objects, pages, .. } = *self.shape;
        let is_idle = |&page: &usize| {
            let end = ((page + 1) * page_size()).div_ceil(stride).min(objects);
            (page * page_size() / stride..end).all(|index| !self.is_live(index))
        };
        (0..pages).filter(is_idle).fold(0, |idle, page| idle | 1 << page)
    }

    /// Returns the free objects, in the order in which they would be allocated.
    fn free_objects(self) -> Vec<usize> {
        match self.index {
            Some(index) => index.free_objects(),
            None => (0..self.shape.objects).filter(|&index| !self.is_live(index)).collect(),
        }
    }

    /// Returns true if a user has the object.
    pub(crate) fn is_live(self, index: usize) -> bool {
        self.own_bits().is_live(index)
    }

    /// Asserts that the index contains each free object exactly once, and no live object. Asserts
    /// that the counts agree.
    pub(crate) fn check(self) {
        let mut free = self.free_objects();
        assert_eq!(free.len() + self.active(), self.shape.objects, "free and active objects");
        assert!(free.iter().all(|&index| !self.is_live(index)), "a free object is live");
        free.sort_unstable();
        assert!(free.is_sorted_by(|a, b| a < b), "an object is free twice");
        assert!(free.last().is_none_or(|&last| last < self.shape.objects));
        let hint = self.slab.counts.free.load(Relaxed) as usize * 64;
        let is_right = self.index.is_some() || free.iter().all(|&index| index >= hint);
        assert!(is_right, "an object below the hint is free");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layouts_2013::HEADER;
    use fastrand::Rng;
    use page::Zeroed;

    /// The memory of a slab and its block, outside any space.
    struct Bed {
        slab: Box<Slab>,
        memory: Vec<u64>,
        shape: Shape,
    }

    fn zeroed<T: Zeroed>() -> Box<T> {
        // SAFETY: zeros are a valid T, because T implements Zeroed.
        unsafe { Box::<T>::new_zeroed().assume_init() }
    }

    impl Bed {
        fn new(layout: Layout, size: usize) -> Self {
            let shape = Shape::new(layout, size, 8).unwrap();
            let memory = vec![0x5555_5555_5555_5555; (shape.bytes() + shape.block_bytes()) / 8];
            let mut bed = Bed { slab: zeroed(), memory, shape };
            let start = NonNull::new(bed.memory.as_mut_ptr().cast::<u8>()).unwrap();
            // SAFETY: only this test uses the memory, and the block lies after the slab.
            unsafe {
                let block = start.add(bed.shape.bytes());
                SlabRef::begin(&bed.slab, &bed.shape, (start, block), bed.shape.first);
            }
            bed
        }

        fn slab_ref(&self) -> SlabRef<'_> {
            // SAFETY: no other thread can reach the slab.
            unsafe { SlabRef::new(&self.slab, &self.shape) }
        }
    }

    fn free(slab_ref: SlabRef<'_>, index: usize) -> bool {
        // SAFETY: no test uses the memory of an object.
        unsafe { slab_ref.free(index) }
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
                        assert!(free(slab_ref, index) && !free(slab_ref, index));
                    }
                    assert_eq!(slab_ref.active(), out.len());
                    if step % 16 == 0 {
                        slab_ref.check();
                        let left = slab_ref.free_objects();
                        assert!(out.iter().all(|index| !left.contains(index)), "{layout} {size}");
                    }
                }
                while slab_ref.alloc().is_some() {}
                assert_eq!(slab_ref.active(), objects);
                slab_ref.check();
            }
        }
    }

    /// The example in a document of 2013 about SLAB: free = 6, array 1 END 5 7 0 4 3 2.
    #[test]
    fn the_linked_list_is_walked_as_it_was() {
        let bed = Bed::new(Layout::LinkedBufctl, 512);
        let slab_ref = bed.slab_ref();
        let order = [6, 3, 7, 2, 5, 4, 0, 1];
        assert_eq!((0..8).filter_map(|_| slab_ref.alloc()).max(), Some(7));
        assert!(order.iter().rev().all(|&index| free(slab_ref, index)));
        assert_eq!(slab_ref.free_objects(), order);
        let array = bed.slab.index().wrapping_add(HEADER).cast::<[u32; 8]>();
        // SAFETY: the index has eight elements, and no other code uses it.
        assert_eq!(unsafe { array.read() }, [1, u32::MAX, 5, 7, 0, 4, 3, 2]);
    }

    #[test]
    fn a_stack_gives_the_last_first() {
        for layout in [Layout::Stack, Layout::StackU32] {
            let bed = Bed::new(layout, 512);
            let slab_ref = bed.slab_ref();
            assert_eq!([slab_ref.alloc(), slab_ref.alloc(), slab_ref.alloc()], [0, 1, 2].map(Some));
            assert!(free(slab_ref, 0) && free(slab_ref, 2));
            assert_eq!(
                (slab_ref.active(), slab_ref.alloc(), slab_ref.alloc()),
                (1, Some(2), Some(0))
            );
        }
    }
}
