//! The staging area: address space to which the pages of blocks in probation are moved, each at its
//! own offset (zm-U4, zm-U5).

use crate::error::refused;
use crate::memory::Managed;
use crate::memory::pages::{self, make_own};
use crate::options::is_zero;
use crate::uffd::{Short, Uffd};
use rustix::io::Errno;
use std::ops::Range;

/// The staging area, which has the same size as the region.
#[derive(Debug)]
pub(super) struct Staging(pub(super) Managed);

impl Staging {
    pub(super) fn new(bytes: usize) -> Result<Self, Errno> {
        Managed::map_beside(bytes).map(Staging)
    }

    /// Moves the pages of resident blocks to the staging area.
    pub(super) fn take(
        &self,
        uffd: &Uffd,
        memory: &Managed,
        range: Range<usize>,
    ) -> Result<(), Errno> {
        // A thread that read the staging area while a block was moved back may have created pages
        // of zeros there.
        self.0.drop_pages(range.clone())?;
        self.take_rest(uffd, memory, range)
    }

    /// Moves the pages of resident blocks to the staging area, and handles pages that can't be
    /// moved at once.
    fn take_rest(&self, uffd: &Uffd, memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
        let (mut next, mut tried) = (range.start, None);
        while let Err(Short { done, errno }) = uffd.transfer(memory, &self.0, next..range.end) {
            next += done;
            let is_first = tried.replace((next, errno)) != Some((next, errno));
            let page = next..next + page::page_size();
            let mended = match errno {
                // The kernel moved this page without counting it as moved (zm-U8). Only moves write
                // to the staging area, so the page there contains the moved data.
                Errno::EXIST if !self.is_zero(page.clone()) => {
                    next = page.end;
                    Ok(())
                }
                // The page in the staging area holds only zeros. A reader (a debugger, `mlockall`)
                // created this page, or the kernel moved a page of zeros. The page can be dropped,
                // because a missing page also reads as zeros.
                Errno::EXIST if is_first => self.0.drop_pages(page),
                // A child shares this page, or the page was never written.
                Errno::BUSY if is_first => {
                    uffd.fill_holes(memory, page.clone()).and_then(|()| make_own(memory, page))
                }
                _ => Err(errno),
            };
            if let Err(errno) = mended {
                let undone = self.give_back(uffd, memory, range.start..next);
                undone.unwrap_or_else(|errno| refused("pages can't be moved back", errno));
                return Err(errno);
            }
        }
        Ok(())
    }

    /// Returns whether a page of the staging area is missing or all zeros.
    fn is_zero(&self, page: Range<usize>) -> bool {
        let mut part = [0; 512];
        page.step_by(part.len()).all(|at| {
            pages::read_open(&self.0, at, &mut part);
            is_zero(&part)
        })
    }

    /// Moves pages back to the region, and copies the pages that can't be moved.
    pub(super) fn give_back(
        &self,
        uffd: &Uffd,
        memory: &Managed,
        range: Range<usize>,
    ) -> Result<(), Errno> {
        let mut rest = range;
        while let Err(Short { done, errno }) = uffd.transfer(&self.0, memory, rest.clone()) {
            rest.start += done;
            if errno != Errno::EXIST {
                uffd.copy_from(memory, rest.clone(), self.0.address_of(&rest))?;
                return self.0.drop_pages(rest);
            }
            // The kernel moved this page without counting it as moved (zm-U8). Before the move, the
            // region had no page at this offset, because the block was closed.
            rest.start += page::page_size();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uffd::{CanMove, Delivery, QUIET, REPORTED};

    const PAGES: usize = 6;

    /// Returns a userfaultfd, memory of `PAGES` pages and a staging area, or `None` if the kernel
    /// can't move pages. The last page of the memory is missing.
    fn bed() -> Option<(Uffd, Managed, Staging)> {
        let (uffd, can_move) = Uffd::open(Delivery::Signal, CanMove::Yes).ok()?;
        let bytes = PAGES * page::page_size();
        let memory = Managed::map(bytes, page::page_size()).unwrap();
        memory.open(0..bytes).unwrap();
        let staging = Staging::new(bytes).unwrap();
        uffd.register(&memory, REPORTED).unwrap();
        uffd.register(&staging.0, QUIET).unwrap();
        for nth in 0..PAGES - 1 {
            uffd.copy(&memory, of(nth).start, &vec![1 + nth as u8; page::page_size()]).unwrap();
        }
        (can_move == CanMove::Yes).then_some((uffd, memory, staging))
    }

    fn of(nth: usize) -> Range<usize> {
        nth * page::page_size()..(nth + 1) * page::page_size()
    }

    fn contents(memory: &Managed) -> Vec<u8> {
        let mut all = vec![9; PAGES * page::page_size()];
        pages::read_open(memory, 0, &mut all);
        all.chunks(page::page_size()).map(|page| page[page.len() - 1]).collect()
    }

    #[test]
    fn pages_that_were_moved_and_not_counted_are_kept() {
        let Some((uffd, memory, staging)) = bed() else { return };
        for nth in [0, 2, 3] {
            uffd.transfer(&memory, &staging.0, of(nth)).unwrap();
        }
        let all = 0..memory.bytes();
        staging.take_rest(&uffd, &memory, all.clone()).unwrap();
        assert_eq!(contents(&staging.0), [1, 2, 3, 4, 5, 0]);
        // UFFDIO_ZEROPAGE succeeds only if the page is missing.
        let is_empty = |nth| uffd.zero(&memory, of(nth)).is_ok();
        assert!((0..PAGES).all(is_empty));
        memory.drop_pages(all.clone()).unwrap();
        for nth in [1, 2, 4] {
            uffd.transfer(&staging.0, &memory, of(nth)).unwrap();
        }
        staging.give_back(&uffd, &memory, all).unwrap();
        assert_eq!(contents(&memory)[..PAGES - 1], [1, 2, 3, 4, 5]);
    }

    #[test]
    fn zeros_that_were_read_give_way() {
        let Some((uffd, memory, staging)) = bed() else { return };
        let all = 0..memory.bytes();
        assert_eq!(contents(&staging.0), [0; PAGES]);
        staging.take_rest(&uffd, &memory, all.clone()).unwrap();
        assert_eq!(contents(&staging.0), [1, 2, 3, 4, 5, 0]);
        staging.give_back(&uffd, &memory, all.clone()).unwrap();
        assert_eq!(contents(&staging.0), [0; PAGES]);
        staging.take(&uffd, &memory, all).unwrap();
        assert_eq!(contents(&staging.0), [1, 2, 3, 4, 5, 0]);
    }
}
