//! What one would do without a pool: each blob in a block of malloc, and a table of pointers and
//! lengths.
//!
//! # Safety
//! A slot's pointer is null or came from the allocator's `malloc` with the slot's length, all of
//! whose bytes were written, and it was not freed since: `put` is the only function that writes the
//! two tables, its callers promise that, and it frees the block that it replaces.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr;

use super::Store;
use crate::Error;

/// A C allocator.
///
/// # Safety
/// `malloc` gives null or a block of at least `size` bytes that belongs to nobody else until it is
/// freed.
pub unsafe trait Allocator {
    /// Its name in messages.
    const NAME: &str;

    /// A block of `size` bytes, or null.
    fn malloc(size: usize) -> *mut u8;

    /// Frees a block.
    ///
    /// # Safety
    /// `block` came from this allocator's `malloc` and was not freed since.
    unsafe fn free(block: *mut u8);

    /// Gives free memory back to the system.
    fn purge() -> Result<(), Error>;
}

/// A table of blocks, 12 bytes a slot.
#[derive(Debug)]
pub struct HeapStore<A: Allocator> {
    blocks: Vec<*mut u8>,
    lens: Vec<u32>,
    allocator: PhantomData<A>,
}

impl<A: Allocator> HeapStore<A> {
    /// Without any block.
    pub fn new(slots: u32) -> HeapStore<A> {
        let slots = slots as usize;
        HeapStore {
            blocks: vec![ptr::null_mut(); slots],
            lens: vec![0; slots],
            allocator: PhantomData,
        }
    }

    /// Gives the slot `block` and frees the one before.
    ///
    /// # Safety
    /// `block` is null, or came from A's `malloc`, `len` bytes of it were written, and nothing else
    /// has it: the table frees it.
    unsafe fn put(&mut self, slot: u32, block: *mut u8, len: usize) {
        let old = std::mem::replace(&mut self.blocks[slot as usize], block);
        self.lens[slot as usize] = len as u32;
        if !old.is_null() {
            // SAFETY: the table held it, so it came from A and was not freed; the table no longer
            // holds it.
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
        // SAFETY: the block is new, of as many bytes, and so not part of `bytes`; all of them are
        // written, and then it is the table's alone.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), block, bytes.len());
            self.put(slot, block, bytes.len());
        }
        Ok(())
    }

    fn drop_slot(&mut self, slot: u32) -> Result<(), Error> {
        // SAFETY: it is null.
        unsafe { self.put(slot, ptr::null_mut(), 0) };
        Ok(())
    }

    fn read(&self, slot: u32, out: &mut [u8]) -> Result<usize, Error> {
        let (block, len) = (self.blocks[slot as usize], self.lens[slot as usize] as usize);
        if block.is_null() {
            return Ok(0);
        }
        // SAFETY: `store` wrote `len` bytes to the block, which lives as long as the table holds
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
            // SAFETY: it is null.
            unsafe { self.put(slot, ptr::null_mut(), 0) };
        }
    }
}
