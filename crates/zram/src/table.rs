//! The table of a device's slots, with or without the time of access beside each.
//!
//! Lock order: stream, slot (the pool's entry), then the pool's own.

use crate::algorithms::AlgorithmList;
use crate::blocks::BlockVersions;
use crate::cold::{
    BackingPlace, Jobs, Recompress, Recompressed, Selection, Store, WritebackLimit, WrittenBack,
};
use crate::layout::{Item, Layout};
use crate::request;
use crate::save::{self, Damage, Restored, SaveOptions, Saved};
use crate::stats::{Counters, Held, Shard};
use crate::stop;
use crate::streams::Streams;
use crate::total_limit::TotalLimit;
use crate::{Error, SLOT_BYTES, blocks, slot};
use page::fork::AtFork;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use zsmalloc::{Columns, Content, EntryPool, EntryWriteGuard, Old, Reservation, Row};

/// What a device has beside the pool.
#[derive(Debug)]
pub(crate) struct Shared {
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
    /// For a save that must not fail for want of memory.
    pub(crate) save_buffers: save::SpareBuffers,
    /// What is written back to, if there is one, and how much.
    pub(crate) store: Option<Arc<Store>>,
    pub(crate) writeback: Arc<WritebackLimit>,
    /// Whether this is a child, and the pool's pages stayed with the parent.
    pub(crate) is_left_behind: AtomicBool,
}

impl Shared {
    /// Whether requests are possible at all, and this one.
    fn check_range(&self, offset: u64, len: u64) -> Result<(), Error> {
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
}

/// The slots.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) shared: Shared,
    pub(crate) pool: Arc<EntryPool>,
    /// What the pool notes of each.
    pub(crate) columns: Columns,
}

impl Table {
    /// Whether nothing is stored.
    pub(crate) fn is_empty(&self) -> bool {
        let (mut next, mut is_empty) = (Some(0), true);
        while let Some(from) = next.filter(|_| is_empty) {
            next = self.pool.look_at_some(from, |_, _, _| is_empty = false);
        }
        is_empty
    }

    /// Makes an entry hold an object, for which there is room, and notes its sum (zr-X9); what it
    /// held.
    pub(crate) fn commit<'t>(
        &self,
        entry: EntryWriteGuard<'t>,
        room: Reservation<'t>,
        bytes: &[u8],
        flags: u8,
    ) -> Old {
        if self.columns.checksum {
            entry.row().set_checksum(crc32fast::hash(bytes));
        }
        entry.store_in(room, bytes, flags)
    }

    /// Whether what an entry holds, which is locked, is what was stored.
    #[inline]
    pub(crate) fn verify(
        &self,
        entry: u32,
        content: Content<'_>,
        row: Option<Row<'_>>,
    ) -> Result<(), Error> {
        if self.columns.checksum
            && let (Content::Object { bytes, .. }, Some(row)) = (content, row)
            && row.checksum() != Some(crc32fast::hash(bytes))
        {
            return Err(Error::Checksum { slot: self.shared.layout.slot_of(entry).into() });
        }
        Ok(())
    }

    /// What an entry holds, as the counters see it.
    pub(crate) fn held(&self, item: Item, content: Content<'_>) -> Held {
        match item {
            Item::Slot(_) => slot::held_now(content),
            Item::Block(_) => blocks::held(content, self.shared.layout.slots()),
        }
    }

    /// What an entry held is no one's any more: its place in the backing store is free, if it had
    /// one.
    #[inline]
    pub(crate) fn release_backing(&self, old: Old) {
        if let (Some(place), Some(store)) = (BackingPlace::of(old), &self.shared.store) {
            store.free_object(place);
        }
    }

    /// Gives a slot's entry a payload instead of what it holds, and counts that.
    pub(crate) fn set_slot(&self, shard: &Shard, slot: EntryWriteGuard<'_>, payload: u64) {
        let old = slot.set_payload(payload);
        shard.changed(slot::held_before(old), slot::held_inline(payload));
        self.release_backing(old);
    }

    /// Locks a slot that is written to.
    pub(crate) fn lock(&self, slot: u32, seconds: u32) -> Result<EntryWriteGuard<'_>, Error> {
        self.lock_entry(slot, seconds)
    }

    /// The same of an entry, a slot's or a block's.
    #[inline]
    pub(crate) fn lock_entry(
        &self,
        index: u32,
        seconds: u32,
    ) -> Result<EntryWriteGuard<'_>, Error> {
        let full = |error| self.shared.out_of_memory(self.shared.layout.slot_of(index), error);
        let entry = self.pool.lock(index).map_err(full)?;
        entry.row().set_access_time(seconds);
        Ok(entry)
    }
}

/// While no thread has a stream, no request is under way.
impl AtFork for Table {
    fn prepare(&self) {
        self.shared.jobs.lock_for_fork();
        self.shared.streams.lock_for_fork();
        self.pool.prepare();
        self.shared.store.iter().for_each(|store| store.lock_for_fork());
    }

    fn in_parent(&self) {
        self.shared.store.iter().for_each(|store| store.unlock_after_fork());
        self.pool.in_parent();
        self.shared.streams.unlock_after_fork();
        self.shared.jobs.unlock_after_fork();
    }

    fn in_child(&self) {
        self.shared.store.iter().for_each(|store| store.unlock_in_child());
        self.pool.in_child();
        self.shared.jobs.abandon_in_child();
        self.shared.is_left_behind.store(!self.pool.is_in_children(), Relaxed);
        self.shared.streams.unlock_after_fork();
    }
}

/// What the device's users ask for: a request is one call, and so is each of the others.
impl Table {
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.shared.check_range(offset, bytes.len() as u64)?;
        stop::until_done(self, |request| request.write(offset, bytes))
    }

    pub(crate) fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.shared.check_range(offset, buf.len() as u64)?;
        stop::until_done(self, |request| request.read(offset, buf))
    }

    pub(crate) fn discard(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.shared.check_range(offset, len)?;
        request::discard(self, offset, len)
    }

    pub(crate) fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.shared.check_range(offset, len)?;
        request::write_zeroes(self, offset, len)
    }

    pub(crate) fn mark_idle(&self, age: Option<u64>) -> Result<(), Error> {
        self.shared.check_not_left_behind()?;
        self.mark_slots_idle(age)
    }

    pub(crate) fn recompress(&self, how: &Recompress) -> Result<Recompressed, Error> {
        self.shared.check_not_left_behind()?;
        self.recompress_all(how)
    }

    pub(crate) fn write_back(&self, selection: &Selection) -> Result<WrittenBack, Error> {
        self.shared.check_not_left_behind()?;
        self.write_back_all(selection, &self.shared.writeback)
    }

    pub(crate) fn may_wait(&self, offset: u64, len: u64) -> bool {
        if self.shared.store.is_none() || len == 0 || self.shared.check_range(offset, len).is_err()
        {
            return false;
        }
        let layout = self.shared.layout;
        let slot = |at: u64| (at / SLOT_BYTES as u64) as u32;
        let (first, last) = (slot(offset), slot(offset + len - 1));
        let blocks = layout.block_of(first)..=layout.block_of(last);
        let mut entries = (first..=last).chain(blocks.map(|block| layout.first_entry(block)));
        let is_away = |entry| self.pool.look_at(entry, |old, _| BackingPlace::of(old).is_some());
        entries.any(|entry| is_away(entry) == Some(true))
    }

    pub(crate) fn save(
        &self,
        path: &Path,
        options: &SaveOptions,
        is_free: &dyn Fn() -> bool,
    ) -> Result<Saved, Error> {
        self.shared.check_not_left_behind()?;
        save::save_file(self, path, options, is_free)
    }

    pub(crate) fn save_to(
        &self,
        out: &mut dyn Write,
        options: &SaveOptions,
    ) -> Result<Saved, Error> {
        self.shared.check_not_left_behind()?;
        save::save_to(self, out, options)
    }

    pub(crate) fn restore(
        &self,
        from: &mut (dyn Read + Send),
        path: &Path,
        damage: Damage,
    ) -> Result<Restored, Error> {
        self.shared.check_not_left_behind()?;
        save::restore(self, from, path, damage)
    }

    pub(crate) fn compact(&self) -> usize {
        if self.shared.check_not_left_behind().is_ok() {
            self.rewrite_all();
        }
        self.pool.compact()
    }

    pub(crate) fn shrink(&self, bytes: usize) -> usize {
        self.rewrite_all();
        self.pool.shrink(bytes)
    }

    pub(crate) fn check(&self) {
        self.pool.check();
        self.check_entries();
    }
}
