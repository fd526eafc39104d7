//! Objects in the backing store: syncs, the allocation of blocks, and reads of objects.
//!
//! The store's own lock is taken after all other locks, and is not held during I/O.

use super::block_use::{BdStat, BlockUse, PlaceReaders};
use super::file::Backing;
use crate::slot::{BACKING_BYTES_MAX, BACKING_GRAIN, BackingPlace};
use crate::try_vec::with_room;
use crate::{Error, SLOT_BYTES};
use page::fork::{Mutex, Step};
use rustix::io::Errno;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The length of the checksum after an object, in bytes.
pub(crate) const CHECKSUM_BYTES: usize = size_of::<u32>();

/// A backing store, and the state of its blocks.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) backing: Arc<dyn Backing>,
    used: Mutex<BlockUse>,
    /// The lock that a thread holds during a sync, so that only one sync runs at a time. A thread
    /// that holds this lock takes no other lock of the device.
    syncing: Mutex<()>,
    /// The number of syncs that have failed.
    failed_syncs: AtomicU64,
    /// Whether this process is the child of a fork, whose parent continues to use the store.
    is_left_behind: AtomicBool,
}

/// Prevents the reuse of a place while the guard exists. `entry` refers to the place.
#[derive(Debug)]
pub(crate) struct PlaceGuard {
    store: Arc<Store>,
    pub(crate) place: BackingPlace,
    pub(crate) entry: u32,
}

/// An object that was read from the store.
#[derive(Debug)]
pub(crate) struct ReadBack {
    pub(crate) guard: PlaceGuard,
    pub(crate) bytes: Vec<u8>,
}

/// Returns the checksum of an object. The checksum covers the number of the object's entry, so an
/// object of another entry has another checksum.
pub(crate) fn checksum(entry: u32, priority: u8, bytes: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&entry.to_le_bytes());
    sum.update(&[priority]);
    sum.update(bytes);
    sum.finalize()
}

/// Returns the blocks that contain an object and its checksum.
fn blocks_of(place: BackingPlace) -> Range<usize> {
    let end = place.offset() + (place.len + CHECKSUM_BYTES) as u64;
    let block = SLOT_BYTES as u64;
    (place.offset() / block) as usize..end.div_ceil(block) as usize
}

impl Store {
    pub(crate) fn new(backing: Arc<dyn Backing>) -> Result<Self, Error> {
        let blocks = backing.bytes().min(BACKING_BYTES_MAX) / SLOT_BYTES as u64;
        // This trial allocation turns a refusal of memory for the table into an error. The zeroed
        // table below takes memory only when it is touched.
        drop(with_room::<u16>(blocks as usize)?);
        let by = vec![0; blocks as usize].into();
        let used = BlockUse { by, stat: BdStat::default(), next: 0, being_read: Vec::new() };
        Ok(Store {
            backing,
            used: Mutex::new(used),
            syncing: Mutex::new(()),
            failed_syncs: AtomicU64::new(0),
            is_left_behind: AtomicBool::new(false),
        })
    }

    /// Returns the number of failed syncs, for a later call of [`sync_since`](Self::sync_since).
    /// The failure of a sync that is still under way is counted later.
    pub(crate) fn failed_syncs(&self) -> u64 {
        self.failed_syncs.load(Relaxed)
    }

    /// Makes all writes durable that were issued after [`failed_syncs`](Self::failed_syncs)
    /// returned `failed`.
    ///
    /// # Errors
    /// Any of those writes may be lost. The system reports a failed write of the page cache to only
    /// one sync. So after a failed sync, every earlier write counts as lost.
    pub(crate) fn sync_since(&self, failed: u64) -> io::Result<()> {
        let _alone = self.syncing.lock();
        self.backing.sync().inspect_err(|_| _ = self.failed_syncs.fetch_add(1, Relaxed))?;
        if self.failed_syncs() == failed { Ok(()) } else { Err(Errno::IO.into()) }
    }

    /// Returns the size of the store's state in memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let used = self.used.lock();
        size_of::<Self>()
            + size_of_val(&*used.by)
            + used.being_read.capacity() * size_of::<PlaceReaders>()
    }

    pub(crate) fn check_not_left_behind(&self) -> Result<(), Error> {
        if self.is_left_behind.load(Relaxed) { Err(Error::StoreLeftBehind) } else { Ok(()) }
    }

    pub(crate) fn at_fork(&self, step: Step) {
        self.used.at_fork(step);
    }

    /// Marks this store, in the child of a fork, as one that the parent continues to use.
    pub(crate) fn unlock_in_child(&self) {
        self.used.unlock_after_fork();
        self.is_left_behind.store(true, Relaxed);
    }

    pub(crate) fn stat(&self) -> BdStat {
        self.used.lock().stat
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut BdStat)) {
        change(&mut self.used.lock().stat);
    }

    /// Allocates a run of free blocks for writes. The run has room for `least` bytes, and at most
    /// `most` blocks.
    pub(crate) fn take_blocks(&self, least: usize, most: usize) -> Option<Range<usize>> {
        let mut used = self.used.lock();
        let run = used.free_run(least.div_ceil(SLOT_BYTES), most)?;
        used.add(run.clone());
        used.next = run.end;
        Some(run)
    }

    /// Frees those blocks of a run from [`take_blocks`](Self::take_blocks) in which no object was
    /// stored.
    pub(crate) fn return_blocks(&self, blocks: Range<usize>) {
        self.used.lock().remove(blocks);
    }

    /// Adds an object to the counts of its blocks.
    pub(crate) fn add_object(&self, place: BackingPlace) {
        self.used.lock().add(blocks_of(place));
    }

    /// Frees an object's place. If threads are reading the object, the last of these threads frees
    /// the place.
    pub(crate) fn free_object(&self, place: BackingPlace) {
        if self.is_left_behind.load(Relaxed) {
            return;
        }
        let mut used = self.used.lock();
        match used.being_read.iter_mut().find(|hold| hold.place == place) {
            Some(hold) => hold.is_freed = true,
            None => used.remove(blocks_of(place)),
        }
    }

    /// Returns a guard of the place that an entry refers to. The caller has locked the entry.
    pub(crate) fn guard_place(self: &Arc<Self>, place: BackingPlace, entry: u32) -> PlaceGuard {
        let mut used = self.used.lock();
        match used.being_read.iter_mut().find(|hold| hold.place == place) {
            Some(hold) => hold.readers += 1,
            None => used.being_read.push(PlaceReaders { place, readers: 1, is_freed: false }),
        }
        PlaceGuard { store: self.clone(), place, entry }
    }

    /// Asserts that exactly the blocks of the objects at `places` are in use.
    pub(crate) fn check(&self, places: &[BackingPlace]) {
        if self.check_not_left_behind().is_err() {
            return;
        }
        let mut used = self.used.lock();
        let now = used.by.clone();
        assert!(used.being_read.is_empty(), "{:?} are held", used.being_read);
        places.iter().for_each(|place| used.remove(blocks_of(*place)));
        assert!(
            used.stat.bd_count == 0 && used.by.iter().all(|&by| by == 0),
            "blocks without objects"
        );
        places.iter().for_each(|place| used.add(blocks_of(*place)));
        assert_eq!(used.by, now);
    }
}

impl Drop for PlaceGuard {
    fn drop(&mut self) {
        let mut used = self.store.used.lock();
        let Some(nth) = used.being_read.iter().position(|hold| hold.place == self.place) else {
            return;
        };
        used.being_read[nth].readers -= 1;
        if used.being_read[nth].readers == 0 {
            let hold = used.being_read.swap_remove(nth);
            if hold.is_freed {
                used.remove(blocks_of(hold.place));
            }
        }
    }
}

impl PlaceGuard {
    /// Reads the object into `bytes` without a lock. A failed read also returns the buffer. `slot`
    /// is used only in error messages.
    pub(crate) fn read_into(
        self,
        mut bytes: Vec<u8>,
        slot: u32,
    ) -> Result<ReadBack, (Error, Vec<u8>)> {
        match self.read_verified(&mut bytes, slot) {
            Ok(()) => Ok(ReadBack { guard: self, bytes }),
            Err(error) => Err((error, bytes)),
        }
    }

    fn read_verified(&self, bytes: &mut Vec<u8>, slot: u32) -> Result<(), Error> {
        self.store.check_not_left_behind()?;
        let (store, BackingPlace { len, priority, .. }) = (&self.store, self.place);
        let unread = |error: io::Error| {
            store.count(|stat| stat.failed_reads += 1);
            Error::backing("read", slot, &error)
        };
        bytes.clear();
        bytes
            .try_reserve_exact(len + CHECKSUM_BYTES)
            .map_err(|_| Error::NoBuffer { bytes: len + CHECKSUM_BYTES })?;
        bytes.resize(len + CHECKSUM_BYTES, 0);
        self.store.backing.read_at(bytes, self.place.offset()).map_err(unread)?;
        store.count(|stat| stat.bd_reads += len.div_ceil(SLOT_BYTES) as u64);
        let there = bytes[len..].first_chunk().map(|sum| u32::from_le_bytes(*sum));
        bytes.truncate(len);
        if there != Some(checksum(self.entry, priority, bytes)) {
            store.count(|stat| stat.failed_reads += 1);
            return Err(Error::Checksum { slot: slot.into() });
        }
        Ok(())
    }
}

/// Returns the number of bytes that an object of `len` bytes takes in the store, with its checksum.
pub(crate) fn bytes_stored(len: usize) -> usize {
    (len + CHECKSUM_BYTES).next_multiple_of(BACKING_GRAIN)
}
