//! The alternative to a pool: each blob in a block of malloc, and a table of pointers and lengths.
//!
//! # Safety
//! A slot's pointer is null, or it came from the allocator's `malloc` with the slot's length, all
//! its bytes were written, and it was not freed since. `put` is the only function that writes the
//! two tables. Its callers promise this, and it frees the block that it replaces.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr;

use super::Store;
use crate::Error;

/// A C allocator.
///
/// # Safety
/// `malloc` returns null or a block of at least `size` bytes that nothing else uses until it is
/// freed.
pub unsafe trait Allocator {
    /// The allocator's name in messages.
    const NAME: &str;

    /// Returns a block of `size` bytes, or null.
    fn malloc(size: usize) -> *mut u8;

    /// Frees a block.
    ///
    /// # Safety
    /// `block` came from this allocator's `malloc` and was not freed since.
    unsafe fn free(block: *mut u8);

    /// Returns free memory to the system.
    fn purge() -> Result<(), Error>;
}

/// A table of blocks with 12 bytes per slot.
#[derive(Debug)]
pub struct HeapStore<A: Allocator> {
    blocks: Vec<*mut u8>,
    lens: Vec<u32>,
    allocator: PhantomData<A>,
}

impl<A: Allocator> HeapStore<A> {
    /// Creates an empty table.
    pub fn new(slots: u32) -> HeapStore<A> {
        let slots = slots as usize;
        HeapStore {
            blocks: vec![ptr::null_mut(); slots],
            lens: vec![0; slots],
            allocator: PhantomData,
        }
    }

    /// Sets the slot's block and frees the previous one.
    ///
    /// # Safety
    /// `block` is null, or it came from A's `malloc`, `len` bytes of it were written, and nothing
    /// else uses it. The table frees it.
    unsafe fn put(&mut self, slot: u32, block: *mut u8, len: usize) {
        let old = std::mem::replace(&mut self.blocks[slot as usize], block);
        self.lens[slot as usize] = len as u32;
        if !old.is_null() {
            // SAFETY: the table held the block, so it came from A and was not freed; the table no
            // longer holds it.
            unsafe { A::free(old) }
        }
    }
}

impl<A: Allocator> Store for HeapStore<A> {
    #[inline]
    fn store(&mut self, slot: u32, bytes: &[u8]) -> Result<(), Error> {
        let block = A::malloc(bytes.len());
        if block.is_null() {
            return Err(Error::Setup {
                reason: format!("{} has no memory left", A::NAME),
                remedy: "give a smaller --limit",
            });
        }
        // SAFETY: the block is new and has `bytes.len()` bytes, so it does not overlap `bytes`. All
        // its bytes are written, and then only the table holds it.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), block, bytes.len());
            self.put(slot, block, bytes.len());
        }
        Ok(())
    }

    fn drop_slot(&mut self, slot: u32) -> Result<(), Error> {
        // SAFETY: `put` permits a null block.
        unsafe { self.put(slot, ptr::null_mut(), 0) };
        Ok(())
    }

    fn read(&self, slot: u32, out: &mut [u8]) -> Result<usize, Error> {
        let (block, len) = (self.blocks[slot as usize], self.lens[slot as usize] as usize);
        if block.is_null() {
            return Ok(0);
        }
        // SAFETY: `store` wrote `len` bytes to the block, which is not freed while the table holds
        // it.
        out[..len].copy_from_slice(unsafe { std::slice::from_raw_parts(block, len) });
        Ok(len)
    }

    fn purge(&mut self) -> Result<(), Error> {
        A::purge()
    }

    fn counted(&self) -> Option<u64> {
        None
    }
}

impl<A: Allocator> Drop for HeapStore<A> {
    fn drop(&mut self) {
        for slot in 0..self.blocks.len() as u32 {
            // SAFETY: `put` permits a null block.
            unsafe { self.put(slot, ptr::null_mut(), 0) };
        }
    }
}
