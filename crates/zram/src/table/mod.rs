//! The entries of a device's slots and blocks, and all that is used to work on them.
//!
//! Lock order: stream, slot (the pool's entry), then the pool's own.

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

/// What a device is: its entries, and what is used to work on them.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) pool: Arc<EntryPool>,
    /// What the pool notes of each entry.
    pub(crate) columns: Columns,
    pub(crate) streams: Streams,
    pub(crate) counters: Counters,
    /// Limits all memory.
    pub(crate) total: Arc<TotalLimit>,
    pub(crate) disksize: u64,
    pub(crate) layout: Layout,
    pub(crate) versions: BlockVersions,
    /// A slot that compresses to this or more is stored raw.
    pub(crate) huge_size: usize,
    /// By priority.
    pub(crate) algorithms: AlgorithmList,
    pub(crate) jobs: Jobs,
    /// What is written back to, if there is one, and how much.
    pub(crate) store: Option<Arc<Store>>,
    pub(crate) writeback: Arc<WritebackLimit>,
    /// Whether this is a child, and the pool's pages stayed with the parent.
    pub(crate) is_left_behind: AtomicBool,
}

/// Why a request stops before its end.
#[derive(Debug)]
pub(crate) enum Blocked {
    Failed(Error),
    /// A block was made of what it looked at, or is one no more. It goes on where it was.
    Changed,
    /// What it needs lies in the backing store. It gives up its locks and its stream, which it may
    /// have to wait long without, and goes on where it was with the object in hand.
    OnBacking(PlaceGuard),
}

impl From<Error> for Blocked {
    fn from(error: Error) -> Self {
        Blocked::Failed(error)
    }
}

impl Table {
    /// Whether requests are possible at all, and this one.
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

    /// Makes an entry hold an object, for which there is room, and notes its sum (zr-X9); what it
    /// held.
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

    /// Whether what an entry holds, which is locked, is what was stored.
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

    /// What an entry held is no one's any more: its place in the backing store is free, if it had
    /// one.
    #[inline]
    pub(crate) fn release_backing(&self, old: Old) {
        if let (Some(place), Some(store)) = (BackingPlace::of(old), &self.store) {
            store.free_object(place);
        }
    }

    /// Gives a slot's entry a payload instead of what it holds, and counts that.
    pub(crate) fn set_slot(&self, shard: &Shard, slot: EntryWriteGuard<'_>, payload: Payload) {
        let old = slot.set_payload(payload.bits());
        shard.changed(
            SlotKind::of(old).weight(),
            SlotKind::of(Old::Inline(payload.bits())).weight(),
        );
        self.release_backing(old);
    }

    /// Locks an entry that is written to, a slot's or a block's, and notes the time.
    #[inline]
    pub(crate) fn lock(&self, entry: u32, seconds: u32) -> Result<EntryWriteGuard<'_>, Error> {
        let full = |error| self.out_of_memory(self.layout.slot_of(entry), error);
        let guard = self.pool.lock(entry).map_err(full)?;
        guard.row().set_access_time(seconds);
        Ok(guard)
    }

    /// Gives slot `nth` what it is to be, counts it, and frees what its entry held; that.
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

    /// What an entry holds that is locked, if its sum is right: where that is away, what of it is
    /// among `read_back`.
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

    /// Returns the error for a block's object that lacks what it must have.
    pub(crate) fn damaged(&self, block: u32) -> Error {
        Error::Damaged { slot: self.layout.first_slot(block).into() }
    }
}

/// Returns whether a slot's entry is empty at this moment, or not there.
pub(crate) fn is_slot_empty(table: &Table, slot: u32) -> bool {
    table
        .pool
        .look_at(slot, |held, _| held)
        .is_none_or(|held| SlotKind::of(held) == SlotKind::Empty)
}

/// Returns whether a slot's block has something to say of it, or someone is about to give it that:
/// where the slot's entry is locked and this says no, it stays so until that is unlocked (zr-B1).
pub(crate) fn is_block_active(table: &Table, slot: u32) -> bool {
    let layout = table.layout;
    if !layout.has_blocks() {
        return false;
    }
    // After the slot's entry was locked: see `lock_slots`.
    fence(SeqCst);
    !table.pool.is_vacant(layout.block_entry(layout.block_of(slot)))
}

/// Returns the seconds since the machine was started, those asleep included, as the kernel's device
/// tells them: by them slots are young or old.
pub(crate) fn boot_seconds() -> u32 {
    clock_gettime(ClockId::Boottime).tv_sec as u32
}
