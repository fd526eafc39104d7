//! The state of the store's blocks: the number of objects in each block, and the objects that are
//! being read.

use crate::slot::BackingPlace;
use crate::stats::columns;
use std::fmt;
use std::ops::Range;

/// The counters of the kernel's `bd_stat`, and the counters of failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BdStat {
    /// The number of 4 KiB blocks that contain objects.
    pub bd_count: u64,
    /// The number of 4 KiB blocks that were read.
    pub bd_reads: u64,
    /// The number of 4 KiB blocks that were written.
    pub bd_writes: u64,
    /// The number of failed reads.
    pub failed_reads: u64,
    /// The number of failed writes.
    pub failed_writes: u64,
}

impl fmt::Display for BdStat {
    /// Writes the three columns of the kernel's `bd_stat`, then the numbers of failed reads and
    /// writes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BdStat { bd_count, bd_reads, bd_writes, failed_reads, failed_writes } = *self;
        columns(f, &[bd_count, bd_reads, bd_writes, failed_reads, failed_writes])
    }
}

/// The blocks that are in use, and the places of the objects that are being read.
#[derive(Debug)]
pub(super) struct BlockUse {
    /// The number of objects in each block. A block that is being written counts as a block with
    /// one object.
    pub(super) by: Box<[u16]>,
    pub(super) stat: BdStat,
    /// The block at which the search for free blocks begins.
    pub(super) next: usize,
    pub(super) being_read: Vec<PlaceReaders>,
}

#[derive(Debug)]
pub(super) struct PlaceReaders {
    pub(super) place: BackingPlace,
    pub(super) readers: u32,
    /// Whether no entry refers to the place any more. The last reader of a freed place frees the
    /// place's blocks.
    pub(super) is_freed: bool,
}

impl BlockUse {
    pub(super) fn add(&mut self, blocks: Range<usize>) {
        for by in &mut self.by[blocks] {
            self.stat.bd_count += u64::from(*by == 0);
            *by += 1;
        }
    }

    pub(super) fn remove(&mut self, blocks: Range<usize>) {
        for by in &mut self.by[blocks] {
            *by -= 1;
            self.stat.bd_count -= u64::from(*by == 0);
        }
    }

    /// Returns the next run of `least` to `most` consecutive free blocks.
    pub(super) fn free_run(&self, least: usize, most: usize) -> Option<Range<usize>> {
        let len = self.by.len();
        for part in [self.next..len, 0..len] {
            let mut start = part.start;
            while let Some(free) = self.by[start..part.end].iter().position(|&by| by == 0) {
                start += free;
                let here = &self.by[start..part.end.min(start + most)];
                let run = here.iter().position(|&by| by != 0).unwrap_or(here.len());
                if run >= least {
                    return Some(start..start + run);
                }
                start += run;
            }
        }
        None
    }
}
