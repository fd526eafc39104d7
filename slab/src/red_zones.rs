//! Debug mode: zones around objects, and a pattern in free objects. Allocations and frees detect
//! whether a zone or the pattern has changed.
//!
//! ```text
//!   | left zone (align, 16 or more) | object: size | right zone, 8 or more, up to the next |
//! ```
//! # Safety
//! The zones and the bytes of an object lie within its stride, because the slab's shape was
//! computed from `bytes`.
#![allow(unsafe_code)]

use crate::Error;
use crate::options::{Debug, Options};
use std::ptr::NonNull;

const ZONE: u8 = 0xbd;
const FREED: u8 = 0xdf;
const FRESH: u8 = 0xcd;
const RIGHT_MIN: usize = 8;

#[derive(Debug)]
pub(crate) struct RedZones {
    size: usize,
    left: usize,
    right: usize,
    /// Whether free objects are filled with a pattern. True if the bytes of free objects need not
    /// be preserved.
    fills: bool,
}

impl RedZones {
    pub(crate) fn new(size: usize, align: usize, options: &Options) -> Option<Self> {
        let left = align.max(16);
        let right = (size + RIGHT_MIN).next_multiple_of(align) - size;
        let fills = options.may_forget();
        (options.debug == Debug::On).then_some(RedZones { size, left, right, fills })
    }

    /// Returns the size of an object with its zones, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.left + self.size + self.right
    }

    /// Returns the length of the zone before the object, in bytes.
    pub(crate) fn pad(&self) -> usize {
        self.left
    }

    /// Writes the zones of a new object, and fills it.
    ///
    /// # Safety
    /// The object is in a slab whose shape was computed from [`bytes`](Self::bytes), and no thread
    /// uses the object.
    pub(crate) unsafe fn write_zones(&self, object: NonNull<u8>) {
        // SAFETY: the zones lie within the object's stride, and the caller guarantees that no
        // thread uses the object.
        unsafe {
            object.sub(self.left).write_bytes(ZONE, self.left);
            object.add(self.size).write_bytes(ZONE, self.right);
            self.fill(object, FREED);
        }
    }

    /// # Safety
    /// The same requirements as for `write_zones`.
    unsafe fn fill(&self, object: NonNull<u8>, byte: u8) {
        if self.fills {
            // SAFETY: the caller guarantees that no thread uses the object, which has `size` bytes.
            unsafe { object.write_bytes(byte, self.size) };
        }
    }

    /// Returns the address of the first of the `len` bytes at `start` that is not `byte`.
    ///
    /// # Safety
    /// The bytes belong to an object that no thread uses, or to its zones.
    unsafe fn first_other(start: NonNull<u8>, len: usize, byte: u8) -> Option<usize> {
        // SAFETY: the caller guarantees that no thread writes to these bytes.
        let bytes = unsafe { std::slice::from_raw_parts(start.as_ptr(), len) };
        let at = bytes.iter().position(|&other| other != byte)?;
        Some(start.addr().get() + at)
    }

    /// Checks and fills an object that is about to be allocated.
    /// # Safety
    /// The requirements of `write_zones`, which has been called for this object.
    pub(crate) unsafe fn on_alloc(&self, object: NonNull<u8>) -> Result<(), Error> {
        let address = object.addr().get();
        if self.fills {
            // SAFETY: the object has `size` bytes, and the caller guarantees that no thread uses
            // it.
            if let Some(at) = unsafe { Self::first_other(object, self.size, FREED) } {
                return Err(Error::UsedAfterFree { address, at });
            }
        }
        // SAFETY: the caller guarantees the requirements of `write_zones`.
        unsafe {
            self.check_zones(object)?;
            self.fill(object, FRESH);
        }
        Ok(())
    }

    /// Checks and fills an object that was freed.
    /// # Safety
    /// The requirements of `write_zones`, which has been called for this object.
    pub(crate) unsafe fn on_free(&self, object: NonNull<u8>) -> Result<(), Error> {
        // SAFETY: the caller guarantees the requirements of `write_zones`.
        unsafe {
            self.check_zones(object)?;
            self.fill(object, FREED);
        }
        Ok(())
    }

    /// # Safety
    /// The requirements of `write_zones`, which has been called for this object.
    unsafe fn check_zones(&self, object: NonNull<u8>) -> Result<(), Error> {
        // SAFETY: the zones lie within the object's stride, and the caller guarantees that no
        // thread uses the object.
        let found = unsafe {
            let left = Self::first_other(object.sub(self.left), self.left, ZONE);
            left.or_else(|| Self::first_other(object.add(self.size), self.right, ZONE))
        };
        let address = object.addr().get();
        found.map_or(Ok(()), |at| Err(Error::RedZone { address, at }))
    }
}
