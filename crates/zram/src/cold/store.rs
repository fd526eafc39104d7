//! Objects outside memory: which blocks of the backing store are used, and reads of what lies there.
//!
//! The store's own lock comes after all others and is held over no I/O.

use super::backing::Backing;
use super::place::{BYTES_MAX, Place, UNIT};
use crate::buffer::with_room;
use crate::{BLOCK, Error};
use page::fork::Mutex;
use rustix::io::Errno;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Bytes of the sum behind an object.
pub(crate) const SUM: usize = 4;

/// The kernel's `bd_stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BdStat {
    /// Blocks of 4 KiB in which something lies.
    pub bd_count: u64,
    /// Blocks of 4 KiB that were read.
    pub bd_reads: u64,
    /// Blocks of 4 KiB that were written.
    pub bd_writes: u64,
    /// Reads that failed.
    pub failed_reads: u64,
    /// Writes that failed.
    pub failed_writes: u64,
}

impl fmt::Display for BdStat {
    /// The kernel's three columns, then what failed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BdStat { bd_count, bd_reads, bd_writes, failed_reads, failed_writes } = self;
        write!(f, "{bd_count:8} {bd_reads:8} {bd_writes:8} {failed_reads:8} {failed_writes:8}")
    }
}

/// A backing store, and what is known of it.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) backing: Arc<dyn Backing>,
    used: Mutex<Used>,
    /// Held over a sync: it comes alone, and takes none of the locks above.
    syncing: Mutex<()>,
    /// Syncs that failed so far.
    failed_syncs: AtomicU64,
    pub(crate) counts: Counts,
    /// Whether this is a child: its parent goes on with the store.
    left_behind: AtomicBool,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) reads: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) failed_reads: AtomicU64,
    pub(crate) failed_writes: AtomicU64,
}

#[derive(Debug)]
struct Used {
    /// Objects that touch each block, and whether one is being written there.
    by: Box<[u16]>,
    blocks: u64,
    /// Where to look for free ones.
    next: usize,
    held: Vec<Hold>,
}

/// A place that is being read.
#[derive(Debug)]
struct Hold {
    place: Place,
    readers: u32,
    /// Whether no word names it any more.
    is_freed: bool,
}

/// A place that is held until this is dropped, and the word that names it.
#[derive(Debug)]
pub(crate) struct Away {
    store: Arc<Store>,
    pub(crate) place: Place,
    pub(crate) word: u32,
}

/// An object that was read from the store.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) away: Away,
    pub(crate) bytes: Vec<u8>,
}

/// The sum of an object: of its own word, and no other's.
pub(crate) fn sum(word: u32, priority: u8, bytes: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&word.to_le_bytes());
    sum.update(&[priority]);
    sum.update(bytes);
    sum.finalize()
}

/// Blocks that so many bytes at an offset touch.
fn blocks_of(offset: u64, len: usize) -> Range<usize> {
    let end = (offset + len as u64).div_ceil(BLOCK as u64);
    (offset / BLOCK as u64) as usize..end as usize
}

impl Place {
    /// The blocks in which the object and its sum lie.
    fn blocks(self) -> Range<usize> {
        blocks_of(self.offset(), self.len + SUM)
    }
}

impl Used {
    fn add(&mut self, blocks: Range<usize>) {
        for by in &mut self.by[blocks] {
            self.blocks += u64::from(*by == 0);
            *by += 1;
        }
    }

    fn remove(&mut self, blocks: Range<usize>) {
        for by in &mut self.by[blocks] {
            *by -= 1;
            self.blocks -= u64::from(*by == 0);
        }
    }

    /// The next free blocks, `most` of them and not fewer than `least`.
    fn free_run(&self, least: usize, most: usize) -> Option<Range<usize>> {
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

impl Store {
    pub(crate) fn new(backing: Arc<dyn Backing>) -> Result<Self, Error> {
        let blocks = backing.bytes().min(BYTES_MAX) / BLOCK as u64;
        // It may be large, so it is asked for first; what comes zeroed from the system costs nothing until it is touched.
        drop(with_room::<u16>(blocks as usize)?);
        let by = vec![0; blocks as usize].into();
        let used = Used { by, blocks: 0, next: 0, held: Vec::new() };
        Ok(Store {
            backing,
            used: Mutex::new(used),
            syncing: Mutex::new(()),
            failed_syncs: AtomicU64::new(0),
            counts: Counts::default(),
            left_behind: AtomicBool::new(false),
        })
    }

    /// Syncs that failed so far; of what is written from now on, [`sync_since`](Self::sync_since) knows. It waits for no
    /// sync: one that is under way, and fails, is counted later.
    pub(crate) fn failed_syncs(&self) -> u64 {
        self.failed_syncs.load(Relaxed)
    }

    /// Has all be durable that was written since so many syncs had failed.
    ///
    /// # Errors
    /// Any of it may not be. The system tells an error of the page cache to one sync, whosever write it was of; so a sync
    /// that fails fails for all who have written by then.
    pub(crate) fn sync_since(&self, failed: u64) -> io::Result<()> {
        let _alone = self.syncing.lock();
        self.backing.sync().inspect_err(|_| _ = self.failed_syncs.fetch_add(1, Relaxed))?;
        if self.failed_syncs() == failed { Ok(()) } else { Err(Errno::IO.into()) }
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let used = self.used.lock();
        size_of::<Self>() + size_of_val(&*used.by) + used.held.capacity() * size_of::<Hold>()
    }

    pub(crate) fn is_here(&self) -> Result<(), Error> {
        if self.left_behind.load(Relaxed) { Err(Error::StoreLeftBehind) } else { Ok(()) }
    }

    pub(crate) fn lock_for_fork(&self) {
        self.used.lock_for_fork();
    }

    pub(crate) fn unlock_after_fork(&self) {
        self.used.unlock_after_fork();
    }

    /// The parent goes on with the store.
    pub(crate) fn leave_behind(&self) {
        self.used.unlock_after_fork();
        self.left_behind.store(true, Relaxed);
    }

    pub(crate) fn stat(&self) -> BdStat {
        let of = |count: &AtomicU64| count.load(Relaxed);
        let Counts { reads, writes, failed_reads, failed_writes } = &self.counts;
        BdStat {
            bd_count: self.used.lock().blocks,
            bd_reads: of(reads),
            bd_writes: of(writes),
            failed_reads: of(failed_reads),
            failed_writes: of(failed_writes),
        }
    }

    /// Takes free blocks to write to: at least enough for `least` bytes, and no more than `most` blocks.
    pub(crate) fn take(&self, least: usize, most: usize) -> Option<Range<usize>> {
        let mut used = self.used.lock();
        let run = used.free_run(least.div_ceil(BLOCK), most)?;
        used.add(run.clone());
        used.next = run.end;
        Some(run)
    }

    /// Gives back blocks that were taken; objects that were put there keep theirs.
    pub(crate) fn give_back(&self, blocks: Range<usize>) {
        self.used.lock().remove(blocks);
    }

    /// An object is there from now on.
    pub(crate) fn put(&self, place: Place) {
        self.used.lock().add(place.blocks());
    }

    /// An object is there no more: as soon as no one reads it.
    pub(crate) fn free(&self, place: Place) {
        if self.left_behind.load(Relaxed) {
            return;
        }
        let mut used = self.used.lock();
        match used.held.iter_mut().find(|hold| hold.place == place) {
            Some(hold) => hold.is_freed = true,
            None => used.remove(place.blocks()),
        }
    }

    /// Holds the place that a word names, which is locked at this moment.
    pub(crate) fn hold(self: &Arc<Self>, place: Place, word: u32) -> Away {
        let mut used = self.used.lock();
        match used.held.iter_mut().find(|hold| hold.place == place) {
            Some(hold) => hold.readers += 1,
            None => used.held.push(Hold { place, readers: 1, is_freed: false }),
        }
        Away { store: self.clone(), place, word }
    }

    /// Asserts that blocks are used by `places` and nothing else.
    pub(crate) fn check(&self, places: &[Place]) {
        if self.is_here().is_err() {
            return;
        }
        let mut used = self.used.lock();
        let now = used.by.clone();
        assert!(used.held.is_empty(), "{:?} are held", used.held);
        places.iter().for_each(|place| used.remove(place.blocks()));
        assert!(used.blocks == 0 && used.by.iter().all(|&by| by == 0), "blocks without objects");
        places.iter().for_each(|place| used.add(place.blocks()));
        assert_eq!(used.by, now);
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        let mut used = self.store.used.lock();
        let Some(nth) = used.held.iter().position(|hold| hold.place == self.place) else { return };
        used.held[nth].readers -= 1;
        if used.held[nth].readers == 0 {
            let hold = used.held.swap_remove(nth);
            if hold.is_freed {
                used.remove(hold.place.blocks());
            }
        }
    }
}

impl Away {
    /// Reads the object, with nothing locked. `slot` is for errors.
    pub(crate) fn fetch(self, slot: u32) -> Result<Fetched, Error> {
        self.fetch_to(Vec::new(), slot).map_err(|(error, _)| error)
    }

    /// The same, into memory that may be there already, and comes back with an error.
    pub(crate) fn fetch_to(
        self,
        mut bytes: Vec<u8>,
        slot: u32,
    ) -> Result<Fetched, (Error, Vec<u8>)> {
        match self.read_to(&mut bytes, slot) {
            Ok(()) => Ok(Fetched { away: self, bytes }),
            Err(error) => Err((error, bytes)),
        }
    }

    fn read_to(&self, bytes: &mut Vec<u8>, slot: u32) -> Result<(), Error> {
        self.store.is_here()?;
        let (counts, Place { len, priority, .. }) = (&self.store.counts, self.place);
        let unread = |error: io::Error| {
            counts.failed_reads.fetch_add(1, Relaxed);
            Error::backing("read", slot, &error)
        };
        bytes.clear();
        bytes.try_reserve_exact(len + SUM).map_err(|_| Error::NoBuffer { bytes: len + SUM })?;
        bytes.resize(len + SUM, 0);
        self.store.backing.read_at(bytes, self.place.offset()).map_err(unread)?;
        counts.reads.fetch_add(len.div_ceil(BLOCK) as u64, Relaxed);
        let there = bytes[len..].first_chunk().map(|sum| u32::from_le_bytes(*sum));
        bytes.truncate(len);
        if there != Some(sum(self.word, priority, bytes)) {
            counts.failed_reads.fetch_add(1, Relaxed);
            return Err(Error::Checksum { slot: slot.into() });
        }
        Ok(())
    }
}

impl Fetched {
    /// Its memory, for another.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Bytes that an object takes in the store, with its sum.
pub(crate) fn room_for(len: usize) -> usize {
    (len + SUM).next_multiple_of(UNIT)
}
