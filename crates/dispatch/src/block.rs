//! The address space of blocks. Each begins at a multiple of its size, and has an inaccessible
//! guard.
//!
//! # Safety
//! The kernel chooses where memory is mapped. A block and its separate storage belong to one
//! caller, from the call that maps them to the one that unmaps them.
#![allow(unsafe_code)]

use crate::storage::Storage;
use crate::x86_64::instructions::raw_syscall;

/// The address space of a block: more than a hook that decompresses needs. Pages that are not
/// touched take no memory.
pub(crate) const BLOCK_BYTES: usize = 256 << 10;
/// The length of a block's head and of its guard: at least a page, whatever the page size.
pub(crate) const PART_BYTES: usize = 16 << 10;
/// The part of a block before its stack: the thread's state, and a guard.
pub(crate) const HEAD_BYTES: usize = 2 * PART_BYTES;
/// Storage has a mapping of its own if it takes more of the block than this.
const STORAGE_BYTES_MAX: usize = 32 << 10;
/// The distance by which the pointer of storage lies below its highest place, so that the words
/// from the pointer on share a page with the storage below.
const POINTER_BYTES: usize = 64;

/// Returns the start of the stack that has `address`.
pub(crate) fn stack_start(address: usize) -> usize {
    (address & !(BLOCK_BYTES - 1)) + HEAD_BYTES
}

/// The place of a thread's storage.
pub(crate) struct StoragePlace {
    pub(crate) pointer: usize,
    /// The bytes of the block that it takes, at its end.
    pub(crate) end_bytes: usize,
    /// The mapping of storage that is too large for the block.
    pub(crate) apart: Option<(usize, usize)>,
}

/// Maps, unmaps or protects memory.
///
/// # Safety
/// The memory that the call changes is the caller's.
pub(crate) unsafe fn memory(number: i64, args: [usize; 6]) -> Result<usize, isize> {
    // SAFETY: the caller vouches for it.
    let result = unsafe { raw_syscall(number as usize, args) };
    if result < 0 { Err(result) } else { Ok(result as usize) }
}

/// Maps address space for a block, aligned to its size.
pub(crate) fn map_block() -> Result<usize, isize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let rw = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    // SAFETY: all of it is a mapping made here, of which only the block is kept.
    unsafe {
        let args = [0, 2 * BLOCK_BYTES, rw, flags as usize, usize::MAX, 0];
        let start = memory(libc::SYS_mmap, args)?;
        let base = start.next_multiple_of(BLOCK_BYTES);
        if base > start {
            memory(libc::SYS_munmap, [start, base - start, 0, 0, 0, 0])?;
        }
        let rest = start + BLOCK_BYTES - base;
        if rest > 0 {
            memory(libc::SYS_munmap, [base + BLOCK_BYTES, rest, 0, 0, 0, 0])?;
        }
        let guard = [base + PART_BYTES, PART_BYTES, libc::PROT_NONE as usize, 0, 0, 0];
        memory(libc::SYS_mprotect, guard)?;
        Ok(base)
    }
}

/// Maps room for storage outside the block at `base`. Unmaps the block if that fails.
fn map_apart(base: usize, bytes: usize) -> Result<(usize, usize), isize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let rw = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let bytes = bytes.next_multiple_of(PART_BYTES);
    // SAFETY: the kernel chooses the address; the block is the caller's, and not used yet.
    unsafe {
        memory(libc::SYS_mmap, [0, bytes, rw, flags as usize, usize::MAX, 0])
            .map(|start| (start, bytes))
            .inspect_err(|_| _ = memory(libc::SYS_munmap, [base, BLOCK_BYTES, 0, 0, 0, 0]))
    }
}

/// Lays storage out at the end of the new block at `base`, or outside it. Unmaps the block if that
/// fails.
pub(crate) fn lay_out_storage(base: usize) -> Result<StoragePlace, isize> {
    let storage = Storage::find();
    let (below, above) = storage.room();
    let (apart, end_bytes) = match below + POINTER_BYTES + above {
        bytes if bytes > STORAGE_BYTES_MAX => (Some(map_apart(base, bytes)?), 0),
        bytes => (None, bytes),
    };
    let end = apart.map_or(base + BLOCK_BYTES, |(start, bytes)| start + bytes);
    let pointer = end - above - POINTER_BYTES;
    // SAFETY: the mapping is new, and has that room.
    unsafe { storage.lay_out(pointer) };
    Ok(StoragePlace { pointer, end_bytes, apart })
}
