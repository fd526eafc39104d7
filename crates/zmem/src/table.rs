//! Tables, each in its own mapping, because signal handlers can't use the heap.
//!
//! # Safety
//! Only a [`Table`] accesses its mapping, until the table is dropped.
#![allow(unsafe_code)]

use crate::Error;
use crate::memory::{map, unmap};
use rustix::mm::ProtFlags;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

/// Types for which zero bytes are a valid value, and that threads may share.
///
/// # Safety
/// Zero bytes are a valid value of the type, and the type needs no drop.
pub(crate) unsafe trait Zeros: Sync {}

// SAFETY: zero bytes are the number 0.
unsafe impl Zeros for std::sync::atomic::AtomicU64 {}
// SAFETY: `BlockWord` is a transparent `AtomicU32`.
unsafe impl Zeros for crate::state::BlockWord {}
// SAFETY: `ChunkWord` is a transparent atomic number.
unsafe impl Zeros for crate::chunk_word::ChunkWord {}

/// A table whose values begin as zero bytes. Its pages use no memory until they are touched.
#[derive(Debug)]
pub(crate) struct Table<T> {
    start: NonNull<T>,
    len: usize,
    held: PhantomData<T>,
}

// SAFETY: a table only lends shared references to `T`, which is `Sync`, and any thread may unmap
// the mapping.
unsafe impl<T: Zeros> Send for Table<T> {}
// SAFETY: a table only lends shared references to `T`, which is `Sync`.
unsafe impl<T: Zeros> Sync for Table<T> {}

impl<T: Zeros> Table<T> {
    pub(crate) fn new(len: usize) -> Result<Self, Error> {
        let bytes = (len * size_of::<T>()).max(1);
        let start = map(bytes, ProtFlags::READ | ProtFlags::WRITE);
        let start = start.map_err(Error::system("tables of a region"))?;
        Ok(Table { start: start.cast(), len, held: PhantomData })
    }
}

impl<T> Table<T> {
    pub(crate) fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }
}

impl<T: Zeros> Deref for Table<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `new` mapped room for `len` values of zero bytes, which are valid because of
        // `Zeros`. The mapping begins at a page boundary, so the values are aligned. The mapping
        // exists until `drop`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> Drop for Table<T> {
    fn drop(&mut self) {
        unmap(self.start.cast(), self.bytes().max(1));
    }
}
