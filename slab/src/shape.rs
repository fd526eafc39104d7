//! The shape of a slab: the number of its objects and pages, and the places of its metadata.
//!
//! The metadata of a slab that lie off the slab form its *block*, which begins with two bits per
//! object: the live bit and the remote bit. `linked-bufctl` and `stack-u32` are the layouts of SLAB
//! before and after 2013, and use SLAB's arithmetic. They place the header and the index of objects
//! below an eighth of a page on the slab, and those of larger objects only if the remaining space
//! suffices. The order of a slab is the smallest order that leaves at most an eighth of the slab
//! unused. The other two layouts choose the number of pages by the overhead, and `stack` also the
//! place of the index.

use crate::layouts_2013::{HEADER, Packing, WIDTH};
use crate::policy::{BLOCK_HEADER, GRANULE, OVERHEAD_SHARE_MAX, PAGES_MAX};
use crate::{Error, Layout};
use page::page_size;

/// The size of a slab's descriptor in bytes, without the slab's entries in the map of pages.
const DESCRIPTOR: usize = size_of::<page::Extent<crate::slab::Slab>>();
/// A slab with this number of objects, or with this number of pages, is large enough: threads then
/// seldom need another slab.
const WORTH: (usize, usize) = (128, 8);

/// The shape of a cache's slabs. Offsets are relative to the first byte of the slab or of the
/// block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The layout of the slabs.
    pub layout: Layout,
    /// The distance in bytes from one object to the next.
    pub stride: usize,
    /// The number of objects in a slab.
    pub objects: usize,
    /// The number of pages in a slab.
    pub pages: usize,
    /// Whether the index (and the header) lies on the slab.
    pub on_slab: bool,
    /// The width of an element of the index in bytes; 0 without an index.
    pub width: usize,
    /// The number of possible offsets (colours) of the first object. Slabs use the colours in turn,
    /// to spread objects over the processor's cache.
    pub colours: usize,
    /// The distance in bytes between two consecutive colours.
    pub colour_step: usize,
    /// The number of words that contain one bit per object.
    pub(crate) bits_words: usize,
    /// The offset of the header or index, on the slab or in the block.
    pub(crate) index_at: usize,
    /// The offset of the first object if the colour is 0.
    pub(crate) first: usize,
}

impl Shape {
    /// Returns the shape for objects of `size` bytes, aligned to `align`.
    pub fn new(layout: Layout, size: usize, align: usize) -> Result<Self, Error> {
        let page = page_size();
        if !align.is_power_of_two() || align > page {
            return Err(Error::Align { align, page });
        }
        let max = PAGES_MAX * page;
        let refused = Error::Size { size, max };
        if size == 0 || size > max {
            return Err(refused);
        }
        let shape = match layout {
            Layout::Native => {
                least((1..=PAGES_MAX).filter_map(|pages| bare(size, align, pages, 0)))
            }
            Layout::Stack => least((0..=PAGES_MAX.ilog2()).flat_map(|order| {
                let off = move |width| bare(size, align, 1 << order, width);
                let on = move |width| tailed(size, align, 1 << order, width);
                let widths = [1, 2, 4].into_iter();
                widths.flat_map(move |width| [off(width), on(width)]).flatten()
            })),
            Layout::StackU32 => historical(layout, size, align, 0),
            Layout::LinkedBufctl => historical(layout, size, align, HEADER),
        };
        shape.ok_or(refused)
    }

    fn header(&self) -> usize {
        if self.layout == Layout::LinkedBufctl { HEADER } else { 0 }
    }

    /// Returns the size of the block that lies off the slab, in bytes.
    pub fn block_bytes(&self) -> usize {
        let index = if self.on_slab { 0 } else { self.header() + self.objects * self.width };
        2 * 8 * self.bits_words + index.next_multiple_of(8)
    }

    /// Returns the size of a slab, in bytes.
    pub fn bytes(&self) -> usize {
        self.pages * page_size()
    }

    /// Returns the overhead of a slab in bytes: the slab, its descriptor, its map entries and its
    /// block, minus its objects.
    pub fn overhead(&self) -> usize {
        let map = self.pages.div_ceil(GRANULE as usize) * size_of::<u32>();
        let management = self.block_bytes() + BLOCK_HEADER + DESCRIPTOR + map;
        self.bytes() - self.objects * self.stride + management
    }
}

/// Returns true if `width` is the smallest width that can encode the numbers of `objects` objects.
fn is_width_of(width: usize, objects: usize) -> bool {
    width == 0 || width == [1, 2, 4][usize::from(objects > 1 << 8) + usize::from(objects > 1 << 16)]
}

/// Returns the shape of a slab that contains only objects. An index lies in the block after the
/// bits.
fn bare(size: usize, align: usize, pages: usize, width: usize) -> Option<Shape> {
    let stride = size.next_multiple_of(align);
    let objects = pages * page_size() / stride;
    let layout = if width == 0 { Layout::Native } else { Layout::Stack };
    let bits_words = objects.div_ceil(64);
    let shape = Shape {
        layout,
        stride,
        objects,
        pages,
        on_slab: false,
        width,
        colours: 1,
        colour_step: 0,
        bits_words,
        index_at: 2 * 8 * bits_words,
        first: 0,
    };
    (objects > 0 && is_width_of(width, objects)).then_some(shape)
}

/// Returns the shape of a slab with the index after its objects. The start of the index need not be
/// aligned like an object.
fn tailed(size: usize, align: usize, pages: usize, width: usize) -> Option<Shape> {
    let stride = size.next_multiple_of(align);
    let bytes = pages * page_size();
    let fits = |objects: usize| (objects * stride).next_multiple_of(width) + objects * width;
    let mut objects = bytes / (stride + width);
    while objects > 0 && fits(objects) > bytes {
        objects -= 1;
    }
    let index_at = (objects * stride).next_multiple_of(width);
    let shape = Shape {
        objects,
        on_slab: true,
        bits_words: objects.div_ceil(64),
        index_at,
        ..bare(size, align, pages, 0)?
    };
    (objects > 0 && is_width_of(width, objects)).then_some(Shape {
        layout: Layout::Stack,
        width,
        ..shape
    })
}

/// Returns the first of `shapes`, which are in the order of their pages, that is large enough and
/// has a small overhead. If there is no such shape, returns the shape with the least overhead per
/// byte of objects.
fn least(shapes: impl Iterator<Item = Shape> + Clone) -> Option<Shape> {
    let is_worth = |shape: &Shape| shape.objects >= WORTH.0 || shape.pages >= WORTH.1;
    let is_small = |shape: &Shape| shape.overhead() * OVERHEAD_SHARE_MAX <= shape.bytes();
    let small = shapes.clone().find(|shape| is_worth(shape) && is_small(shape));
    // Compares the overheads per byte by multiplication instead of division.
    small.or_else(|| {
        shapes.min_by(|a, b| (a.overhead() * b.objects).cmp(&(b.overhead() * a.objects)))
    })
}

/// Returns the shape that SLAB's arithmetic yields, with a header of `header` bytes.
fn historical(layout: Layout, size: usize, align: usize, header: usize) -> Option<Shape> {
    let Packing { stride, objects, pages, on_slab, left, first } =
        Packing::new(size, align, header)?;
    let colour_step = Packing::colour_step(align);
    let bits_words = objects.div_ceil(64);
    Some(Shape {
        layout,
        stride,
        objects,
        pages,
        on_slab,
        width: WIDTH,
        colours: left / colour_step + 1,
        colour_step,
        bits_words,
        index_at: if on_slab { 0 } else { 2 * 8 * bits_words },
        first,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line_align;
    use testkit::s4::CACHES;

    #[test]
    fn objects_per_slab_before_and_after() {
        if page_size() != 4096 {
            return;
        }
        let shape = |layout, size| Shape::new(layout, size, line_align(size)).unwrap();
        for (name, size, before, after) in CACHES {
            let linked = shape(Layout::LinkedBufctl, size);
            let stack = shape(Layout::StackU32, size);
            assert_eq!((linked.objects, stack.objects), (before, after), "{name}");
            assert_eq!((linked.pages, stack.pages), (1, 1), "{name}");
            assert_eq!((linked.on_slab, stack.on_slab), (size < 512, size < 512), "{name}");
        }
        let colours = |layout| CACHES.map(|(_, size, ..)| shape(layout, size).colours - 1);
        assert_eq!(colours(Layout::LinkedBufctl), [0, 2, 2, 1, 0, 1, 0, 2]);
        assert_eq!(colours(Layout::StackU32), [0, 3, 2, 0, 0, 0, 0, 2]);
    }

    #[test]
    fn little_is_lost_where_it_can_be_helped() {
        for size in [32, 64, 192, 512, 1000, 4096] {
            let shape = Shape::new(Layout::Native, size, 8).unwrap();
            assert!(shape.overhead() * 100 <= shape.bytes(), "{size}: {shape:?}");
            // For objects below 100 bytes, an index of one byte per object already exceeds the
            // bound on the overhead.
            let stack = Shape::new(Layout::Stack, size, 8).unwrap();
            assert!(stack.overhead() * 100 <= stack.bytes() * 10, "{size}: {stack:?}");
        }
        let widths = [(8, 2), (600, 1), (64, 1)];
        for (size, width) in widths {
            assert_eq!(Shape::new(Layout::Stack, size, 8).unwrap().width, width, "{size}");
        }
    }

    #[test]
    fn nothing_overlaps() {
        for layout in Layout::ALL {
            for align in [1, 8, 64, 4096] {
                for size in (1..300).chain((300..65536).step_by(37)).chain([65536]) {
                    let Ok(shape) = Shape::new(layout, size, align) else { continue };
                    let last = shape.first
                        + (shape.colours - 1) * shape.colour_step
                        + shape.objects * shape.stride;
                    assert!(last <= shape.bytes(), "{size} {shape:?}");
                    assert!(shape.first.is_multiple_of(align) && shape.stride >= size);
                    let index = shape.header() + shape.objects * shape.width;
                    let fits = match shape.on_slab {
                        true if shape.index_at == 0 => index <= shape.first,
                        true => shape.index_at + index <= shape.bytes(),
                        false => shape.index_at + index <= shape.block_bytes(),
                    };
                    assert!(fits, "{size} {shape:?}");
                    assert!(is_width_of(shape.width, shape.objects) || shape.width == 4);
                }
            }
        }
    }

    #[test]
    fn bad_shapes_are_named() {
        for layout in Layout::ALL {
            let refused = |size, align| Shape::new(layout, size, align).unwrap_err();
            let max = 16 * page_size();
            assert_eq!(refused(0, 8), Error::Size { size: 0, max });
            assert_eq!(refused(max + 1, 8), Error::Size { size: max + 1, max });
            for align in [0, 12, 2 * page_size()] {
                assert_eq!(refused(8, align), Error::Align { align, page: page_size() });
            }
            assert_eq!(layout.name().parse(), Ok(layout));
        }
        assert_eq!("bufctl".parse::<Layout>(), Err(Error::UnknownLayout));
    }
}
