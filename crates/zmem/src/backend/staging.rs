//! Where pages in probation are moved to, each to its own offset, and back from (zm-U4, zm-U5).

use crate::memory::Managed;
use crate::uffd::{Short, Uffd};
use rustix::io::Errno;
use std::ops::Range;

/// Address space as large as the region.
#[derive(Debug)]
pub(super) struct Staging(pub(super) Managed);

impl Staging {
    pub(super) fn new(bytes: usize) -> Result<Self, Errno> {
        let memory = Managed::map(bytes, page::page_size())?;
        memory.open(0..bytes)?;
        Ok(Staging(memory))
    }

    /// Moves the pages of resident blocks out of reach.
    pub(super) fn take(
        &self,
        uffd: &Uffd,
        memory: &Managed,
        range: Range<usize>,
    ) -> Result<(), Errno> {
        let (mut next, mut tried) = (range.start, None);
        while let Err(Short { done, errno }) = uffd.transfer(memory, &self.0, next..range.end) {
            next += done;
            let is_first = tried.replace((next, errno)) != Some((next, errno));
            let mended = match errno {
                // Someone looked there while a block was on its way back.
                Errno::EXIST if is_first => self.0.drop_pages(next..range.end),
                // A child has it as well; or it was never written.
                Errno::BUSY if is_first => {
                    let page = next..next + page::page_size();
                    uffd.fill_holes(memory, page.clone()).and_then(|()| memory.make_own(page))
                }
                _ => Err(errno),
            };
            if let Err(errno) = mended {
                self.give_back(uffd, memory, range.start..next)?;
                return Err(errno);
            }
        }
        Ok(())
    }

    /// Moves pages back; those that can't be moved are copied.
    pub(super) fn give_back(
        &self,
        uffd: &Uffd,
        memory: &Managed,
        range: Range<usize>,
    ) -> Result<(), Errno> {
        match uffd.transfer(&self.0, memory, range.clone()) {
            Ok(()) => Ok(()),
            Err(Short { done, .. }) => {
                let rest = range.start + done..range.end;
                uffd.copy_across(&self.0, memory, rest.clone())?;
                self.0.drop_pages(rest)
            }
        }
    }
}
