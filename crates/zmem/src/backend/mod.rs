//! What marks blocks, and has them be readable again: one trait, which the pager alone calls.
//!
//! All ranges are bytes of the region, of blocks that the caller owns (zm-S1). What each call
//! leaves is what zm-S2 says of the state that the caller publishes next.

mod answers;
mod choose;
mod remap;
mod signal;
mod staging;
mod userfaultfd;

pub(crate) use choose::choose;

use crate::fatal::refused;
use crate::memory::Managed;
use crate::uffd::Fault;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::fmt::Debug;
use std::ops::Range;
use zram::{ORDER_MAX, SLOT_BYTES};

/// Returns why blocks could not be closed that are open again: in several mappings, some of it may
/// have been done.
fn undone(errno: Errno, undo: Result<(), Errno>) -> Errno {
    undo.unwrap_or_else(|errno| refused("memory can't be opened again", errno));
    errno
}

/// Where the data lie of blocks that are owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// As of what is resident.
    Open,
    /// As `close` left them.
    Closed,
    /// The same, but since then the pager had them be readable in their place.
    Shown,
}

/// What a region is in a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heir {
    /// A copy, which is managed on.
    Copy,
    /// A copy of which all is resident and stays: nothing manages it.
    Plain,
    /// Nothing: a touch ends the child.
    Nothing,
}

/// A way to mark memory, and to fill it so that nobody sees half of it.
pub(crate) trait Backend: Debug + Send + Sync {
    /// What it is, in a word; then, behind a colon, how, and what that means for system calls.
    fn describe(&self) -> &'static str;

    /// Whether a thread that is alone may open a block first and fill it then, as that costs less
    /// than `fill`.
    fn opens_first(&self) -> bool {
        true
    }

    /// How many mappings its marks of so many absent blocks may come to.
    fn mappings_max(&self, units: usize) -> usize;

    /// Has a chunk that was never touched be opened block by block.
    fn open_chunk(&self, memory: &Managed, chunk: Range<usize>) -> Result<(), Errno>;

    /// Closes a chunk that has nothing any more, so that it takes no page tables. If that fails, it
    /// is as closed; what is next is `open_chunk`.
    fn close_chunk(&self, memory: &Managed, chunk: Range<usize>) -> Result<(), Errno> {
        memory.drop_pages(chunk)
    }

    /// In how many places a block may have page tables.
    fn places(&self) -> usize {
        1
    }

    /// Has what is absent be zeros that can be read and written.
    fn fill_zeros(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno>;

    /// Gives what is marked its data, at once for all who look.
    fn fill(&self, memory: &Managed, range: Range<usize>, data: &[u8]) -> Result<(), Errno>;

    /// Has a touch of what is resident fault; the data stay. After an error none of it does.
    fn close(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno>;

    /// Has what was closed be readable and writable again.
    fn reopen(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno>;

    /// Copies what is closed.
    fn read(&self, memory: &Managed, at: usize, buf: &mut [u8]) -> Result<(), Errno>;

    /// Has what is closed be readable in its place, after `read` failed.
    fn show(&self, _memory: &Managed, _range: Range<usize>) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Gives pages back, and marks them.
    fn drop_pages(&self, memory: &Managed, range: Range<usize>, from: Data) -> Result<(), Errno>;

    /// Has what `drop_pages` refused, but for some pages of it, be readable and writable again.
    fn put_back(&self, memory: &Managed, range: Range<usize>, data: &[u8]) -> Result<(), Errno> {
        self.fill(memory, range, data)
    }

    /// The same, with zeros in place of what it had.
    fn put_zeros(&self, memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
        const ZEROS: &[u8] = &[0; SLOT_BYTES << ORDER_MAX];
        self.put_back(memory, range.clone(), &ZEROS[..range.len()])
    }

    /// Tries each call on memory of its own, as a process may be refused some.
    fn probe(&self) -> Result<(), Errno> {
        let page = page::page_size();
        let (memory, range) = (Managed::map(page, page)?, 0..page);
        let (data, mut seen) = (vec![7; page], vec![0; page]);
        self.open_chunk(&memory, range.clone())?;
        self.fill(&memory, range.clone(), &data)?;
        self.close(&memory, range.clone())?;
        self.read(&memory, 0, &mut seen)?;
        self.reopen(&memory, range.clone())?;
        self.drop_pages(&memory, range, Data::Open)?;
        if seen == data { Ok(()) } else { Err(Errno::IO) }
    }

    /// Begins with memory whose faults find their pager from now on, before anyone has it.
    fn begin(&self, _memory: &Managed) -> Result<(), Errno> {
        Ok(())
    }

    /// Ends with memory that is all resident, and is the program's from now on.
    fn end(&self, _memory: &Managed) -> Result<(), Errno> {
        Ok(())
    }

    /// Has pages be zeros that are missing in what is resident.
    fn fill_holes(&self, _memory: &Managed, _range: Range<usize>) -> Result<(), Errno> {
        Ok(())
    }

    /// How many threads answer faults, if some do.
    fn threads(&self) -> usize {
        0
    }

    /// What such a thread waits for.
    fn file(&self) -> Result<BorrowedFd<'_>, Errno> {
        Err(Errno::NOSYS)
    }

    /// The next fault for such a thread.
    fn next_fault(&self) -> Result<Option<Fault>, Errno> {
        Err(Errno::NOSYS)
    }

    /// Has who waits for a fault's answer go on.
    fn wake(&self, _memory: &Managed, _range: Range<usize>) -> Result<(), Errno> {
        Ok(())
    }

    /// Whether all is to be brought back before a fork.
    fn is_whole_over_forks(&self) -> bool {
        false
    }

    /// Begins in a child, which has one thread yet.
    fn in_child(&self, _memory: &Managed) -> Heir {
        Heir::Copy
    }
}
