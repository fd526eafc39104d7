//! The shape of slabs: the size and number of their objects, and their pages.

use super::error::Error;
use super::policy::SLAB_PAGES_MAX;
use super::slab::{DESCRIPTOR_BYTES, OBJECTS_MAX};
use page::{SlotGrid, page_size};

/// The shape of a cache's slabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The distance between the starts of adjacent objects in bytes, which is the size rounded up
    /// to the alignment.
    pub stride: usize,
    /// The number of objects in a slab.
    pub objects: usize,
    /// The number of pages in a slab.
    pub pages: usize,
}

impl Geometry {
    /// Returns the shape with the lowest cost per object. The cost of a slab is the size of the
    /// slab's descriptor plus the number of the slab's unused bytes.
    pub fn new(size: usize, align: usize) -> Result<Self, Error> {
        let page = page_size();
        if !align.is_power_of_two() || align > page {
            return Err(Error::Align { align, page });
        }
        let max = SLAB_PAGES_MAX * page;
        if size == 0 || size > max {
            return Err(Error::Size { size, max });
        }
        let stride = size.next_multiple_of(align);
        let shape = |pages: usize| {
            let objects = (pages * page / stride).min(OBJECTS_MAX);
            Geometry { stride, objects, pages: (objects * stride).div_ceil(page) }
        };
        let shapes = (1..=SLAB_PAGES_MAX).map(shape).filter(|shape| shape.objects > 0);
        // The costs per object are compared as fractions, without division.
        let cost = |shape: &Geometry| shape.waste() + DESCRIPTOR_BYTES;
        let least = shapes.min_by(|a, b| (cost(a) * b.objects).cmp(&(cost(b) * a.objects)));
        least.ok_or(Error::Size { size, max })
    }

    fn bytes(&self) -> usize {
        self.pages * page_size()
    }

    /// Returns the number of bytes of a slab that no object covers.
    pub fn waste(&self) -> usize {
        self.bytes() - self.objects * self.stride
    }

    /// Returns the layout of a slab's objects.
    pub(crate) fn grid(&self) -> SlotGrid {
        SlotGrid { stride: self.stride as u32, slots: self.objects as u32 }
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
            assert!(shape.objects <= OBJECTS_MAX && shape.pages <= SLAB_PAGES_MAX);
            assert!(shape.objects * shape.stride <= shape.bytes());
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
