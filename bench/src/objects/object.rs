//! An object: where it begins, how much of it was written, and whose it is.
//!
//! # Safety
//! Who makes one promises its bytes; they are read only on the word of its owner, which [`Owner`]
//! tells from all others.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// An object that is not freed yet.
#[derive(Debug)]
pub struct Object {
    start: NonNull<u8>,
    /// Bytes that were written, at least one.
    len: u32,
    /// The number of the objects it came from.
    owner: Owner,
}

// SAFETY: whoever has it alone has its bytes.
unsafe impl Send for Object {}

impl Object {
    /// Writes `len` bytes.
    ///
    /// # Safety
    /// `start` has `len` bytes, at least one, and `owner` gave them to this object alone.
    #[inline]
    pub(super) unsafe fn new(start: NonNull<u8>, len: u32, stamp: u8, owner: Owner) -> Self {
        // SAFETY: the caller promises that they are there, and nobody else's.
        unsafe { start.write_bytes(stamp, len as usize) };
        Object { start, len, owner }
    }

    /// Returns where it begins, to free it there.
    #[inline]
    pub(super) fn into_start(self) -> NonNull<u8> {
        self.start
    }

    /// Returns the sum of the first and the last byte that were written.
    ///
    /// # Safety
    /// The objects it came from are still there.
    #[inline]
    pub(super) unsafe fn sum(&self) -> u64 {
        // SAFETY: `new` wrote them; the caller promises that the memory has not gone since.
        unsafe {
            let last = self.start.add(self.len as usize - 1).read();
            u64::from(self.start.read()) + u64::from(last)
        }
    }
}

/// Tells objects of one kind or cache from another's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner(u32);

impl Owner {
    /// One that no other has.
    pub(super) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_update(Relaxed, Relaxed, |number| number.checked_add(1));
        Owner(number.expect("fewer than 4 billion kinds of objects are compared"))
    }

    /// # Panics
    /// If the object came from other objects.
    #[inline]
    pub(super) fn check(self, object: &Object) {
        assert!(object.owner == self, "another's object");
    }
}

/// Returns `len`, which is 1 to `size`.
///
/// # Panics
/// If it is not.
#[inline]
pub(super) fn checked(len: usize, size: usize) -> u32 {
    assert!((1..=size).contains(&len), "{len} bytes of {size} are to be written");
    u32::try_from(len).expect("an object has less than 4 GiB")
}
