//! A request, slot by slot.

use crate::SLOT_BYTES;
use std::ops::Range;

/// The part of a request that lies in one slot.
#[derive(Clone, Debug)]
pub(crate) struct SlotRange {
    pub(crate) slot: u32,
    /// Bytes within the slot.
    pub(crate) within: Range<usize>,
    /// Bytes within the request.
    pub(crate) request: Range<usize>,
}

impl SlotRange {
    pub(crate) fn is_whole(&self) -> bool {
        self.within.len() == SLOT_BYTES
    }

    /// Changes this part of a slot to `data`, to zeros without.
    pub(crate) fn change(&self, slot: &mut [u8; SLOT_BYTES], data: Option<&[u8]>) {
        let here = &mut slot[self.within.clone()];
        match data {
            Some(data) => here.copy_from_slice(data),
            None => here.fill(0),
        }
    }
}

/// The units of so many bytes that `len` bytes at `offset` touch: the number of each, the bytes
/// within it, and those within the request.
#[inline]
pub(crate) fn split_range(
    offset: u64,
    len: usize,
    unit: usize,
) -> impl Iterator<Item = (u32, Range<usize>, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let start = (at % unit as u64) as usize;
        let here = (unit - start).min(len - done);
        let request = done..done + here;
        done += here;
        (here > 0).then(|| ((at / unit as u64) as u32, start..start + here, request))
    })
}

/// The slots that `len` bytes at `offset` touch.
#[inline]
pub(crate) fn split_slots(offset: u64, len: usize) -> impl Iterator<Item = SlotRange> {
    split_range(offset, len, SLOT_BYTES).map(|(slot, within, request)| SlotRange {
        slot,
        within,
        request,
    })
}

/// Their numbers.
pub(crate) fn slots_touched(offset: u64, len: usize) -> Range<u32> {
    let end = (offset + len as u64).div_ceil(SLOT_BYTES as u64);
    (offset / SLOT_BYTES as u64) as u32..end as u32
}

/// The slots that `len` bytes at `offset` cover whole: none, where they begin and end in one.
pub(crate) fn slots_covered(offset: u64, len: u64) -> Range<u64> {
    let first = offset.div_ceil(SLOT_BYTES as u64);
    first..((offset + len) / SLOT_BYTES as u64).max(first)
}
