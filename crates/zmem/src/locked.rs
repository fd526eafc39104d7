//! Locked ranges.

use crate::calls::Calls;
use std::ops::Range;

/// A locked range. The blocks of the range stay resident until this value is dropped.
#[derive(Debug)]
#[must_use = "the range is kept only as long as this lives"]
pub struct Locked<'r> {
    pub(crate) calls: &'r Calls,
    pub(crate) blocks: Range<usize>,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.calls.unpin(self.blocks.clone());
    }
}
