//! The entries of a device's slots and blocks, and the structures that access these entries.
//!
//! Lock order: a stream, a slot (an entry of the pool), then the pool's own locks.

mod change;
mod check;
mod walk;

pub(crate) use change::{
    BlockUpdate, block_object, decoded, live_members, live_members_locked, lock_slots, weight_of,
};
pub(crate) use check::check_entries;
pub(crate) use walk::{Origin, blocks_from, is_unused, origin, own_entry};

use crate::Error;
use crate::algorithms::AlgorithmList;
use crate::backing::{PlaceGuard, ReadBack, Store, WritebackLimit};
use crate::block::BlockVersions;
use crate::counters::{Counters, Shard};
use crate::job::Jobs;
use crate::layout::Layout;
use crate::slot::{BackingPlace, Flags, Payload, Slot, SlotKind};
use crate::streams::Streams;
use crate::total_limit::TotalLimit;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Relaxed, SeqCst},
    fence,
};
use zsmalloc::{Columns, Content, EntryPool, EntryWriteGuard, Old, Reservation, Row};

/// The state of a device.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) pool: Arc<EntryPool>,
    /// The columns that the table has in addition to the entries.
    pub(crate) columns: Columns,
    pub(crate) streams: Streams,
    pub(crate) counters: Counters,
    pub(crate) total: Arc<TotalLimit>,
    pub(crate) disksize: u64,
    pub(crate) layout: Layout,
    pub(crate) versions: BlockVersions,
    /// The minimum compressed length, in bytes, at which a slot is stored raw.
    pub(crate) huge_size: usize,
    pub(crate) algorithms: AlgorithmList,
    pub(crate) jobs: Jobs,
    /// The backing store, if the device has one, and the limit of write-back.
    pub(crate) store: Option<Arc<Store>>,
    pub(crate) writeback: Arc<WritebackLimit>,
    /// Whether this is a child process that did not inherit the pool's pages.
    pub(crate) is_left_behind: AtomicBool,
}

/// The reason why a request stops before its end.
#[derive(Debug)]
pub(crate) enum Blocked {
    Failed(Error),
    /// Another thread has stored or freed a block that the request has looked up. The request
    /// continues at the position where it stopped.
    Changed,
    /// The request needs an object in the backing store. The request releases its locks and its
    /// stream during the read, and then continues where it stopped.
    OnBacking(PlaceGuard),
}

impl From<Error> for Blocked {
    fn from(error: Error) -> Self {
        Blocked::Failed(error)
    }
}

impl Table {
    /// Checks that the pool's pages are in this process, and that the range lies within the device.
    pub(crate) fn check_range(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.check_not_left_behind()?;
        let disksize = self.disksize;
        match offset.checked_add(len) {
            Some(end) if end <= disksize => Ok(()),
            _ => Err(Error::Range { offset, len, disksize }),
        }
    }

    pub(crate) fn check_not_left_behind(&self) -> Result<(), Error> {
        if self.is_left_behind.load(Relaxed) { Err(Error::LeftBehind) } else { Ok(()) }
    }

    pub(crate) fn out_of_memory(&self, slot: u32, source: zsmalloc::Error) -> Error {
        let total_limit = self.total.limit().filter(|_| source.is_refused());
        Error::OutOfMemory { slot: slot as u64, source, total_limit }
    }

    /// Stores an object in an entry, at the place that was reserved for the object, and stores the
    /// object's checksum (zr-X9). Returns the previous content.
    pub(crate) fn commit<'t>(
        &self,
        entry: EntryWriteGuard<'t>,
        room: Reservation<'t>,
        bytes: &[u8],
        flags: Flags,
    ) -> Old {
        if self.columns.checksum {
            entry.row().set_checksum(crc32fast::hash(bytes));
        }
        entry.store_in(room, bytes, flags.bits())
    }

    /// Verifies the checksum of a locked entry's object.
    #[inline]
    pub(crate) fn verify(
        &self,
        entry: u32,
        content: Content<&[u8]>,
        row: Option<Row<'_>>,
    ) -> Result<(), Error> {
        if self.columns.checksum
            && let (Content::Object { bytes, .. }, Some(row)) = (content, row)
            && row.checksum() != Some(crc32fast::hash(bytes))
        {
            return Err(Error::Checksum { slot: self.layout.slot_of(entry).into() });
        }
        Ok(())
    }

    /// Frees the place in the backing store that an entry referred to before, if any.
    #[inline]
    pub(crate) fn release_backing(&self, old: Old) {
        if let (Some(place), Some(store)) = (BackingPlace::of(old), &self.store) {
            store.free_object(place);
        }
    }

    /// Replaces the content of a slot's entry by a payload, and counts the change.
    pub(crate) fn set_slot(&self, shard: &Shard, slot: EntryWriteGuard<'_>, payload: Payload) {
        let old = slot.set_payload(payload.bits());
        shard.changed(
            SlotKind::of(old).weight(),
            SlotKind::of(Old::Inline(payload.bits())).weight(),
        );
        self.release_backing(old);
    }

    /// Locks the entry of a slot or block for a write, and records the access time.
    #[inline]
    pub(crate) fn lock(&self, entry: u32, seconds: u32) -> Result<EntryWriteGuard<'_>, Error> {
        let full = |error| self.out_of_memory(self.layout.slot_of(entry), error);
        let guard = self.pool.lock(entry).map_err(full)?;
        guard.row().set_access_time(seconds);
        Ok(guard)
    }

    /// Stores slot `nth` in its entry, counts the change, and frees and returns the previous
    /// content.
    pub(crate) fn store(
        &self,
        shard: &Shard,
        (nth, entry): (u32, EntryWriteGuard<'_>),
        slot: Slot<'_>,
    ) -> Result<Old, Error> {
        let (coded, flags) = slot.coded();
        let old = match coded.object() {
            Ok(bytes) => {
                let room = entry.reserve(bytes).map_err(|error| self.out_of_memory(nth, error))?;
                self.commit(entry, room, bytes, flags)
            }
            Err(payload) => entry.set_payload(payload.bits()),
        };
        shard.changed(SlotKind::of(old).weight(), slot.kind().weight());
        self.release_backing(old);
        Ok(old)
    }

    /// Returns the content of a locked entry, after verifying its checksum. If the object is in the
    /// backing store, returns it from `read_back`, or returns its place in `Blocked::OnBacking`.
    #[inline]
    pub(crate) fn resolve<'c>(
        &self,
        entry: u32,
        content: Content<&'c [u8]>,
        row: Option<Row<'_>>,
        read_back: &'c [ReadBack],
    ) -> Result<Content<&'c [u8]>, Blocked> {
        match BackingPlace::of(content) {
            Some(place) => self.resolve_backed(entry, place, read_back),
            None => {
                self.verify(entry, content, row)?;
                Ok(content)
            }
        }
    }

    #[cold]
    fn resolve_backed<'f>(
        &self,
        entry: u32,
        place: BackingPlace,
        read_back: &'f [ReadBack],
    ) -> Result<Content<&'f [u8]>, Blocked> {
        let is_it = |read_back: &&ReadBack| {
            (read_back.guard.entry, read_back.guard.place) == (entry, place)
        };
        match (read_back.iter().find(is_it), &self.store) {
            (Some(read_back), _) => {
                let flags = Flags::of_priority(place.priority).bits();
                Ok(Content::Object { bytes: &read_back.bytes, flags })
            }
            (None, Some(store)) => Err(Blocked::OnBacking(store.guard_place(place, entry))),
            (None, None) => Err(Error::NoBacking.into()),
        }
    }

    pub(crate) fn corrupt(&self, block: u32, source: zcomp::Error) -> Error {
        Error::Corrupt { slot: self.layout.first_slot(block).into(), source }
    }

    /// Returns the error for an invalid object of a block.
    pub(crate) fn damaged(&self, block: u32) -> Error {
        Error::Damaged { slot: self.layout.first_slot(block).into() }
    }
}

/// Returns true if a slot's entry is empty or does not exist. The result may be outdated at once.
pub(crate) fn is_slot_empty(table: &Table, slot: u32) -> bool {
    table
        .pool
        .look_at(slot, |held, _| held)
        .is_none_or(|held| SlotKind::of(held) == SlotKind::Empty)
}

/// Returns true if a slot's block has an object, or another thread has the block's entry locked for
/// a change. If the caller has the slot's entry locked, a result of false remains valid until the
/// caller unlocks that entry (zr-B1).
pub(crate) fn is_block_active(table: &Table, slot: u32) -> bool {
    let layout = table.layout;
    if !layout.has_blocks() {
        return false;
    }
    // The caller locked the slot's entry before this fence: see `lock_slots`.
    fence(SeqCst);
    !table.pool.is_vacant(layout.block_entry(layout.block_of(slot)))
}

/// Returns the number of seconds since boot, including the time in suspend. The kernel's zram
/// measures ages with the same clock.
pub(crate) fn boot_seconds() -> u32 {
    clock_gettime(ClockId::Boottime).tv_sec as u32
}
