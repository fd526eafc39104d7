//! What marks blocks, and has them be readable again: one trait, which the pager alone calls.
//!
//! All ranges are bytes of the region, of blocks that the caller owns (zm-S1). What each call
//! leaves is what zm-S2 says of the state that the caller publishes next.

mod signal;

pub(crate) use signal::{Marks, Signal};

use crate::memory::Managed;
use rustix::io::Errno;
use std::fmt::Debug;
use std::ops::Range;

/// A way to mark memory, and to fill it so that nobody sees half of it.
pub(crate) trait Backend: Debug + Send + Sync {
    /// How many mappings its marks of so many absent blocks may come to.
    fn mappings_max(&self, units: usize) -> usize;

    /// Has a chunk that was never touched be opened block by block.
    fn open_chunk(&self, memory: &Managed, chunk: Range<usize>) -> Result<(), Errno>;

    /// Has what was never touched be zeros that can be read and written.
    fn fill_zeros(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno>;

    /// Gives what is marked its data, at once for all who look.
    fn fill(&self, memory: &Managed, range: Range<usize>, data: &[u8]) -> Result<(), Errno>;

    /// Has a touch of what is resident fault; the data stay.
    fn close(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno>;

    /// Has what was closed be readable and writable again.
    fn reopen(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno>;

    /// Copies what is closed.
    fn read(&self, memory: &Managed, at: usize, buf: &mut [u8]) -> Result<(), Errno>;

    /// Gives pages back, of what is resident or closed, and marks it.
    fn drop_pages(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno>;
}
