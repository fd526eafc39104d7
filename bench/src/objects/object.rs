//! An object: its address, the number of bytes written, and its owner.
//!
//! # Safety
//! The function that creates an object promises that no other code uses the object's bytes. The
//! bytes are read only if the owner's number matches, which [`Owner`] checks.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// An object that is not freed yet.
#[derive(Debug)]
pub struct Object {
    start: NonNull<u8>,
    /// The number of bytes that were written, at least one.
    len: u32,
    /// The number of the allocator that allocated the object.
    owner: Owner,
}

// SAFETY: the value has exclusive access to its bytes.
unsafe impl Send for Object {}

impl Object {
    /// Writes `stamp` to `len` bytes.
    ///
    /// # Safety
    /// `start` points to at least `len` bytes, `len` is not 0, and `owner` allocated the bytes for
    /// this object only.
    #[inline]
    pub(super) unsafe fn new(start: NonNull<u8>, len: u32, stamp: u8, owner: Owner) -> Self {
        // SAFETY: the caller promises that the bytes exist and that nothing else uses them.
        unsafe { start.write_bytes(stamp, len as usize) };
        Object { start, len, owner }
    }

    /// Returns the object's address, to free it.
    #[inline]
    pub(super) fn into_start(self) -> NonNull<u8> {
        self.start
    }

    /// Returns the sum of the first and the last byte that were written.
    ///
    /// # Safety
    /// The allocator that allocated the object still exists.
    #[inline]
    pub(super) unsafe fn sum(&self) -> u64 {
        // SAFETY: `new` wrote the bytes; the caller guarantees that the allocator, and so the
        // memory, still exists.
        unsafe {
            let last = self.start.add(self.len as usize - 1).read();
            u64::from(self.start.read()) + u64::from(last)
        }
    }
}

/// A number that distinguishes the objects of one allocator from the objects of other allocators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner(u32);

impl Owner {
    /// Returns a number that no other allocator has.
    pub(super) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_update(Relaxed, Relaxed, |number| number.checked_add(1));
        Owner(number.expect("fewer than 4 billion kinds of objects are compared"))
    }

    /// Checks that the object has this owner.
    ///
    /// # Panics
    /// If the object has another owner.
    #[inline]
    pub(super) fn check(self, object: &Object) {
        assert!(object.owner == self, "another's object");
    }
}

/// Returns `len`.
///
/// # Panics
/// If `len` is not between 1 and `size`.
#[inline]
pub(super) fn checked(len: usize, size: usize) -> u32 {
    assert!((1..=size).contains(&len), "{len} bytes of {size} are to be written");
    u32::try_from(len).expect("an object has less than 4 GiB")
}
