//! The table of a device's slots, with or without the time of access beside each.
//!
//! Lock order: stream, slot (the pool's word), then the pool's own.

use crate::algorithms::AlgorithmList;
use crate::blocks::Versions;
use crate::cold::{
    Jobs, Place, Recompress, Recompressed, Selection, Store, WritebackLimit, WrittenBack,
};
use crate::layout::{Layout, Whose};
use crate::request;
use crate::save::{self, Damage, Restored, SaveOptions, Saved};
use crate::stat::{Counters, Held, Share};
use crate::states::SlotState;
use crate::stop;
use crate::streams::Streams;
use crate::total::Total;
use crate::{BLOCK, Error, blocks, slot};
use page::Budget;
use page::fork::AtFork;
use std::fmt::Debug;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use zsmalloc::{
    BesideSlot, Classes, CompactionStat, Content, EntryPool, EntryWriteGuard, Old, Reservation,
    Slots,
};

/// What a device has beside the pool.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) streams: Streams,
    pub(crate) counters: Counters,
    /// Limits all memory.
    pub(crate) total: Arc<Total>,
    pub(crate) disksize: u64,
    pub(crate) layout: Layout,
    pub(crate) versions: Versions,
    /// A slot that compresses to this or more is stored raw.
    pub(crate) huge_size: usize,
    /// By priority.
    pub(crate) algorithms: AlgorithmList,
    pub(crate) jobs: Jobs,
    /// For a save that must not fail for want of memory.
    pub(crate) save_buffers: save::Kept,
    /// What is written back to, if there is one, and how much.
    pub(crate) store: Option<Arc<Store>>,
    pub(crate) writeback: Arc<WritebackLimit>,
    /// Whether this is a child, and the pool's pages stayed with the parent.
    pub(crate) left_behind: AtomicBool,
}

impl Shared {
    /// Whether requests are possible at all, and this one.
    fn admit(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.is_here()?;
        let disksize = self.disksize;
        match offset.checked_add(len) {
            Some(end) if end <= disksize => Ok(()),
            _ => Err(Error::Range { offset, len, disksize }),
        }
    }

    pub(crate) fn is_here(&self) -> Result<(), Error> {
        if self.left_behind.load(Relaxed) { Err(Error::LeftBehind) } else { Ok(()) }
    }

    pub(crate) fn full(&self, slot: u32, source: zsmalloc::Error) -> Error {
        let total_limit = self.total.limit().filter(|_| source.is_refused());
        Error::OutOfMemory { slot: slot as u64, source, total_limit }
    }
}

/// The slots, with an `E` beside each.
#[derive(Debug)]
pub(crate) struct Table<E: BesideSlot> {
    pub(crate) shared: Shared,
    pub(crate) pool: Arc<EntryPool<Slots<E>>>,
}

impl<E: BesideSlot> Table<E> {
    /// Whether nothing is stored.
    pub(crate) fn is_empty(&self) -> bool {
        let (mut next, mut is_empty) = (Some(0), true);
        while let Some(from) = next.filter(|_| is_empty) {
            next = self.pool.look_at_some(from, |_, _, _| is_empty = false);
        }
        is_empty
    }

    /// Makes a word hold an object, for which there is room, and notes its sum (zr-X9); what it
    /// held.
    pub(crate) fn commit<'t>(
        &self,
        word: EntryWriteGuard<'t, E>,
        room: Reservation<'t>,
        bytes: &[u8],
        flags: u8,
    ) -> Old {
        if E::SUMMED {
            word.beside().note_sum(crc32fast::hash(bytes));
        }
        word.store_in(room, bytes, flags)
    }

    /// Whether what a word holds, which is locked, is what was stored.
    #[inline]
    pub(crate) fn verify(
        &self,
        word: u32,
        content: Content<'_>,
        beside: Option<&E>,
    ) -> Result<(), Error> {
        if E::SUMMED
            && let (Content::Object { bytes, .. }, Some(beside)) = (content, beside)
            && beside.sum() != Some(crc32fast::hash(bytes))
        {
            return Err(Error::Checksum { slot: self.shared.layout.slot_of(word).into() });
        }
        Ok(())
    }

    /// What a word holds, as the counters see it.
    pub(crate) fn held(&self, whose: Whose, content: Content<'_>) -> Held {
        match whose {
            Whose::Slot(_) => slot::held_now(content),
            Whose::Block(_) => blocks::held(content, self.shared.layout.slots()),
        }
    }

    /// What a word held is no one's any more: its place in the backing store is free, if it had one.
    #[inline]
    pub(crate) fn gone(&self, old: Old) {
        if let (Some(place), Some(store)) = (Place::of(old), &self.shared.store) {
            store.free(place);
        }
    }

    /// Gives a slot's word a payload instead of what it holds, and counts that.
    pub(crate) fn set(&self, share: &Share, slot: EntryWriteGuard<'_, E>, payload: u64) {
        let old = slot.set_payload(payload);
        share.changed(slot::held_before(old), slot::held_inline(payload));
        self.gone(old);
    }

    /// Locks a slot that is written to.
    pub(crate) fn lock(&self, slot: u32, seconds: u32) -> Result<EntryWriteGuard<'_, E>, Error> {
        self.lock_word(slot, seconds)
    }

    /// The same of a word, a slot's or a block's.
    #[inline]
    pub(crate) fn lock_word(
        &self,
        index: u32,
        seconds: u32,
    ) -> Result<EntryWriteGuard<'_, E>, Error> {
        let full = |error| self.shared.full(self.shared.layout.slot_of(index), error);
        let word = self.pool.lock(index).map_err(full)?;
        word.beside().stamp(seconds);
        Ok(word)
    }
}

/// While no thread has a stream, no request is under way.
impl<E: BesideSlot> AtFork for Table<E> {
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
        self.shared.store.iter().for_each(|store| store.leave_behind());
        self.pool.in_child();
        self.shared.jobs.forget();
        self.shared.left_behind.store(!self.pool.is_in_children(), Relaxed);
        self.shared.streams.unlock_after_fork();
    }
}

/// A table of slots whatever lies beside them, so that only what works on slots need know: a request is one
/// call, and so is each of the others.
pub(crate) trait AnyTable: Debug + Send + Sync {
    fn shared(&self) -> &Shared;
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error>;
    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error>;
    fn discard(&self, offset: u64, len: u64) -> Result<(), Error>;
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Error>;
    fn mark_idle(&self, age: Option<u64>) -> Result<(), Error>;
    fn recompress(&self, how: &Recompress) -> Result<Recompressed, Error>;
    fn write_back(&self, selection: &Selection) -> Result<WrittenBack, Error>;
    fn may_wait(&self, offset: u64, len: u64) -> bool;
    fn save(
        &self,
        path: &Path,
        options: &SaveOptions,
        is_free: &dyn Fn() -> bool,
    ) -> Result<Saved, Error>;
    fn save_to(&self, out: &mut dyn Write, options: &SaveOptions) -> Result<Saved, Error>;
    fn restore(
        &self,
        from: &mut (dyn Read + Send),
        path: &Path,
        damage: Damage,
    ) -> Result<Restored, Error>;
    fn states_of_some(&self, from: u64, some: &mut Vec<SlotState>) -> Option<u64>;
    fn pages(&self) -> &Budget;
    fn pool_bytes(&self) -> usize;
    fn compact(&self) -> usize;
    fn shrink(&self, bytes: usize) -> usize;
    fn compaction_stat(&self) -> CompactionStat;
    fn freeable(&self) -> usize;
    fn read_waits(&self) -> u64;
    fn classes(&self) -> Classes;
    fn check(&self);
    fn stop_background(&self);
}

impl<E: BesideSlot> AnyTable for Table<E> {
    fn shared(&self) -> &Shared {
        &self.shared
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.shared.admit(offset, bytes.len() as u64)?;
        stop::run(self, |request| request.write(offset, bytes))
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.shared.admit(offset, buf.len() as u64)?;
        stop::run(self, |request| request.read(offset, buf))
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.shared.admit(offset, len)?;
        request::free_whole(self, offset, len)
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.shared.admit(offset, len)?;
        request::zero(self, offset, len)
    }

    fn mark_idle(&self, age: Option<u64>) -> Result<(), Error> {
        self.shared.is_here()?;
        self.mark_slots_idle(age)
    }

    fn recompress(&self, how: &Recompress) -> Result<Recompressed, Error> {
        self.shared.is_here()?;
        self.recompress_all(how)
    }

    fn write_back(&self, selection: &Selection) -> Result<WrittenBack, Error> {
        self.shared.is_here()?;
        self.write_back_all(selection, &self.shared.writeback)
    }

    fn may_wait(&self, offset: u64, len: u64) -> bool {
        if self.shared.store.is_none() || len == 0 || self.shared.admit(offset, len).is_err() {
            return false;
        }
        let layout = self.shared.layout;
        let slot = |at: u64| (at / BLOCK as u64) as u32;
        let (first, last) = (slot(offset), slot(offset + len - 1));
        let blocks = layout.block_of(first)..=layout.block_of(last);
        let mut words = (first..=last).chain(blocks.map(|block| layout.first_word(block)));
        let is_away = |word| self.pool.look_at(word, |old, _| Place::of(old).is_some());
        words.any(|word| is_away(word) == Some(true))
    }

    fn save(
        &self,
        path: &Path,
        options: &SaveOptions,
        is_free: &dyn Fn() -> bool,
    ) -> Result<Saved, Error> {
        self.shared.is_here()?;
        save::save_file(self, path, options, is_free)
    }

    fn save_to(&self, out: &mut dyn Write, options: &SaveOptions) -> Result<Saved, Error> {
        self.shared.is_here()?;
        save::save_to(self, out, options)
    }

    fn restore(
        &self,
        from: &mut (dyn Read + Send),
        path: &Path,
        damage: Damage,
    ) -> Result<Restored, Error> {
        self.shared.is_here()?;
        save::restore(self, from, path, damage)
    }

    fn states_of_some(&self, from: u64, some: &mut Vec<SlotState>) -> Option<u64> {
        self.states_from(from, some)
    }

    fn pages(&self) -> &Budget {
        self.pool.pages()
    }

    fn pool_bytes(&self) -> usize {
        self.pool.bytes()
    }

    fn compact(&self) -> usize {
        if self.shared.is_here().is_ok() {
            self.settle_all();
        }
        self.pool.compact()
    }

    fn shrink(&self, bytes: usize) -> usize {
        self.settle_all();
        self.pool.shrink(bytes)
    }

    fn compaction_stat(&self) -> CompactionStat {
        self.pool.compaction_stat()
    }

    fn freeable(&self) -> usize {
        self.pool.freeable()
    }

    fn read_waits(&self) -> u64 {
        self.pool.read_waits()
    }

    fn classes(&self) -> Classes {
        self.pool.classes()
    }

    fn check(&self) {
        self.pool.check();
        self.check_words();
    }

    fn stop_background(&self) {
        self.pool.stop_background();
    }
}
