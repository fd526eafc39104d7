//! Walks the structures of `ioctl` requests that contain further addresses.

use super::reports::{Walk, at};
use crate::argument::Access;
use crate::limits::TRANSFER_MAX;
use crate::sizes::WORD;

/// `SIOCGIFCONF`: a structure that holds the length and the address of a buffer.
const IFCONF: u32 = 0x8912;
/// `FS_IOC_FIEMAP`: a structure that holds a number of extents, followed by space for these
/// extents.
const FIEMAP: u32 = 0xc020_660b;
const FIEMAP_BYTES: usize = 32;
const FIEMAP_COUNT_AT: usize = 24;
const EXTENT: usize = 56;

/// Reports the memory to which the structure at `address` points. The caller must have reported the
/// whole structure.
pub(super) fn follow(walk: &mut Walk<'_>, request: u32, address: usize) -> Option<()> {
    match request {
        IFCONF if address != 0 => {
            at(address, 2 * WORD)?;
            let (bytes, buffer) = (walk.int(address, 0)?, walk.word(address, WORD)?);
            walk.report(buffer, bytes.min(TRANSFER_MAX), Access::Write);
        }
        FIEMAP if address != 0 => {
            let extents = walk.int(address, FIEMAP_COUNT_AT)?.checked_mul(EXTENT)?;
            let start = at(address, FIEMAP_BYTES)?;
            walk.report(start, extents.min(TRANSFER_MAX), Access::Write);
        }
        _ => {}
    }
    Some(())
}
