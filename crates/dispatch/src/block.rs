//! Maps dispatch blocks. Each block contains a thread's state, stack and thread-local storage. A
//! block begins at a multiple of its size, and contains an inaccessible guard.
//!
//! # Safety
//! The kernel chooses where memory is mapped. A block and its separate storage belong to one
//! caller, from the call that maps them until the call that unmaps them.
#![allow(unsafe_code)]

use crate::policy::{BLOCK_BYTES, PART_BYTES, POINTER_ALIGN, STORAGE_BYTES_MAX};
use crate::storage::Storage;
use crate::system::system;

/// Returns the start of the dispatch block that contains `address`.
pub(crate) fn base(address: usize) -> usize {
    address & !(BLOCK_BYTES - 1)
}

/// The location of a thread's thread-local storage.
pub(crate) struct StoragePlace {
    pub(crate) pointer: usize,
    /// The number of bytes that the storage occupies at the end of the block.
    pub(crate) end_bytes: usize,
    /// The address and length of a separate mapping for storage that is too large for the block.
    pub(crate) apart: Option<(usize, usize)>,
}

/// Maps zeroed memory.
fn map(bytes: usize) -> Result<usize, isize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let rw = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    system(libc::SYS_mmap, [0, bytes, rw, flags as usize, usize::MAX, 0])
}

/// Maps address space for a dispatch block, aligned to the block's size.
pub(crate) fn map_block() -> Result<usize, isize> {
    let start = map(2 * BLOCK_BYTES)?;
    let base = start.next_multiple_of(BLOCK_BYTES);
    // The unmapped ranges lie in the new mapping, outside the block.
    if base > start {
        system(libc::SYS_munmap, [start, base - start, 0, 0, 0, 0])?;
    }
    let rest = start + BLOCK_BYTES - base;
    if rest > 0 {
        system(libc::SYS_munmap, [base + BLOCK_BYTES, rest, 0, 0, 0, 0])?;
    }
    let guard = [base + PART_BYTES, PART_BYTES, libc::PROT_NONE as usize, 0, 0, 0];
    system(libc::SYS_mprotect, guard)?;
    Ok(base)
}

/// Maps memory for thread-local storage, outside the block at `base`. If the mapping fails, unmaps
/// the block.
fn map_apart(base: usize, bytes: usize) -> Result<(usize, usize), isize> {
    let bytes = bytes.next_multiple_of(PART_BYTES);
    map(bytes)
        .map(|start| (start, bytes))
        .inspect_err(|_| _ = system(libc::SYS_munmap, [base, BLOCK_BYTES, 0, 0, 0, 0]))
}

/// Lays out thread-local storage for the new block at `base`. The storage lies at the end of the
/// block if it fits there, otherwise in a separate mapping. If an error occurs, unmaps the block.
pub(crate) fn lay_out_storage(base: usize) -> Result<StoragePlace, isize> {
    let storage = Storage::find();
    let (below, above) = storage.room();
    // The pointer lies `POINTER_ALIGN` bytes below the end of a page, so that the words at the
    // pointer share a page with the storage below.
    let above = POINTER_ALIGN + above;
    let (apart, end_bytes) = match below + above {
        bytes if bytes > STORAGE_BYTES_MAX => (Some(map_apart(base, bytes)?), 0),
        bytes => (None, bytes),
    };
    let end = apart.map_or(base + BLOCK_BYTES, |(start, bytes)| start + bytes);
    let pointer = end - above;
    // SAFETY: the mapping is new, and has space for the storage below and above `pointer`.
    unsafe { storage.lay_out(pointer) };
    Ok(StoragePlace { pointer, end_bytes, apart })
}
