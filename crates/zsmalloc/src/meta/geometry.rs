//! How many objects of which size a slab holds, in how many pages, and which objects lie on which
//! pages.

use super::error::Error;
use super::slab::Slab;
use page::{Extent, page_shift, page_size};
use std::ops::Range;

/// Most objects of a slab: the used bits of its descriptor.
pub(crate) const OBJECTS_MAX: usize = 512;
/// Most pages of a slab.
const PAGES_MAX: usize = 16;

/// Some of a slab's pages: bit n for page n.
pub(crate) type Pages = u16;

const _: () = assert!(PAGES_MAX <= Pages::BITS as usize);

/// The shape of a cache's slabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes from one object to the next: the size rounded up to the alignment.
    pub stride: usize,
    /// Objects in a slab.
    pub objects: usize,
    /// Pages in a slab.
    pub pages: usize,
}

impl Geometry {
    /// The pages for which least goes, per object, to the descriptor and to bytes that no object
    /// covers.
    pub fn new(size: usize, align: usize) -> Result<Self, Error> {
        let page = page_size();
        if !align.is_power_of_two() || align > page {
            return Err(Error::Align { align, page });
        }
        let max = PAGES_MAX * page;
        if size == 0 || size > max {
            return Err(Error::Size { size, max });
        }
        let stride = size.next_multiple_of(align);
        let shape = |pages: usize| {
            let objects = (pages * page / stride).min(OBJECTS_MAX);
            Geometry { stride, objects, pages: (objects * stride).div_ceil(page) }
        };
        let shapes = (1..=PAGES_MAX).map(shape).filter(|shape| shape.objects > 0);
        // Shares are compared as fractions, without division.
        let cost = |shape: &Geometry| shape.waste() + size_of::<Extent<Slab>>();
        let least = shapes.min_by(|a, b| (cost(a) * b.objects).cmp(&(cost(b) * a.objects)));
        least.ok_or(Error::Size { size, max })
    }

    fn bytes(&self) -> usize {
        self.pages * page_size()
    }

    /// Bytes of a slab that no object covers.
    pub fn waste(&self) -> usize {
        self.bytes() - self.objects * self.stride
    }

    /// The pages that object `index` lies on.
    pub(crate) fn pages_of(&self, index: usize) -> Pages {
        let start = index * self.stride;
        let (first, last) = (start >> page_shift(), (start + self.stride - 1) >> page_shift());
        Pages::MAX >> (Pages::BITS as usize - 1 - (last - first)) << first
    }

    /// The objects that lie on `page`, whole or in part.
    pub(crate) fn objects_on(&self, page: u32) -> Range<usize> {
        let first = self.objects_in(page);
        let end = ((page + 1) << page_shift()).div_ceil(self.stride as u32);
        first..(end as usize).min(self.objects)
    }

    /// The objects that lie on a run of pages and on no other.
    pub(crate) fn objects_within(&self, pages: Range<u32>) -> Range<usize> {
        let first = (pages.start << page_shift()).div_ceil(self.stride as u32);
        first as usize..self.objects_in(pages.end).min(self.objects)
    }

    /// The objects that fit into `pages` pages. (A slab is short: numbers of 32 bits are divided
    /// faster.)
    fn objects_in(&self, pages: u32) -> usize {
        ((pages << page_shift()) / self.stride as u32) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_goes_to_tails_and_descriptors() {
        let shape = |size, align| Geometry::new(size, align).unwrap();
        assert_eq!(shape(16, 16), Geometry { stride: 16, objects: 512, pages: 2 });
        assert_eq!(shape(1, 1), Geometry { stride: 1, objects: 512, pages: 1 });
        assert_eq!(shape(4096, 4096), Geometry { stride: 4096, objects: 16, pages: 16 });
        assert_eq!(shape(3072, 8), Geometry { stride: 3072, objects: 20, pages: 15 });
        assert_eq!(shape(65536, 8), Geometry { stride: 65536, objects: 1, pages: 16 });
        for size in 1..=65536 {
            let shape = shape(size, 8);
            assert!(shape.objects <= OBJECTS_MAX && shape.pages <= PAGES_MAX);
            assert!(shape.objects * shape.stride <= shape.bytes());
        }
    }

    #[test]
    fn objects_and_pages_agree() {
        for size in [1, 8, 48, 200, 1000, 3072, 4096, 5000, 20000, 65536] {
            let shape = Geometry::new(size, 8).unwrap();
            for index in 0..shape.objects {
                let pages = shape.pages_of(index);
                assert!(pages != 0 && (pages as u32) < 1 << shape.pages);
                for page in 0..shape.pages as u32 {
                    let on = pages >> page & 1 == 1;
                    assert_eq!(
                        shape.objects_on(page).contains(&index),
                        on,
                        "{size} {index} {page}"
                    );
                    let alone = pages == 1 << page;
                    assert_eq!(shape.objects_within(page..page + 1).contains(&index), alone);
                }
                let (first, last) = (pages.trailing_zeros(), pages.ilog2());
                assert!(shape.objects_within(first..last + 1).contains(&index));
            }
        }
    }

    #[test]
    fn bad_shapes_are_named() {
        assert!(matches!(Geometry::new(0, 8), Err(Error::Size { size: 0, .. })));
        assert!(matches!(Geometry::new(65537, 8), Err(Error::Size { size: 65537, .. })));
        assert!(matches!(Geometry::new(8, 0), Err(Error::Align { align: 0, .. })));
        assert!(matches!(Geometry::new(8, 12), Err(Error::Align { align: 12, .. })));
        assert!(matches!(Geometry::new(8, 8192), Err(Error::Align { align: 8192, .. })));
    }
}
