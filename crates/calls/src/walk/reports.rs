//! Reports ranges of memory during a walk, and reads memory that the walk has already reported.

use crate::argument::Access;
use crate::count::Length;
use crate::limits::{ADDRESS_END, ADDRESS_LEAST, PAGE, TRANSFER_MAX};
use crate::memory::Memory;
use crate::sizes::WORD;
use core::ops::Range;

pub(super) struct Walk<'w> {
    pub(super) memory: &'w dyn Memory,
    pub(super) found: &'w mut dyn FnMut(Range<usize>, Access),
    pub(super) arguments: &'w [usize; 6],
    /// The number of further ranges that can be reported.
    pub(super) left: usize,
}

/// Removes the tag that aarch64 allows in the highest byte of an address.
pub(super) fn untagged(address: usize) -> usize {
    if cfg!(target_arch = "aarch64") { address & (ADDRESS_END - 1) } else { address }
}

/// Returns `address + offset`, or `None` if the sum is not a valid address.
pub(super) fn at(address: usize, offset: usize) -> Option<usize> {
    untagged(address).checked_add(offset).filter(|at| *at < ADDRESS_END)
}

impl Walk<'_> {
    /// Reports the valid addresses of a range. Returns `None` if part of the range was not
    /// reported.
    pub(super) fn report(&mut self, address: usize, bytes: usize, access: Access) -> Option<()> {
        let start = untagged(address);
        let end = start.saturating_add(bytes).min(ADDRESS_END);
        if start == 0 || start >= end {
            return None;
        }
        self.left = self.left.checked_sub(1)?;
        (self.found)(start..end, access);
        (end - start == bytes).then_some(())
    }

    /// Reports one byte at `value` if `value` may be an address.
    pub(super) fn unknown(&mut self, value: usize) {
        if (ADDRESS_LEAST..ADDRESS_END).contains(&untagged(value)) {
            self.report(value, 1, Access::Unknown);
        }
    }

    /// Returns the word at `address + offset`, which the walk must have reported.
    pub(super) fn word(&self, address: usize, offset: usize) -> Option<usize> {
        self.memory.read_usize(at(address, offset)?)
    }

    /// Returns, as an integer, the 4 bytes at `address + offset`, which the walk must have
    /// reported.
    pub(super) fn int(&self, address: usize, offset: usize) -> Option<usize> {
        self.memory.read_u32(at(address, offset)?).map(|value| value as usize)
    }

    /// Reports a buffer. The word at `address + offset` is the buffer's address, and the next word
    /// is its length.
    pub(super) fn pair(&mut self, address: usize, offset: usize, access: Access) -> Option<()> {
        let start = self.word(address, offset)?;
        let bytes = self.word(address, offset.checked_add(WORD)?)?;
        self.report(start, bytes.min(TRANSFER_MAX), access);
        Some(())
    }

    /// Returns the number of bytes in the memory range at `address`, as defined by `length`.
    pub(super) fn length(&mut self, length: Length, address: usize) -> usize {
        match length {
            Length::Bytes(bytes) => bytes,
            Length::Items { count, bytes, more } => {
                let items = count.of(self.arguments).saturating_mul(bytes);
                items.min(TRANSFER_MAX).saturating_add(more)
            }
            Length::Bits { count, less } => {
                let bits = count.of(self.arguments).saturating_sub(less);
                bits.div_ceil(usize::BITS as usize).saturating_mul(size_of::<usize>())
            }
            Length::Pages(count) => count.of(self.arguments).div_ceil(PAGE),
            Length::FromMemory(nth) => {
                let place = self.arguments.get(usize::from(nth)).copied().unwrap_or(0);
                if self.report(place, 4, Access::Both).is_none() {
                    return 0;
                }
                // The value is an `int`. The kernel refuses a negative value.
                let bytes = self.int(place, 0).unwrap_or(0);
                if bytes > i32::MAX as usize { 0 } else { bytes.min(TRANSFER_MAX) }
            }
            Length::Own { at: offset, more, least, most } => {
                if self.report(address, least, Access::Read).is_none() {
                    return 0;
                }
                let bytes = self.int(address, offset).unwrap_or(0).saturating_add(more);
                bytes.clamp(least, most)
            }
        }
    }

    /// Reports a string of at most `most` bytes, up to the end of the page that contains its NUL.
    pub(super) fn text(&mut self, address: usize, most: usize) {
        let (mut part, mut left) = (untagged(address), most);
        while left > 0 {
            let step = left.min(PAGE - part % PAGE);
            if self.report(part, step, Access::Read).is_none() || self.ends(part, step) {
                return;
            }
            let Some(next) = at(part, step) else { return };
            (part, left) = (next, left - step);
        }
    }

    /// Returns true if the `bytes` bytes at `address` contain a NUL or can't be read.
    fn ends(&self, address: usize, bytes: usize) -> bool {
        let mut piece = [0; 64];
        let mut done = 0;
        while done < bytes {
            let step = piece.len().min(bytes - done);
            let Some(into) = piece.get_mut(..step) else { return true };
            let read = at(address, done).is_some_and(|at| self.memory.read(at, into));
            if !read || into.contains(&0) {
                return true;
            }
            done += step;
        }
        false
    }
}
