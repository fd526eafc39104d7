//! Computes an object's number in its slab from its address, without a division.

use crate::shape::Shape;

/// The number of fractional bits of the reciprocal. Offsets in a slab are below 2^20.
const PLACE_SHIFT: u32 = 40;

/// The stride and the span of a slab's adjacent objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divider {
    /// The distance from the start of the first object to the end of the last, in bytes.
    pub(crate) span: usize,
    pub(crate) stride: usize,
    /// 2^40 / stride, rounded up.
    reciprocal: u64,
}

impl Divider {
    pub(crate) fn new(shape: &Shape) -> Self {
        let Shape { objects, stride, .. } = *shape;
        let reciprocal = (1u64 << PLACE_SHIFT).div_ceil(stride as u64);
        Divider { span: objects * stride, stride, reciprocal }
    }

    /// Returns the number of the object that begins `at` bytes after the first object, or `None` if
    /// no object begins there.
    #[inline]
    pub(crate) fn index(&self, at: usize) -> Option<usize> {
        if at >= self.span {
            return None;
        }
        // `at` is below 2^20, so neither product overflows.
        let index = ((at as u64).wrapping_mul(self.reciprocal) >> PLACE_SHIFT) as usize;
        (index.wrapping_mul(self.stride) == at).then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layout;

    #[test]
    fn every_byte_but_an_objects_first_is_refused() {
        for size in [1, 3, 8, 24, 100, 192, 513, 4096, 20_000, 65_536] {
            let shape = Shape::new(Layout::Native, size, 1).unwrap();
            let divider = Divider::new(&shape);
            for at in 0..divider.span + size {
                let is_first = at % size == 0 && at / size < shape.objects;
                assert_eq!(divider.index(at), is_first.then_some(at / size), "{size}: {at}");
            }
            assert_eq!(divider.index(0usize.wrapping_sub(size)), None);
        }
    }
}
