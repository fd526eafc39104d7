//! Address space of blocks: each lies at a multiple of its size, and its guard can't be touched.
//!
//! # Safety
//! The system chooses where memory is mapped. A block and what lies beside it are one caller's,
//! from the call that maps them to the one that gives them back.
#![allow(unsafe_code)]

use crate::storage::Storage;
use crate::x86_64::instructions::raw_syscall;

/// Address space of a block: more than a hook that decompresses takes. Pages that are not touched
/// cost no memory.
pub(crate) const BLOCK_BYTES: usize = 256 << 10;
/// The length of a block's head and of its guard: a page, or a larger system's.
pub(crate) const PART_BYTES: usize = 16 << 10;
/// The part of a block that is no stack: the thread's state, and a guard.
pub(crate) const HEAD_BYTES: usize = 2 * PART_BYTES;
/// Storage has a mapping of its own if it takes more of the block than this.
const STORAGE_BYTES_MAX: usize = 32 << 10;
/// The pointer of storage and the words that find it lie on the page of the storage below.
const POINTER_BYTES: usize = 64;

/// Returns where the stack begins that `address` lies on.
pub(crate) fn stack_start(address: usize) -> usize {
    (address & !(BLOCK_BYTES - 1)) + HEAD_BYTES
}

/// Where a thread's storage lies.
pub(crate) struct StoragePlace {
    pub(crate) pointer: usize,
    /// The bytes of the block that it takes, at its end.
    pub(crate) end_bytes: usize,
    /// The mapping of storage that is too large for the block.
    pub(crate) apart: Option<(usize, usize)>,
}

/// Maps, unmaps or protects.
///
/// # Safety
/// The memory that the call changes is the caller's.
pub(crate) unsafe fn memory(number: i64, args: [usize; 6]) -> Result<usize, isize> {
    // SAFETY: the caller vouches for it.
    let result = unsafe { raw_syscall(number as usize, args) };
    if result < 0 { Err(result) } else { Ok(result as usize) }
}

/// Address space that is a block's, aligned to its size.
pub(crate) fn map_block() -> Result<usize, isize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let rw = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    // SAFETY: all of it is a mapping made here, of which the block in it is kept.
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

/// Maps room for storage beside the block at `base`; gives that back if there is none.
fn map_apart(base: usize, bytes: usize) -> Result<(usize, usize), isize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let rw = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let bytes = bytes.next_multiple_of(PART_BYTES);
    // SAFETY: the system chooses where; the block is the caller's, and not used yet.
    unsafe {
        memory(libc::SYS_mmap, [0, bytes, rw, flags as usize, usize::MAX, 0])
            .map(|start| (start, bytes))
            .inspect_err(|_| _ = memory(libc::SYS_munmap, [base, BLOCK_BYTES, 0, 0, 0, 0]))
    }
}

/// Lays storage out at the end of the new block at `base`, or beside it. Gives the block back if
/// that fails.
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
