//! The public interface of a device. [`request`](crate::request) implements the requests.

#[cfg(test)]
mod tests;

use crate::backing::BdStat;
use crate::block_state::{self, BlockState};
use crate::build::build_table;
use crate::cold::{self, Recompress, Recompressed, Selection, WrittenBack};
use crate::job::JobStat;
use crate::policy::{JOB_END_TICK, RESTORE_BUFFER, UNASKED_MARGIN};
use crate::save::{self, Damage, Restored, SaveOptions, SaveTo, Saved, SpareBuffers};
use crate::stats::{IoStat, MmStat, OrderStat, Written};
use crate::table::{Table, check_entries};
use crate::total_limit::{Counted, pages_for};
use crate::{Compaction, Config, Error, SLOT_BYTES, open_file, request};
use page::page_size;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use zsmalloc::{Classes, CompactionStat, EntryPool};

/// A compressed device in memory. All functions take `&self`, and any thread can call them.
///
/// A request can have any offset and length within the device. An empty request does nothing, even
/// at the end of the device. A request that ends past the end of the device fails as a whole
/// ([`Error::Range`]). A failed write has written exactly the slots before the slot in its error.
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
    /// The buffers for a save, allocated in advance so that a save does not fail for lack of
    /// memory.
    save_buffers: SpareBuffers,
}

impl Device {
    /// Returns an empty device, which reads as zeros and has no pages.
    ///
    /// # Errors
    /// `config` is invalid, or there is not enough memory.
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

    /// Returns the table, or an error if this is a child process without the pool's pages.
    fn usable_table(&self) -> Result<&Table, Error> {
        self.table.check_not_left_behind().map(|()| &*self.table)
    }

    /// Returns the size of the device in bytes.
    pub fn disksize(&self) -> u64 {
        self.table.disksize
    }

    /// Returns the size of a block in bytes.
    pub fn block(&self) -> usize {
        self.table.layout.block_bytes()
    }

    /// Writes `bytes` at `offset`.
    ///
    /// # Errors
    /// [`Error::Range`]; [`Error::OutOfMemory`]. If the old data of a partly written slot can't be
    /// read, [`Error::Backing`] or an error of damaged data.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.write_with_outcome(offset, bytes).map(|_| ())
    }

    /// Writes as [`write`](Self::write) does, and returns how the bytes were stored.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_with_outcome(&self, offset: u64, bytes: &[u8]) -> Result<Written, Error> {
        request::write(&self.table, offset, bytes)
    }

    /// Reads `buf.len()` bytes at `offset`. Bytes that were never written, or were discarded, read
    /// as zeros.
    ///
    /// # Errors
    /// [`Error::Range`]; [`Error::Backing`] or an error of damaged data. If stored data can't be
    /// read, a part of `buf` may have been overwritten.
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        request::read(&self.table, offset, buf)
    }

    /// Makes `len` bytes at `offset` read as zeros. First frees the slots that lie completely in
    /// the range. After that, overwrites the parts of slots that lie partly in the range.
    ///
    /// # Errors
    /// [`Error::Range`]: nothing was changed. [`Error::OutOfMemory`], [`Error::Backing`]: at least
    /// one slot keeps its contents. Either a slot that lies partly in the range could not be
    /// overwritten, or a slot could not be removed from its block. Such a removal needs 8 bytes of
    /// memory.
    #[doc(alias = "trim")]
    #[doc(alias = "write_zeroes")]
    pub fn discard(&self, offset: u64, len: u64) -> Result<(), Error> {
        request::discard(&self.table, offset, len)
    }

    /// Does nothing, because a write returns only after the data are stored.
    ///
    /// # Errors
    /// [`Error::LeftBehind`]
    pub fn flush(&self) -> Result<(), Error> {
        self.table.check_not_left_behind()
    }

    /// Marks all slots idle, except same-filled slots and slots that are being accessed. An access
    /// to a slot removes the slot's mark.
    pub fn mark_idle(&self) -> Result<(), Error> {
        block_state::mark_idle(self.usable_table()?, None)
    }

    /// Marks the slots idle that were not accessed for more than `seconds` seconds, and removes the
    /// mark from all other slots. If `seconds` exceeds the time since boot, no slot is marked.
    ///
    /// # Errors
    /// [`Error::Untracked`]: access times are not tracked.
    pub fn mark_idle_older(&self, seconds: u64) -> Result<(), Error> {
        block_state::mark_idle(self.usable_table()?, Some(seconds))
    }

    /// Recompresses items, that is slots and blocks, with another algorithm. If recompression saves
    /// too little memory, the item remains unchanged; if the algorithm is the last one, the item is
    /// also marked as incompressible. Requests are allowed to run at the same time. An item that a
    /// request accesses remains unchanged.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::NoAlgorithm`], [`Error::Threshold`], or an error of damaged data.
    pub fn recompress(&self, how: &Recompress) -> Result<Recompressed, Error> {
        cold::recompress(self.usable_table()?, how)
    }

    /// Writes slots and blocks, in compressed form, to the backing store, and frees them in memory.
    /// Requests are allowed to run at the same time. Slots and blocks that requests access remain
    /// in memory. If a write or sync fails, its group of objects remains in memory, and the job
    /// continues with the next group. After all groups, the job returns the last failure.
    ///
    /// # Errors
    /// [`Error::NoBacking`], [`Error::Busy`], [`Error::WritebackLimit`], [`Error::BackingFull`],
    /// [`Error::Backing`].
    pub fn write_back(&self, selection: &Selection) -> Result<WrittenBack, Error> {
        cold::write_back(self.usable_table()?, selection)
    }

    /// Allocates and keeps the memory for saves, so that no later save fails for lack of memory.
    ///
    /// # Errors
    /// [`Error::NoBuffer`]
    pub fn prepare_save(&self) -> Result<(), Error> {
        self.save_buffers.make()
    }

    /// Saves the device, compressed as in memory. Each slot is saved with the data that it has at
    /// some moment during the save. Slots that can't be read are omitted, and are listed in the
    /// file and in [`Saved::lost`]. If `options` forbids omitted slots, the save fails instead.
    /// When the new file is durable, the new file replaces an existing file. If the new file lacks
    /// slots and the existing file is complete, the existing file is kept as `FILE.before`.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::Path`], [`Error::NoBuffer`]. With
    /// [`Unreadable::Refuse`](crate::Unreadable::Refuse), also the error of the first slot that
    /// can't be read. If `to` is a writer, the bytes that it received before an error are not a
    /// valid saved device.
    pub fn save(&self, to: SaveTo<'_>, options: &SaveOptions) -> Result<Saved, Error> {
        save::save(self.usable_table()?, &self.save_buffers, to, options)
    }

    /// Restores a saved device into this device. This device must be empty, and at least as large
    /// as the saved device. The two devices are allowed to differ in block size, algorithms and
    /// geometry. After an error this device is empty. No other thread is allowed to use the device
    /// during the restore.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::NotEmpty`], [`Error::TooSmall`], [`Error::Path`], or an
    /// out-of-memory error. [`Error::Saved`] if the file is damaged or is not a saved device.
    pub fn restore(&self, path: &Path, damage: Damage) -> Result<Restored, Error> {
        let mut file = BufReader::with_capacity(RESTORE_BUFFER, open_file::to_restore(path)?);
        save::restore(self.usable_table()?, &mut file, path, damage)
    }

    /// Restores as [`restore`](Self::restore) does, but from any reader.
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

    /// Returns the state of the job under way: recompression, write-back, save or restore.
    pub fn job(&self) -> Option<JobStat> {
        self.table.jobs.stat()
    }

    /// Cancels the job under way, which then soon ends with [`Error::Cancelled`]. Data that the job
    /// has recompressed or written back are not reverted. A cancelled save creates no file, and a
    /// cancelled restore leaves the device empty. Returns true if a job is under way.
    pub fn cancel_job(&self) -> bool {
        self.table.jobs.cancel()
    }

    /// Cancels the job under way, and waits at most `within` for the job's end. If the job does not
    /// end in this time, the job is abandoned, and another job can begin. Returns true if the job
    /// has ended. An abandoned restore still loads the chunks that it has begun, and keeps all
    /// chunks that it has loaded. Any other abandoned job changes nothing in the device.
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

    /// Returns true if a request for `len` bytes at `offset` may have to wait for the backing
    /// store. The result is only a hint, because it may be outdated at once.
    pub fn may_wait(&self, offset: u64, len: u64) -> bool {
        request::may_wait(&self.table, offset, len)
    }

    /// Returns an iterator over the states of the slots that hold data, in order. Each state is
    /// read when the iterator reaches the slot. The text of a state is a line of the kernel's
    /// `block_state`.
    pub fn block_state(&self) -> BlockState<'_> {
        self.block_state_from(0)
    }

    /// Returns an iterator as [`block_state`](Self::block_state) does, but begins with slot `slot`.
    pub fn block_state_from(&self, slot: u64) -> BlockState<'_> {
        BlockState::new(&self.table, slot)
    }

    /// Sets or removes the limit of pool pages, in bytes. While the pool exceeds the limit,
    /// requests that need further pages fail.
    pub fn set_mem_limit(&self, bytes: Option<u64>) {
        self.table.pool.pages().set_limit(bytes.map(pages_for));
    }

    /// Sets or removes the limit of all memory, in bytes. While the device exceeds the limit,
    /// requests that need further memory fail.
    pub fn set_total_limit(&self, bytes: Option<u64>) {
        self.table.total.set_limit(bytes);
    }

    /// Resets `mem_used_max` to the current size of the pool's pages.
    pub fn reset_mem_used_max(&self) {
        self.table.pool.pages().reset_peak();
    }

    /// Moves objects together to free pages, and returns the number of pages freed. Readers never
    /// wait for a compaction. If compaction is off or already under way, does nothing.
    pub fn compact(&self) -> usize {
        self.compacted(EntryPool::compact)
    }

    /// Compacts until `bytes` bytes are freed, and returns the number of pages freed.
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

    /// Returns the number of bytes of pages that compaction could free.
    pub fn freeable(&self) -> usize {
        self.table.pool.freeable()
    }

    /// Returns the statistics of compaction, including its processor time.
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

    /// Returns the compressed size of all objects that were freed, overwritten or moved since the
    /// device was created, in bytes. Each object counts as at least 1 KiB, because to free,
    /// overwrite or move even a small object takes time.
    pub fn changed_bytes(&self) -> u64 {
        self.table.counters.changed(&self.compaction_stat())
    }

    /// Returns the kernel's `io_stat`.
    pub fn io_stat(&self) -> IoStat {
        let stat = self.table.counters.io_stat();
        IoStat { failed_reads: stat.failed_reads + self.bd_stat().failed_reads, ..stat }
    }

    /// Returns the kernel's `bd_stat`: the numbers of the store's blocks that are in use, were
    /// read, and were written.
    pub fn bd_stat(&self) -> BdStat {
        self.table.store.as_ref().map_or(BdStat::default(), |store| store.stat())
    }

    /// Returns the statistics of single slots, and of blocks if blocks have several slots.
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

    /// Returns the number of reads that waited because another thread was changing their slot.
    pub fn read_waits(&self) -> u64 {
        self.table.pool.read_waits()
    }

    /// Returns the size of all memory of the device in bytes: pool, slot table, streams and
    /// counters.
    pub fn mem_total(&self) -> u64 {
        size_of::<Self>() as u64 + self.table.bytes()
    }

    /// Returns the part of [`mem_total`](Self::mem_total) that belongs to streams that no request
    /// has used yet. The system allocates that memory when a stream is first used.
    pub fn mem_unused(&self) -> u64 {
        self.table.streams.unused_bytes() as u64
    }

    /// Returns the limit of all memory in bytes, if a limit is set.
    pub fn total_limit(&self) -> Option<u64> {
        self.table.total.limit()
    }

    /// Returns the statistics of each size class. The text of the statistics has the format of the
    /// kernel's `classes` file.
    pub fn classes(&self) -> Classes {
        self.table.pool.classes()
    }

    /// Asserts the consistency of the pool, and that the counters equal the sums over the slots
    /// (I4). No other thread is allowed to use the device during the check. In a child process
    /// without the pool's pages, does nothing.
    pub fn check(&self) {
        if self.table.check_not_left_behind().is_ok() {
            self.table.pool.check();
            check_entries(&self.table);
        }
    }
}

/// Stops the pool's background threads when the device is dropped.
impl Drop for Device {
    fn drop(&mut self) {
        self.table.pool.stop_background();
    }
}
