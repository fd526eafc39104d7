//! Ranges that stay.

use crate::pager::Pager;
use std::ops::Range;

/// A range that is resident as long as this lives.
#[derive(Debug)]
#[must_use = "the range is kept only as long as this lives"]
pub struct Locked<'r> {
    pub(crate) pager: &'r Pager,
    pub(crate) units: Range<usize>,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.pager.unpin(self.units.clone());
    }
}
