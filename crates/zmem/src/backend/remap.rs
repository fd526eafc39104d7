//! The backend that marks blocks by PROT_NONE mappings and needs no /proc/self/mem. A block is
//! prepared in other memory, and moved to its place in the region by `mremap`.
//!
//! ```text
//!   staged:  |    | data |    |      as large as the region; open, and empty except for new blocks
//!                   | mremap
//!   region:  |    |  v   |    |
//! ```
//! A block is prepared at its own offset. All moved blocks are therefore moved by the same
//! distance, and the kernel merges the mappings of neighbours. Closed blocks stay readable, because
//! there is no other way to copy their data. Therefore a read does not end the probation of a
//! block.

use super::{Backend, Data, undone};
use crate::memory::{Managed, table_reach};
use rustix::io::Errno;
use std::ops::Range;
use std::sync::OnceLock;

/// The backend that uses SIGSEGV and needs no /proc/self/mem.
#[derive(Debug)]
pub(crate) struct SignalRemap {
    beside: Beside,
    name: &'static str,
}

/// Maps the memory in which blocks of a region are prepared.
fn map_beside(memory: &Managed) -> Result<Managed, Errno> {
    // The alignment gives each chunk its own page tables in the new memory.
    let staged = Managed::map(memory.bytes(), table_reach())?;
    staged.open(0..staged.bytes())?;
    Ok(staged)
}

impl SignalRemap {
    pub(crate) fn new(memory: &Managed, name: &'static str) -> Result<Self, Errno> {
        let staged = map_beside(memory)?;
        // When the whole region is open, the kernel charges as many bytes for the region as for the
        // first mapping. The second mapping checks that the kernel permits both charges.
        drop(map_beside(memory)?);
        Ok(SignalRemap { beside: Beside(staged.into()), name })
    }
}

/// The memory in which blocks are prepared. If the region was created with /proc/self/mem, this
/// memory is mapped only if the kernel refuses that file later.
#[derive(Debug, Default)]
pub(crate) struct Beside(OnceLock<Managed>);

impl Beside {
    /// See [`Backend::fill`].
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

    fn mappings_max(&self, blocks: usize) -> usize {
        blocks + 1
    }

    fn open_chunk(&self, _memory: &Managed, _chunk: Range<usize>) -> Result<(), Errno> {
        Ok(())
    }

    fn close_chunk(&self, memory: &Managed, chunk: Range<usize>) -> Result<(), Errno> {
        self.beside.0.get().map_or(Ok(()), |staged| staged.drop_pages(chunk.clone()))?;
        memory.drop_pages(chunk)
    }

    /// The memory in which a block is prepared has page tables, too.
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
