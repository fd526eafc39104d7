//! Memory beside a region, in which blocks are filled before they are moved to their places, or to
//! which they are moved while they are closed (staging).
#![allow(unsafe_code)]

use super::{Managed, Owner};
use rustix::io::Errno;
use rustix::mm::{MprotectFlags, MremapFlags, mremap_fixed};
use std::ops::Range;

/// The flag came with Linux 5.7; not every backend of `rustix` names it.
const MREMAP_DONTUNMAP: MremapFlags = MremapFlags::from_bits_retain(4);

impl Managed {
    /// Copies the bytes from `at` on in staging, which is readable.
    pub(crate) fn copy_out(&self, at: usize, buf: &mut [u8]) {
        assert!(self.owner == Owner::Us);
        let (start, bytes) = self.place(&(at..at + buf.len()));
        // SAFETY: the range lies within, and only whole pages come and go there. A caller whose
        // page goes copies zeros, and then finds that it does not get the block (zm-U4).
        unsafe { start.cast::<u8>().copy_to_nonoverlapping(buf.as_mut_ptr(), bytes) }
    }

    /// Copies the bytes from `at` on, which are readable. The caller keeps them from being written,
    /// or checks afterwards whether they were.
    pub(crate) fn read_open(&self, at: usize, buf: &mut [u8]) {
        let (start, bytes) = self.place(&(at..at + buf.len()));
        // SAFETY: the range lies within, and can be read. If a thread writes to it during the copy,
        // the caller finds that out and does not use the copy.
        unsafe { buf.as_mut_ptr().copy_from_nonoverlapping(start.cast(), bytes) }
    }

    /// Copies bytes to memory beside a region, from where [`place_from`](Self::place_from) moves
    /// them.
    pub(crate) fn stage(&self, at: usize, bytes: &[u8]) {
        let (start, len) = self.place(&(at..at + bytes.len()));
        // SAFETY: the range lies within memory that is open. Only the owner of the block at this
        // offset touches this part.
        unsafe { start.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), len) }
    }

    /// Moves the pages of a range of `staged` to the same range here, atomically for other threads.
    /// The range of `staged` is empty then. The caller owns the blocks.
    pub(crate) fn place_from(&self, staged: &Managed, range: Range<usize>) -> Result<(), Errno> {
        let (from, bytes) = staged.place(&range);
        let (to, _) = self.place(&range);
        let flags = MremapFlags::MAYMOVE | MREMAP_DONTUNMAP;
        // SAFETY: both lie within. The caller owns the blocks, and the pages that are replaced hold
        // no data, as the blocks are absent. With DONTUNMAP `staged` stays mapped.
        unsafe { mremap_fixed(from, bytes, bytes, flags, to)? };
        // Staged memory is not executable.
        if self.open_flags(&range).contains(MprotectFlags::EXEC) {
            self.open(range)
        } else {
            Ok(())
        }
    }
}
