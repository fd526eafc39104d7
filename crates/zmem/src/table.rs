//! Tables, each in a mapping of its own.
//!
//! # Safety
//! Until a [`Table`] is dropped, only this table accesses its mapping.
#![allow(unsafe_code)]

use crate::Error;
use page::Zeroed;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munlock, munmap};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{NonNull, null_mut};

// SAFETY: `BlockWord` is a transparent `AtomicU32`, all of whose values are valid.
unsafe impl Zeroed for crate::state::BlockWord {}
// SAFETY: `ChunkWord` is a transparent `AtomicU32`, all of whose values are valid.
unsafe impl Zeroed for crate::chunk_word::ChunkWord {}

/// Maps private memory at an address that the kernel chooses, and unlocks it.
pub(crate) fn map(bytes: usize, protection: ProtFlags) -> Result<NonNull<u8>, Errno> {
    // SAFETY: the kernel chooses the address, so no existing mapping is replaced.
    let start = unsafe {
        mmap_anonymous(null_mut(), bytes, protection, MapFlags::PRIVATE | MapFlags::NORESERVE)?
    };
    if !page::is_confined() {
        // SAFETY: the call changes no data. After `mlockall(MCL_FUTURE)` a new mapping is locked.
        let _refused = unsafe { munlock(start, bytes) };
    }
    NonNull::new(start.cast()).ok_or(Errno::NOMEM)
}

/// Unmaps memory that [`map`] mapped.
pub(crate) fn unmap(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller mapped the memory, and no code uses it any more. If the call fails, the
    // memory stays mapped.
    let _left = unsafe { munmap(start.as_ptr().cast(), bytes) };
}

/// A table whose values begin as zero bytes. Untouched pages of the table use no memory.
#[derive(Debug)]
pub(crate) struct Table<T> {
    start: NonNull<T>,
    len: usize,
    held: PhantomData<T>,
}

// SAFETY: a table only lends shared references to `T`, which is `Sync`. Any thread is allowed to
// unmap the table's mapping.
unsafe impl<T: Zeroed> Send for Table<T> {}
// SAFETY: a table only lends shared references to `T`, which is `Sync`.
unsafe impl<T: Zeroed> Sync for Table<T> {}

impl<T: Zeroed> Table<T> {
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

impl<T: Zeroed> Deref for Table<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `new` mapped zeroed memory for `len` values. Zeros are a valid value, because `T`
        // is `Zeroed`. The mapping begins at a page boundary, so the values are aligned. The
        // mapping exists until `drop`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> Drop for Table<T> {
    fn drop(&mut self) {
        unmap(self.start.cast(), self.bytes().max(1));
    }
}
