//! The device as its users see it. What requests do to slots is in [`request`](crate::request).

#[cfg(test)]
mod tests;

use crate::backing::BdStat;
use crate::block_state::{self, BlockState};
use crate::build::build_table;
use crate::cold::{self, Recompress, Recompressed, Selection, WrittenBack};
use crate::job::JobStat;
use crate::policy::{JOB_END_TICK, UNASKED_MARGIN};
use crate::save::{self, Damage, Restored, SaveOptions, Saved, SpareBuffers};
use crate::stats::{DebugStat, IoStat, MmStat, OrderStat, Written};
use crate::table::{Table, check_entries};
use crate::total_limit::{Counted, pages_for};
use crate::{Compaction, Config, Error, SLOT_BYTES, open_file, request};
use page::page_size;
use std::io::{BufReader, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use zsmalloc::{Classes, CompactionStat, EntryPool};

/// Bytes that are read ahead of a saved file.
const BUFFER: usize = 16 << 10;
/// A compressed device in memory. All functions take `&self` and may be called from any thread.
///
/// Requests have any offset and length within the device; one of no bytes may be at its end, too,
/// and does nothing. What goes past the end is refused whole ([`Error::Range`]). A write that fails
/// has written the slots before the one that its error names, and no others.
///
/// ```
/// let device = zram::Device::new(zram::Config::new(1 << 30)?)?;
/// device.write(5000, b"some bytes")?;
/// let mut bytes = [0; 10];
/// device.read(5000, &mut bytes)?;
/// assert_eq!(&bytes, b"some bytes");
/// # Ok::<(), zram::Error>(())
/// ```
#[derive(Debug)]
pub struct Device {
    table: Arc<Table>,
    compaction: Compaction,
    /// For a save that must not fail for want of memory.
    save_buffers: SpareBuffers,
}

impl Device {
    /// Returns an empty device, which reads as zeros and holds no pages.
    ///
    /// # Errors
    /// What `config` asks for can't be, or there is no memory for it.
    pub fn new(config: Config) -> Result<Self, Error> {
        let (compaction, limit_tables) = (config.compaction, config.limit_tables);
        let total_limit = config.total_limit;
        let table = build_table(config)?;
        let device = Device { table, compaction, save_buffers: SpareBuffers::default() };
        let needed = device.mem_total() + UNASKED_MARGIN;
        match total_limit {
            Some(limit) if limit < needed => return Err(Error::TotalLimit { limit, needed }),
            _ => {}
        }
        if limit_tables {
            device.table.total.limit_with_pages(needed);
        }
        Ok(device)
    }

    /// The table, unless this is a child that has not got it.
    fn usable_table(&self) -> Result<&Table, Error> {
        self.table.check_not_left_behind().map(|()| &*self.table)
    }

    fn save_where(
        &self,
        path: &Path,
        options: &SaveOptions,
        is_free: &dyn Fn() -> bool,
    ) -> Result<Saved, Error> {
        save::save_file(self.usable_table()?, &self.save_buffers, path, options, is_free)
    }

    /// Returns the bytes of the device.
    pub fn disksize(&self) -> u64 {
        self.table.disksize
    }

    /// Returns the bytes that are compressed as one where they are written as one.
    pub fn block(&self) -> usize {
        self.table.layout.block_bytes()
    }

    /// Writes `bytes` at `offset`.
    ///
    /// # Errors
    /// [`Error::Range`]; [`Error::OutOfMemory`]; or what is written in part can't be read:
    /// [`Error::Backing`], or its data are damaged.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.write_telling(offset, bytes).map(|_| ())
    }

    /// Writes as [`write`](Self::write) does, and returns what became of the bytes.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_telling(&self, offset: u64, bytes: &[u8]) -> Result<Written, Error> {
        request::write(&self.table, offset, bytes)
    }

    /// Reads `buf.len()` bytes at `offset`. What was never written, or discarded, reads as zeros.
    ///
    /// # Errors
    /// [`Error::Range`]; [`Error::Backing`], or data are damaged: then `buf` may hold some of them.
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        request::read(&self.table, offset, buf)
    }

    /// Makes `len` bytes at `offset` read as zeros. Slots that the range covers whole are freed
    /// first, which needs no memory. Slots at its ends that it covers in part are written.
    ///
    /// # Errors
    /// [`Error::Range`]: nothing was changed. [`Error::OutOfMemory`], [`Error::Backing`]: a slot
    /// keeps its contents, because the rest of a slot could not be written, or because a block that
    /// was written as one could not give it up. That needs 8 bytes.
    #[doc(alias = "trim")]
    #[doc(alias = "write_zeroes")]
    pub fn discard(&self, offset: u64, len: u64) -> Result<(), Error> {
        request::discard(&self.table, offset, len)
    }

    /// Does nothing: whatever was written is stored when the write returns.
    ///
    /// # Errors
    /// [`Error::LeftBehind`]
    pub fn flush(&self) -> Result<(), Error> {
        self.table.check_not_left_behind()
    }

    /// Marks all slots idle that are not accessed at this moment, but same-filled ones. A slot that
    /// is read or written is no longer idle.
    pub fn mark_idle(&self) -> Result<(), Error> {
        block_state::mark_idle(self.usable_table()?, None)
    }

    /// Marks the slots idle that were not accessed for more than `seconds`, and takes the mark from
    /// younger ones. None is older than the machine's start.
    ///
    /// # Errors
    /// [`Error::Untracked`]: slots don't keep when they were accessed.
    pub fn mark_idle_older(&self, seconds: u64) -> Result<(), Error> {
        block_state::mark_idle(self.usable_table()?, Some(seconds))
    }

    /// Compresses slots and blocks once more, with an algorithm that makes them smaller; those that
    /// it does not are left, and marked incompressible after the last one. Requests go on
    /// meanwhile, and what they touch is left.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::NoAlgorithm`], [`Error::Threshold`]; or some data are damaged.
    pub fn recompress(&self, how: &Recompress) -> Result<Recompressed, Error> {
        cold::recompress(self.usable_table()?, how)
    }

    /// Writes slots and blocks back to the backing store, which then leave memory, as they lie
    /// there. Requests go on meanwhile, and what they touch stays. A fault of the store ends what
    /// was to be written together, and nothing else: data stay in memory, the rest is tried, and
    /// the last fault is what is returned.
    ///
    /// # Errors
    /// [`Error::NoBacking`], [`Error::Busy`], [`Error::WritebackLimit`], [`Error::BackingFull`],
    /// [`Error::Backing`].
    pub fn write_back(&self, selection: &Selection) -> Result<WrittenBack, Error> {
        cold::write_back(self.usable_table()?, selection)
    }

    /// Keeps the memory from now on that a save needs, so that none fails for want of it.
    ///
    /// # Errors
    /// [`Error::NoBuffer`]
    pub fn prepare_save(&self) -> Result<(), Error> {
        self.save_buffers.make()
    }

    /// Saves all to a file, compressed as it lies. Each slot is saved as it is at one moment of
    /// that time: what is not written meanwhile, exactly. What can't be read is left out, and named
    /// in the file and in [`Saved::lost`]. A file that is there already stays until the new one is
    /// durable; and if that lacks something, beside it (`FILE.before`).
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::Path`], [`Error::NoBuffer`].
    pub fn save(&self, path: &Path) -> Result<Saved, Error> {
        self.save_with(path, &SaveOptions::default())
    }

    /// Saves as [`save`](Self::save) does, as `options` say.
    ///
    /// # Errors
    /// As [`save`](Self::save); and, with [`Unreadable::Refuse`](crate::Unreadable::Refuse), what
    /// could not be read.
    pub fn save_with(&self, path: &Path, options: &SaveOptions) -> Result<Saved, Error> {
        self.save_where(path, options, &|| true)
    }

    /// Saves as [`save`](Self::save) does; but when all is durable, right before the file takes its
    /// place, `is_free` says whether it may. If not, what is there stays.
    ///
    /// # Errors
    /// As [`save`](Self::save); EEXIST where it may not.
    pub fn save_if(&self, path: &Path, is_free: &dyn Fn() -> bool) -> Result<Saved, Error> {
        self.save_where(path, &SaveOptions::default(), is_free)
    }

    /// Saves as [`save`](Self::save) does, to any writer. After an error, what was written there is
    /// no saved device.
    ///
    /// # Errors
    /// As [`save`](Self::save).
    pub fn save_to(&self, out: &mut dyn Write) -> Result<Saved, Error> {
        self.save_to_with(out, &SaveOptions::default())
    }

    /// Saves as [`save_to`](Self::save_to) does, as `options` say.
    ///
    /// # Errors
    /// As [`save_with`](Self::save_with).
    pub fn save_to_with(&self, out: &mut dyn Write, options: &SaveOptions) -> Result<Saved, Error> {
        save::save_to(self.usable_table()?, &self.save_buffers, out, options)
    }

    /// Restores what was saved, on a device that is empty and not smaller; it may have other
    /// blocks, algorithms and geometry. After an error the device is empty. Nothing else may use it
    /// meanwhile.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::NotEmpty`], [`Error::TooSmall`]; [`Error::Path`];
    /// [`Error::Saved`]: the file is damaged, or none; or there is no memory for it.
    pub fn restore(&self, path: &Path, damage: Damage) -> Result<Restored, Error> {
        let mut file = BufReader::with_capacity(BUFFER, open_file::to_restore(path)?);
        save::restore(self.usable_table()?, &mut file, path, damage)
    }

    /// Restores from any reader.
    ///
    /// # Errors
    /// As [`restore`](Self::restore).
    pub fn restore_from(
        &self,
        from: &mut (dyn Read + Send),
        damage: Damage,
    ) -> Result<Restored, Error> {
        save::restore(self.usable_table()?, from, Path::new("-"), damage)
    }

    /// Returns the job that is under way, which recompresses, writes back, saves or restores.
    pub fn job(&self) -> Option<JobStat> {
        self.table.jobs.stat()
    }

    /// Makes the job that is under way end as soon as it can, with [`Error::Cancelled`]. What it
    /// recompressed or wrote back by then stays so; of a save nothing is left, and of a restore an
    /// empty device. Whether there is one.
    pub fn cancel_job(&self) -> bool {
        self.table.jobs.cancel()
    }

    /// Cancels the job that is under way and waits for its end, so long at most; whether it has
    /// ended. If not, as what it reads or writes does not come back, it is given up: it changes
    /// nothing of the device any more, and another may begin. (Of a restore, what was put there by
    /// then stays, and the chunks that are being put there come.)
    pub fn give_up_job(&self, within: Duration) -> bool {
        let until = Instant::now() + within;
        while self.job().is_some() {
            self.cancel_job();
            if Instant::now() >= until {
                return self.table.jobs.give_up();
            }
            std::thread::sleep(JOB_END_TICK);
        }
        true
    }

    /// Returns whether a request for `len` bytes at `offset` may have to wait for the backing
    /// store. It is only a hint, of this moment.
    pub fn may_wait(&self, offset: u64, len: u64) -> bool {
        request::may_wait(&self.table, offset, len)
    }

    /// Returns the slots that hold something, in their order, each as it is when the iteration
    /// comes to it. They print as the kernel's `block_state`.
    pub fn block_state(&self) -> BlockState<'_> {
        self.block_state_from(0)
    }

    /// Returns the same, from slot `slot` on.
    pub fn block_state_from(&self, slot: u64) -> BlockState<'_> {
        BlockState::new(&self.table, slot)
    }

    /// Sets or lifts the limit of pool pages, in bytes. Below what is used, it refuses what needs
    /// more.
    pub fn set_mem_limit(&self, bytes: Option<u64>) {
        self.table.pool.pages().set_limit(bytes.map(pages_for));
    }

    /// Sets or lifts the limit of all memory, in bytes. Below what is used, it refuses what needs
    /// more.
    pub fn set_total_limit(&self, bytes: Option<u64>) {
        self.table.total.set_limit(bytes);
    }

    /// Makes `mem_used_max` what is used now.
    pub fn reset_mem_used_max(&self) {
        self.table.pool.pages().reset_peak();
    }

    /// Moves objects together so that pages become free; how many did. Readers never wait for it.
    /// Does nothing where compaction is off, or is under way already.
    pub fn compact(&self) -> usize {
        self.compacted(EntryPool::compact)
    }

    /// Compacts until `bytes` bytes were freed, and returns the pages freed.
    pub fn shrink(&self, bytes: usize) -> usize {
        self.compacted(|pool| pool.shrink(bytes))
    }

    fn compacted(&self, compact: impl FnOnce(&EntryPool) -> usize) -> usize {
        if self.compaction == Compaction::Off || self.usable_table().is_err() {
            return 0;
        }
        request::rewrite_all(&self.table);
        compact(&self.table.pool)
    }

    /// Returns the bytes of pages that compaction could free.
    pub fn freeable(&self) -> usize {
        self.table.pool.freeable()
    }

    /// Returns what compaction has done so far, and the processor time it took.
    pub fn compaction_stat(&self) -> CompactionStat {
        self.table.pool.compaction_stat()
    }

    /// Returns the kernel's `mm_stat`.
    pub fn mm_stat(&self) -> MmStat {
        let pages = self.table.pool.pages();
        let bytes = |pages: usize| (pages as u64).saturating_mul(page_size() as u64);
        MmStat {
            mem_used_total: bytes(pages.used()),
            mem_limit: pages.limit().map_or(0, bytes),
            mem_used_max: bytes(pages.peak()),
            pages_compacted: self.table.pool.compaction_stat().freed_pages,
            ..self.table.counters.mm_stat()
        }
    }

    /// Returns how many bytes, after compression, were freed, overwritten or moved since the device
    /// was made; an object counts as 1 KiB at least, since its page may be written to.
    pub fn changed_bytes(&self) -> u64 {
        self.table.counters.changed(&self.compaction_stat())
    }

    /// Returns the kernel's `io_stat`.
    pub fn io_stat(&self) -> IoStat {
        let stat = self.table.counters.io_stat();
        IoStat { failed_reads: stat.failed_reads + self.bd_stat().failed_reads, ..stat }
    }

    /// Returns the kernel's `bd_stat`: what lies in the backing store, and what was read and
    /// written there.
    pub fn bd_stat(&self) -> BdStat {
        self.table.store.as_ref().map_or(BdStat::default(), |store| store.stat())
    }

    /// Returns what was done with single slots, and, if blocks are more than that, with blocks.
    pub fn order_stats(&self) -> Vec<OrderStat> {
        let Table { counters, layout, .. } = &*self.table;
        let mut stats = vec![counters.order_stat(SLOT_BYTES, |shard| &shard.slot_io)];
        if layout.has_blocks() {
            let (_, dead_slots) = counters.in_objects();
            let of_blocks = counters.order_stat(layout.block_bytes(), |shard| &shard.block_io);
            stats.push(OrderStat { dead_slots, ..of_blocks });
        }
        stats
    }

    /// Returns the kernel's `debug_stat`.
    pub fn debug_stat(&self) -> DebugStat {
        DebugStat
    }

    /// Reads that had to wait since their slot was being changed.
    pub fn read_waits(&self) -> u64 {
        self.table.pool.read_waits()
    }

    /// Returns all memory of the device in bytes: pool, slot table, streams and counters.
    pub fn mem_total(&self) -> u64 {
        size_of::<Self>() as u64 + self.table.bytes()
    }

    /// Returns the bytes of [`mem_total`](Self::mem_total) that are streams' which no request has
    /// used yet. The system gives memory for them with their first use.
    pub fn mem_unused(&self) -> u64 {
        self.table.streams.unused_bytes() as u64
    }

    /// Returns the limit of all memory in bytes, if there is one.
    pub fn total_limit(&self) -> Option<u64> {
        self.table.total.limit()
    }

    /// Statistics per size class; they print as the kernel's `classes` file.
    pub fn classes(&self) -> Classes {
        self.table.pool.classes()
    }

    /// Asserts the state of the pool, and that the counters equal the sums over the slots (I4).
    /// Nothing else may use the device meanwhile. In a child that the pool's pages did not come to
    /// there is nothing to assert.
    pub fn check(&self) {
        if self.table.check_not_left_behind().is_ok() {
            self.table.pool.check();
            check_entries(&self.table);
        }
    }
}

/// No thread is left behind.
impl Drop for Device {
    fn drop(&mut self) {
        self.table.pool.stop_background();
    }
}
