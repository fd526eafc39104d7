//! Geometry: which size classes there are, and what a zspage of each looks like.
//!
//! Native zspages are long, since only pages that objects touch are committed: what a long one costs is
//! address space, and what it saves is the tail behind the last object. Waste of a full zspage of k
//! pages and objects of s bytes: `k * P mod s`; of an object of n bytes: `s - n`, below the step.

use page::page_size;
use std::ops::RangeInclusive;

/// Classes are a multiple of this apart, and objects so aligned.
pub(crate) const GRAIN: usize = 8;
/// The smallest class.
const SIZE_MIN: usize = 32;
/// The largest class, a block of zram stored raw.
const SIZE_MAX: usize = 4096;

/// How the class table is calculated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes from one size to the next.
    step: usize,
    /// Shortest and longest zspage, in pages.
    chain: RangeInclusive<usize>,
    /// Most objects in a zspage, which bounds what manages it.
    objects_max: usize,
}

impl Geometry {
    /// Classes 8 bytes apart, zspages of 128 to 256 KiB, committed page by page.
    pub fn native() -> Self {
        let longest = ((256 << 10) / page_size()).max(1);
        Geometry { step: GRAIN, chain: longest.div_ceil(2)..=longest, objects_max: 1024 }
    }

    /// All classes, smallest first. Sizes whose zspages would look the same share the largest one's.
    pub fn classes(&self) -> Vec<ClassShape> {
        let mut classes: Vec<ClassShape> = Vec::new();
        for size in (SIZE_MIN..=SIZE_MAX).rev().step_by(self.step) {
            let shape = self.shape(size);
            let same =
                |last: &ClassShape| (last.pages, last.objects) == (shape.pages, shape.objects);
            if !classes.last().is_some_and(same) {
                classes.push(shape);
            }
        }
        classes.reverse();
        classes
    }

    /// The shortest chain with the smallest wasted share of its bytes.
    fn shape(&self, size: usize) -> ClassShape {
        let page = page_size();
        let longest =
            (self.objects_max * size / page).clamp(size.div_ceil(page), *self.chain.end());
        let shortest = longest.min(*self.chain.start());
        let mut best = shortest;
        for pages in shortest..=longest {
            // wasted / pages < wasted(best) / best, without division
            if (pages * page % size) * best < (best * page % size) * pages {
                best = pages;
            }
        }
        ClassShape { size, pages: best, objects: best * page / size }
    }
}

/// What the zspages of a class look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassShape {
    /// Bytes of a slot: the largest object of the class.
    pub size: usize,
    /// Pages of a zspage.
    pub pages: usize,
    /// Slots of a zspage.
    pub objects: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn native_classes_waste_little() {
        let classes = Geometry::native().classes();
        assert_eq!((classes[0].size, classes.last().unwrap().size), (SIZE_MIN, SIZE_MAX));
        assert!(classes.is_sorted_by(|a, b| a.size < b.size));
        for class in &classes {
            let bytes = class.pages * page_size();
            assert!(class.objects * class.size <= bytes && class.objects <= 1024);
            assert!(class.size % GRAIN == 0);
            let tail = bytes - class.objects * class.size;
            assert!(tail * 250 < bytes, "{class:?} wastes {tail}");
        }
        // No size is merged far up: rounding stays near the step.
        let far = classes.windows(2).filter(|pair| pair[1].size - pair[0].size > 3 * GRAIN).count();
        assert!(far < classes.len() / 10, "{far} of {} classes are far apart", classes.len());
    }
}
