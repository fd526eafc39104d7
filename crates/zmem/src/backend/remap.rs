//! Marks of mappings, for where /proc/self/mem is refused: a block is made beside the region, and
//! moved over its place by `mremap`.
//!
//! ```text
//!   staged:  |    | data |    |      as large as the region; open, and empty but for what is made
//!                   | mremap
//!   region:  |    |  v   |    |
//! ```
//! A block is made at its own offset, so what was moved lies as far from where it came from as its
//! neighbours do, and the system joins them to one mapping. What is closed can be read, as there is
//! no other way to copy it: so a touch that reads takes no block out of probation.

use super::{Backend, Data, undone};
use crate::memory::{Managed, table_reach};
use rustix::io::Errno;
use std::ops::Range;
use std::sync::OnceLock;

/// The backend `signal`, without /proc/self/mem.
#[derive(Debug)]
pub(crate) struct SignalRemap {
    beside: Beside,
    name: &'static str,
}

/// Memory beside a region, where blocks are made.
fn map_beside(memory: &Managed) -> Result<Managed, Errno> {
    // A chunk has tables of its own there, too.
    let staged = Managed::map(memory.bytes(), table_reach())?;
    staged.open(0..staged.bytes())?;
    Ok(staged)
}

impl SignalRemap {
    pub(crate) fn new(memory: &Managed, name: &'static str) -> Result<Self, Errno> {
        let staged = map_beside(memory)?;
        // The region itself is as much data, when all of it is open.
        drop(map_beside(memory)?);
        Ok(SignalRemap { beside: Beside(staged.into()), name })
    }
}

/// Where blocks are made. Where /proc/self/mem is refused later, to a region that was made with it,
/// it takes nothing before that.
#[derive(Debug, Default)]
pub(crate) struct Beside(OnceLock<Managed>);

impl Beside {
    /// As [`Backend::fill`].
    pub(crate) fn fill(
        &self,
        memory: &Managed,
        range: Range<usize>,
        data: &[u8],
    ) -> Result<(), Errno> {
        let staged = match self.0.get() {
            Some(staged) => staged,
            None => {
                let staged = map_beside(memory)?;
                self.0.get_or_init(|| staged)
            }
        };
        staged.stage(range.start, data);
        memory.place_from(staged, range)
    }
}

impl Backend for SignalRemap {
    fn describe(&self) -> &'static str {
        self.name
    }

    fn mappings_max(&self, units: usize) -> usize {
        units + 1
    }

    fn open_chunk(&self, _memory: &Managed, _chunk: Range<usize>) -> Result<(), Errno> {
        Ok(())
    }

    fn close_chunk(&self, memory: &Managed, chunk: Range<usize>) -> Result<(), Errno> {
        self.beside.0.get().map_or(Ok(()), |staged| staged.drop_pages(chunk.clone()))?;
        memory.drop_pages(chunk)
    }

    /// A block is made beside the region, which leaves a table there.
    fn places(&self) -> usize {
        2
    }

    fn fill_zeros(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
        memory.open(range)
    }

    fn fill(&self, memory: &Managed, range: Range<usize>, data: &[u8]) -> Result<(), Errno> {
        self.beside.fill(memory, range, data)
    }

    fn close(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
        memory.protect_writes(range.clone()).map_err(|errno| undone(errno, memory.open(range)))
    }

    fn reopen(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
        memory.open(range)
    }

    fn read(&self, memory: &Managed, at: usize, buf: &mut [u8]) -> Result<(), Errno> {
        memory.read_open(at, buf);
        Ok(())
    }

    fn drop_pages(&self, memory: &Managed, range: Range<usize>, _: Data) -> Result<(), Errno> {
        memory.close(range.clone())?;
        memory.drop_pages(range)
    }
}
