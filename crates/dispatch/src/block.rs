//! The address space of blocks. Each block begins at a multiple of its size, and contains an
//! inaccessible guard.
//!
//! # Safety
//! The kernel chooses where memory is mapped. A block and its separate storage belong to one
//! caller, from the call that maps them until the call that unmaps them.
#![allow(unsafe_code)]

use crate::policy::STORAGE_BYTES_MAX;
use crate::storage::Storage;
use crate::system::system;

/// The size in bytes of a block's address space, which is more than a hook that decompresses needs.
/// Pages that are never touched use no memory.
pub(crate) const BLOCK_BYTES: usize = 256 << 10;
/// The length in bytes of a block's head, and of its guard: a multiple of every supported page
/// size.
pub(crate) const PART_BYTES: usize = 16 << 10;
/// The number of bytes of a block before its stack: the thread's state, and a guard.
pub(crate) const HEAD_BYTES: usize = 2 * PART_BYTES;
/// The number of bytes left free after the storage, so that the words from the thread pointer on
/// share a page with the storage below the pointer.
const POINTER_BYTES: usize = 64;

/// Returns the start of the stack that contains `address`.
pub(crate) fn stack_start(address: usize) -> usize {
    (address & !(BLOCK_BYTES - 1)) + HEAD_BYTES
}

/// The place of a thread's thread-local storage.
pub(crate) struct StoragePlace {
    pub(crate) pointer: usize,
    /// The number of bytes at the end of the block that the storage occupies.
    pub(crate) end_bytes: usize,
    /// The address and the length of the mapping of storage that is too large for the block.
    pub(crate) apart: Option<(usize, usize)>,
}

/// Maps address space for a block, aligned to the block's size.
pub(crate) fn map_block() -> Result<usize, isize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let rw = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let args = [0, 2 * BLOCK_BYTES, rw, flags as usize, usize::MAX, 0];
    let start = system(libc::SYS_mmap, args)?;
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

/// Maps memory for thread-local storage, outside the block at `base`. If that fails, unmaps the
/// block.
fn map_apart(base: usize, bytes: usize) -> Result<(usize, usize), isize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let rw = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let bytes = bytes.next_multiple_of(PART_BYTES);
    system(libc::SYS_mmap, [0, bytes, rw, flags as usize, usize::MAX, 0])
        .map(|start| (start, bytes))
        .inspect_err(|_| _ = system(libc::SYS_munmap, [base, BLOCK_BYTES, 0, 0, 0, 0]))
}

/// Lays out the storage of the new block at `base`: at the end of the block if the storage fits
/// there, otherwise outside the block. If that fails, unmaps the block.
pub(crate) fn lay_out_storage(base: usize) -> Result<StoragePlace, isize> {
    let storage = Storage::find();
    let (below, above) = storage.room();
    let (apart, end_bytes) = match below + POINTER_BYTES + above {
        bytes if bytes > STORAGE_BYTES_MAX => (Some(map_apart(base, bytes)?), 0),
        bytes => (None, bytes),
    };
    let end = apart.map_or(base + BLOCK_BYTES, |(start, bytes)| start + bytes);
    let pointer = end - above - POINTER_BYTES;
    // SAFETY: the mapping is new, and has room for the storage below and above `pointer`.
    unsafe { storage.lay_out(pointer) };
    Ok(StoragePlace { pointer, end_bytes, apart })
}
