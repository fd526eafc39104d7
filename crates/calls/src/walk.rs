//! Finds the ranges of memory that a call touches, from the call's arguments.

use crate::argument::{Access, Argument, Choice};
use crate::count::Length;
use crate::memory::Memory;
use crate::table;
use core::ops::Range;

mod pointees;
mod requests;

/// The first address above the addresses that a program can use.
pub const ADDRESS_END: usize = 1 << 56;

/// The maximum number of ranges that a walk reports: enough for 1024 messages of 1024 buffers each,
/// and for the headers of these messages.
pub const RANGES_MAX: usize = 1 << 21;

/// The maximum number of bytes that the kernel transfers in a call. Longer buffers are reported up
/// to this length.
const TRANSFER_MAX: usize = 0x7fff_f000;

/// The minimum page size in bytes. Strings are reported in parts that end at multiples of this
/// size.
const PAGE: usize = 4096;

/// The maximum length of a path in bytes, with its NUL.
const PATH_MAX: usize = 4096;

/// The lowest address that can be mapped by default (`vm.mmap_min_addr`). The walk treats smaller
/// values as numbers, not as addresses.
const ADDRESS_LEAST: usize = 1 << 16;

/// Reports each range of memory that a system call touches if it is issued now.
///
/// `found` is called with a range before `memory` reads any byte of this range, because `found` may
/// have to fill the range first. Ranges may overlap, and may be reported repeatedly. No range is
/// empty or ends above [`ADDRESS_END`], and at most [`RANGES_MAX`] ranges are reported.
///
/// If an argument is one that the kernel refuses, such as a count above its limit or an invalid
/// address, the walk cuts or ignores it. Other threads may change the memory during the walk. The
/// reported ranges correspond to the contents that the walk has read.
pub fn ranges(
    number: usize,
    arguments: [usize; 6],
    memory: &impl Memory,
    found: &mut dyn FnMut(Range<usize>, Access),
) {
    let mut walk = Walk { memory, found, arguments: &arguments, left: RANGES_MAX };
    match table::spec(number) {
        Some(spec) => {
            for (argument, value) in spec.arguments.iter().zip(arguments) {
                walk.argument(*argument, value);
            }
        }
        None => arguments.into_iter().for_each(|value| walk.unknown(value)),
    }
}

/// A walk through a call's arguments.
struct Walk<'w> {
    memory: &'w dyn Memory,
    found: &'w mut dyn FnMut(Range<usize>, Access),
    arguments: &'w [usize; 6],
    /// The number of ranges that may still be reported.
    left: usize,
}

/// Returns an address without the tag that aarch64 allows in its highest byte.
fn untagged(address: usize) -> usize {
    if cfg!(target_arch = "aarch64") { address & (ADDRESS_END - 1) } else { address }
}

impl Walk<'_> {
    /// Reports a range, cut to valid addresses. Returns whether the whole range was reported.
    fn report(&mut self, address: usize, bytes: usize, access: Access) -> bool {
        let start = untagged(address);
        let end = start.saturating_add(bytes).min(ADDRESS_END);
        if start == 0 || start >= end {
            return false;
        }
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        (self.found)(start..end, access);
        end - start == bytes
    }

    /// Reports one byte at `value`, which may be an address.
    fn unknown(&mut self, value: usize) {
        if (ADDRESS_LEAST..ADDRESS_END).contains(&untagged(value)) {
            self.report(value, 1, Access::Unknown);
        }
    }

    /// Returns the address at an offset from `address`.
    fn at(address: usize, offset: usize) -> Option<usize> {
        untagged(address).checked_add(offset).filter(|at| *at < ADDRESS_END)
    }

    /// Returns the word at an offset from `address`, in a range that was reported before.
    fn word(&self, address: usize, offset: usize) -> Option<usize> {
        self.memory.read_usize(Self::at(address, offset)?)
    }

    /// Returns the 4 bytes at an offset from `address` as an integer.
    fn int(&self, address: usize, offset: usize) -> Option<usize> {
        self.memory.read_u32(Self::at(address, offset)?).map(|value| value as usize)
    }

    fn argument(&mut self, argument: Argument, value: usize) {
        let address = untagged(value);
        match argument {
            Argument::Plain => {}
            Argument::Unknown => self.unknown(value),
            Argument::Buffer(access, length) => {
                let bytes = self.length(length, address);
                self.report(address, bytes, access);
            }
            Argument::Text => self.text(address, PATH_MAX),
            Argument::Pointee(form) => self.pointee(form, address),
            Argument::By(choice) => {
                if let Some(argument) = self.chosen(choice) {
                    self.argument(argument, value);
                }
            }
        }
    }

    /// Returns the kind of an argument whose kind depends on another argument. Choices are nested
    /// at most twice, as a test of the table checks.
    fn chosen(&self, choice: &'static Choice) -> Option<Argument> {
        let value = self.arguments.get(usize::from(choice.argument))? & choice.mask;
        let case = choice.cases.iter().find(|(of, _)| *of == value);
        Some(case.map_or(choice.other, |(_, argument)| *argument))
    }

    /// Returns the number of bytes at `address` that `length` describes.
    fn length(&mut self, length: Length, address: usize) -> usize {
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
                if !self.report(place, 4, Access::Both) {
                    return 0;
                }
                // The value is an `int`; the kernel refuses a negative value.
                let bytes = self.int(place, 0).unwrap_or(0);
                if bytes > i32::MAX as usize { 0 } else { bytes.min(TRANSFER_MAX) }
            }
            Length::Own { at, more, least, most } => {
                if !self.report(address, least, Access::Read) {
                    return 0;
                }
                let bytes = self.int(address, at).unwrap_or(0).saturating_add(more);
                bytes.clamp(least, most)
            }
        }
    }

    /// Reports at most `most` bytes of a string, up to the end of the page that contains its NUL.
    fn text(&mut self, address: usize, most: usize) {
        let (mut at, mut left) = (untagged(address), most);
        while left > 0 {
            let step = left.min(PAGE - at % PAGE);
            if !self.report(at, step, Access::Read) || self.ends(at, step) {
                return;
            }
            let Some(next) = Self::at(at, step) else { return };
            (at, left) = (next, left - step);
        }
    }

    /// Returns true if the `bytes` bytes at `address` contain a NUL or can't be read.
    fn ends(&self, address: usize, bytes: usize) -> bool {
        let mut piece = [0; 64];
        let mut done = 0;
        while done < bytes {
            let step = piece.len().min(bytes - done);
            let Some(into) = piece.get_mut(..step) else { return true };
            let read = Self::at(address, done).is_some_and(|at| self.memory.read(at, into));
            if !read || into.contains(&0) {
                return true;
            }
            done += step;
        }
        false
    }
}
