//! The memory that `ioctl` touches.

use super::{TRANSFER_MAX, Walk};
use crate::argument::Access;
use crate::ioctl;
use crate::sizes::WORD;

/// `SIOCGIFCONF`: a structure that holds the length and the address of a buffer.
const IFCONF: u32 = 0x8912;
/// `FS_IOC_FIEMAP`: a structure that holds a number of extents, followed by memory for these
/// extents.
const FIEMAP: u32 = 0xc020_660b;
const FIEMAP_BYTES: usize = 32;
const FIEMAP_COUNT_AT: usize = 24;
const EXTENT: usize = 56;

impl Walk<'_> {
    /// Reports the memory of the last argument of `ioctl`.
    pub(super) fn ioctl(&mut self, address: usize) -> Option<()> {
        let [_, request, ..] = *self.arguments;
        self.argument(ioctl::argument(request), address);
        // The kernel reads an `unsigned int`. The structures that this code reads were completely
        // reported above.
        match request as u32 {
            IFCONF if address != 0 => {
                Self::at(address, 2 * WORD)?;
                let (bytes, buffer) = (self.int(address, 0)?, self.word(address, WORD)?);
                self.report(buffer, bytes.min(TRANSFER_MAX), Access::Write);
            }
            FIEMAP if address != 0 => {
                let extents = self.int(address, FIEMAP_COUNT_AT)?.checked_mul(EXTENT)?;
                let start = Self::at(address, FIEMAP_BYTES)?;
                self.report(start, extents.min(TRANSFER_MAX), Access::Write);
            }
            _ => {}
        }
        Some(())
    }
}
