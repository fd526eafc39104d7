//! A request, slot by slot.

use crate::BLOCK;
use std::ops::Range;

/// The part of a request that lies in one slot.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) slot: u32,
    /// Bytes within the slot.
    pub(crate) within: Range<usize>,
    /// Bytes within the request.
    pub(crate) request: Range<usize>,
}

impl Part {
    pub(crate) fn is_whole(&self) -> bool {
        self.within.len() == BLOCK
    }

    /// Changes this part of a slot to `data`, to zeros without.
    pub(crate) fn change(&self, slot: &mut [u8; BLOCK], data: Option<&[u8]>) {
        let here = &mut slot[self.within.clone()];
        match data {
            Some(data) => here.copy_from_slice(data),
            None => here.fill(0),
        }
    }
}

/// The slots that `len` bytes at `offset` touch.
pub(crate) fn parts(offset: u64, len: usize) -> impl Iterator<Item = Part> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let start = (at % BLOCK as u64) as usize;
        let here = (BLOCK - start).min(len - done);
        let part = Part {
            slot: (at / BLOCK as u64) as u32,
            within: start..start + here,
            request: done..done + here,
        };
        done += here;
        (here > 0).then_some(part)
    })
}

/// Their numbers.
pub(crate) fn slots(offset: u64, len: usize) -> Range<u32> {
    let end = (offset + len as u64).div_ceil(BLOCK as u64);
    (offset / BLOCK as u64) as u32..end as u32
}

/// The slots that `len` bytes at `offset` cover whole: none, where they begin and end in one.
pub(crate) fn whole_slots(offset: u64, len: u64) -> Range<u64> {
    let first = offset.div_ceil(BLOCK as u64);
    first..((offset + len) / BLOCK as u64).max(first)
}
