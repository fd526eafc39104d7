//! The layout of SLAB before 2013, its layout since 2013, and the similar layout `stack`. An array
//! of indexes determines the free objects.
//!
//! ```text
//!   linked-bufctl  | active, free, ..: 40 | next free: u32 each |  a list from `free` on
//!   stack, stack-u32                 | index: u8, u16 or u32 each |  free from place `active` on
//! ```
//! # Safety
//! The creator of an [`Index`] guarantees that its memory is valid. Each access checks that the
//! element's number is less than the number of objects.
#![allow(unsafe_code)]

use crate::policy::{LINE, PAGES_MAX};
use crate::slab::{Counts, Slab};
use crate::sync::Relaxed;
use page::page_size;

/// The length in bytes of SLAB's header before 2013. The header holds two links, the colour and the
/// address of the first object, and two counts.
pub(crate) const HEADER: usize = 40;
/// The width of one of SLAB's indexes, in bytes.
pub(crate) const WIDTH: usize = 4;
/// The maximum order of a slab, unless a single object needs a higher order.
const ORDER_MAX: u32 = 1;
/// The end of a linked list of indexes.
const END: u32 = u32::MAX;

const _: () = assert!(size_of::<Counts>() <= HEADER);

/// The numbers that SLAB's arithmetic computes for a slab.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packing {
    pub(crate) stride: usize,
    pub(crate) objects: usize,
    pub(crate) pages: usize,
    pub(crate) on_slab: bool,
    /// The number of bytes that remain for colours.
    pub(crate) left: usize,
    /// The offset of the first object from the start of the slab, in bytes.
    pub(crate) first: usize,
}

impl Packing {
    /// Returns SLAB's packing of objects of `size` bytes, aligned to `align`, with a header of
    /// `header` bytes and 4-byte indexes before the objects.
    pub(crate) fn new(size: usize, align: usize, header: usize) -> Option<Self> {
        let stride = size.next_multiple_of(8).next_multiple_of(align);
        let management = |objects: usize| header + objects * WIDTH;
        let front = |objects| management(objects).next_multiple_of(align.max(WIDTH));
        let is_large = stride >= page_size() / 8;
        for order in 0..=PAGES_MAX.ilog2() {
            let bytes = page_size() << order;
            let mut objects = bytes / stride;
            if !is_large {
                objects = (bytes - header) / (stride + WIDTH);
                objects -= usize::from(front(objects) + objects * stride > bytes);
            }
            if objects == 0 {
                continue;
            }
            let covered = objects * stride + if is_large { 0 } else { front(objects) };
            let left = bytes - covered;
            if order < ORDER_MAX && left * 8 > bytes {
                continue;
            }
            // SLAB places the header and the index of small objects on the slab. The header and the
            // index of large objects lie on the slab only if the remaining space suffices.
            let on_slab = !is_large || left >= front(objects);
            let left = left - if on_slab && is_large { front(objects) } else { 0 };
            let first = if on_slab { front(objects) } else { 0 };
            return Some(Packing { stride, objects, pages: 1 << order, on_slab, left, first });
        }
        None
    }

    /// Returns the distance between the offsets of two consecutive colours, in bytes.
    pub(crate) fn colour_step(align: usize) -> usize {
        align.max(LINE)
    }
}

/// A slab's index, to which the caller has exclusive access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Index<'s> {
    counts: &'s Counts,
    first: *mut u8,
    /// The width of an element, in bytes.
    width: usize,
    objects: usize,
    is_linked: bool,
}

impl<'s> Index<'s> {
    /// Returns the index of a slab.
    ///
    /// # Safety
    /// The slab has an index of `objects` elements of `width` bytes, after a header if the index is
    /// linked. The caller has exclusive access to the index while the result exists (sl-D1 in
    /// `slab`).
    pub(crate) unsafe fn new(slab: &'s Slab, objects: usize, width: usize, linked: bool) -> Self {
        let start = slab.index();
        if !linked {
            let counts = &slab.counts;
            return Index { counts, first: start, width, objects, is_linked: false };
        }
        // SAFETY: `start` is a multiple of 8 in a slab or block, followed by the bytes of a header.
        // Any bytes are valid integers, and these bytes are initialised. They are zeros, counts, or
        // contents of earlier objects.
        let counts = unsafe { &*start.cast::<Counts>() };
        Index { counts, first: start.wrapping_add(HEADER), width, objects, is_linked: true }
    }

    /// Returns the number of objects in use.
    pub(crate) fn active(self) -> usize {
        self.counts.active.load(Relaxed) as usize
    }

    fn set_active(self, active: usize) {
        self.counts.active.store(active as u32, Relaxed);
    }

    /// Returns element `nth`.
    fn get(self, nth: usize) -> u32 {
        assert!(nth < self.objects, "{self:?} has no place {nth}");
        let at = self.first.wrapping_add(nth * self.width);
        // SAFETY: the assertion establishes that the element is in the index, and `rebuild` wrote
        // it.
        unsafe {
            match self.width {
                1 => u32::from(at.read()),
                2 => u32::from(at.cast::<u16>().read()),
                _ => at.cast::<u32>().read(),
            }
        }
    }

    fn set(self, nth: usize, index: u32) {
        assert!(nth < self.objects, "{self:?} has no place {nth}");
        let at = self.first.wrapping_add(nth * self.width);
        // SAFETY: the element is in the index, to which the caller of `new` has exclusive access.
        unsafe {
            match self.width {
                1 => at.write(index as u8),
                2 => at.cast::<u16>().write(index as u16),
                _ => at.cast::<u32>().write(index),
            }
        }
    }

    /// Rebuilds the index of a slab. `free` contains the free objects in the order in which they
    /// will be allocated.
    pub(crate) fn rebuild(self, free: impl DoubleEndedIterator<Item = usize>) {
        let (mut head, mut active) = (END, self.objects);
        for index in free.rev() {
            active -= 1;
            match self.is_linked {
                true => self.set(index, head),
                false => self.set(active, index as u32),
            }
            head = index as u32;
        }
        if self.is_linked {
            self.counts.free.store(head, Relaxed);
        }
        self.set_active(active);
    }

    /// Removes the next free object from the index and returns it, or returns `None` if no object
    /// is free.
    pub(crate) fn take(self) -> Option<usize> {
        let active = self.active();
        if active >= self.objects {
            return None;
        }
        self.set_active(active + 1);
        if !self.is_linked {
            return Some(self.get(active) as usize);
        }
        let index = self.counts.free.load(Relaxed);
        self.counts.free.store(self.get(index as usize), Relaxed);
        Some(index as usize)
    }

    /// Records that object `index` is free.
    pub(crate) fn put(self, index: usize) {
        let active = self.active() - 1;
        self.set_active(active);
        if self.is_linked {
            self.set(index, self.counts.free.load(Relaxed));
            self.counts.free.store(index as u32, Relaxed);
        } else {
            self.set(active, index as u32);
        }
    }

    /// Returns the free objects in the order in which `take` would return them.
    pub(crate) fn free_objects(self) -> Vec<usize> {
        if !self.is_linked {
            return (self.active()..self.objects).map(|nth| self.get(nth) as usize).collect();
        }
        let mut at = self.counts.free.load(Relaxed);
        let walk = std::iter::from_fn(|| {
            let index = (at != END).then_some(at as usize)?;
            at = self.get(index);
            Some(index)
        });
        walk.take(self.objects + 1).collect()
    }
}
