//! The pool with numbered entries. Each entry encodes the place of an object, and is the object's
//! lock.

use crate::background::{self, run_compactor};
use crate::check::check_pool;
use crate::compact;
use crate::entry::Value;
use crate::fork::{repaired_or_err, repaired_or_left_behind, repaired_or_panic};
use crate::guard::{EntryWriteGuard, StagedObject};
use crate::handle_slots::HandleSlots;
use crate::inner::PoolInner;
use crate::prefault::run_prefaulter;
use crate::read_guard::{EntryIter, EntryReadGuard, Old};
use crate::stats::{ClassStat, Classes, CompactionStat};
use crate::sync::JobGuard;
use crate::table::{Columns, LEAF, Row, Table};
use crate::{ClassTable, Config, Error, purge};
use page::fork::AtFork;
use page::{Budget, page_size};
use std::sync::{Arc, Weak};

/// A pool with numbered entries, each of which can hold an object. Entries are created on first
/// use.
#[derive(Debug)]
pub struct EntryPool(Arc<PoolInner>);

impl AtFork for EntryPool {
    fn prepare(&self) {
        self.0.prepare();
    }

    fn in_parent(&self) {
        self.0.in_parent();
    }

    fn in_child(&self) {
        self.0.in_child();
    }
}

impl EntryPool {
    /// Returns a pool without pages. The pool has entries 0 to `len - 1`, with the columns
    /// `columns` beside each entry. `len` is at most 2^32 - 1. The caller must either register the
    /// pool for forks ([`page::fork`]) or not use it in any child. If children do not inherit the
    /// pool's pages, the pool refuses all requests in a child.
    pub fn new(config: Config, len: u64, columns: Columns) -> Result<Self, Error> {
        // u32::MAX marks withheld slots of zspages, so no entry has that number.
        if len > u32::MAX as u64 {
            return Err(Error::Index { index: len, len: u32::MAX as u64 });
        }
        let inner = PoolInner::new(config, len, None, |arena| Table::new(arena, columns))?;
        Ok(EntryPool(Arc::new(inner)))
    }

    /// Returns a pool whose entries are handle slots. The generations of the handle slots begin
    /// with `first`.
    pub(crate) fn with_handles(
        config: Config,
        handles: Arc<HandleSlots>,
        first: u32,
    ) -> Result<Self, Error> {
        let entries = |arena: &_| Table::of_handles(arena, first);
        let inner = PoolInner::new(config, HandleSlots::LEN, Some(handles), entries)?;
        Ok(EntryPool(Arc::new(inner)))
    }

    pub(crate) fn register(&self) {
        let weak: Weak<PoolInner> = Arc::downgrade(&self.0);
        page::fork::register(weak, page::fork::Turn::First);
    }

    pub(crate) fn inner(&self) -> &PoolInner {
        &self.0
    }

    /// Locks entry `index` for reading. The content of the entry is not moved or changed until the
    /// returned pin is dropped. An entry has at most six pins at a time. A seventh call waits until
    /// a pin is dropped. If the entry does not exist, the pin locks nothing, and another thread can
    /// store an object in the entry.
    ///
    /// # Panics
    /// Panics if the pool is [left behind](Self::is_left_behind).
    pub fn read(&self, index: u32) -> EntryReadGuard<'_> {
        EntryReadGuard::new(repaired_or_panic(&self.0), index)
    }

    /// Locks the entry as [`read`](Self::read) does. If `admits` returns false for the entry's row,
    /// locks nothing and returns an empty pin. `admits` is called before this function waits for
    /// the entry, and again while the entry is locked.
    pub(crate) fn read_if(
        &self,
        index: u32,
        admits: impl Fn(Row<'_>) -> bool,
    ) -> Result<EntryReadGuard<'_>, Error> {
        Ok(EntryReadGuard::new_if(repaired_or_err(&self.0)?, index, admits))
    }

    /// Returns an iterator over `entries`, each locked for reading. The iterator also locks the
    /// next two entries, and prefetches their contents into the processor's caches. If the caller
    /// drops each pin before it requests the next pin, at most three entries are locked. `entries`
    /// must ascend.
    ///
    /// # Panics
    /// Panics if the pool is [left behind](Self::is_left_behind).
    pub fn read_ahead<W: Iterator<Item = u32>>(&self, entries: W) -> EntryIter<'_, W> {
        EntryIter::new(repaired_or_panic(&self.0), entries)
    }

    /// Prefetches the content of entry `index`, which is to be overwritten, into the processor's
    /// caches.
    pub fn prefetch(&self, index: u32) {
        let Ok(pool) = repaired_or_err(&self.0) else { return };
        let value = pool.entries().peek(index, |entry, _| entry.peek());
        if let Some(Ok(place)) = value.map(Value::decode) {
            self.0.prefetch(place.offset, place.len);
        }
    }

    /// Locks entry `index` exclusively.
    ///
    /// # Errors
    /// Fails if `index` is not below the number of entries, or no memory is available for the
    /// entry. Fails with [`Error::LeftBehind`] if the pool is [left behind](Self::is_left_behind).
    pub fn lock(&self, index: u32) -> Result<EntryWriteGuard<'_>, Error> {
        EntryWriteGuard::lock(repaired_or_err(&self.0)?, index)
    }

    /// Locks entry `index` as [`lock`](Self::lock) does. Returns `None` if the entry does not
    /// exist, and therefore is empty.
    ///
    /// # Panics
    /// Panics if the pool is [left behind](Self::is_left_behind).
    pub fn lock_existing(&self, index: u32) -> Option<EntryWriteGuard<'_>> {
        EntryWriteGuard::lock_existing(repaired_or_panic(&self.0), index, |_| true)
    }

    /// Returns the number of the first entry from `index` on that may exist. All entries between
    /// `index` and this entry are empty.
    pub fn first_made(&self, index: u64) -> Option<u64> {
        // A node may have entries beyond the pool's last entry.
        let made = repaired_or_left_behind(&self.0).entries().first_made(index)?;
        u32::try_from(made).ok().filter(|&made| self.0.check_index(made).is_ok()).map(u64::from)
    }

    /// Calls `look` with the content and the row of entry `index`, and returns the result of
    /// `look`. Returns `None` if the entry does not exist. Never waits. Other threads are allowed
    /// to change or free the content during the call.
    pub fn look_at<R>(&self, index: u32, look: impl FnOnce(Old, Row<'_>) -> R) -> Option<R> {
        let entries = repaired_or_left_behind(&self.0).entries();
        entries.peek(index, |entry, row| look(Old::from(entry.peek()), row))
    }

    /// Returns whether entry `index` is empty and not locked exclusively. The check is a load with
    /// acquire ordering. Suppose that each of two threads locks an entry, passes a sequentially
    /// consistent fence, and then checks or locks the other thread's entry. At least one of the two
    /// threads then sees the lock of the other thread.
    pub fn is_vacant(&self, index: u32) -> bool {
        let entries = repaired_or_left_behind(&self.0).entries();
        entries.peek(index, |entry, _| entry.is_vacant()).unwrap_or(true)
    }

    /// Calls `look` for a batch of nonempty entries from `index` on, even if they are locked.
    /// Returns the index at which the next batch begins, or `None` if no entry is left. `look` must
    /// not wait for anything.
    pub fn look_at_some(&self, index: u64, mut look: impl FnMut(u32, Old, Row<'_>)) -> Option<u64> {
        let first = self.first_made(index)?;
        let leaf = first / LEAF as u64;
        repaired_or_left_behind(&self.0).entries().for_each_of(leaf, |nth, entry, row| {
            let held = Old::from(entry.peek());
            if nth as u64 >= first && held != Old::Inline(0) {
                look(nth, held, row);
            }
        });
        Some((leaf + 1) * LEAF as u64)
    }

    /// Sets the flags of the object of entry `index` to the result of `choose`. The arguments of
    /// `choose` are the object's length, the object's flags and the entry's row. Returns false if
    /// the entry is locked or has no object. Never waits. `choose` is called until it returns the
    /// flags that the object has. So the last call of `choose` reads data that are at least as new
    /// as the object's flags.
    pub fn set_flags_if_unlocked(
        &self,
        index: u32,
        choose: impl Fn(usize, u8, Row<'_>) -> u8,
    ) -> bool {
        repaired_or_err(&self.0)
            .is_ok_and(|pool| pool.entries().set_flags_if_unlocked(index, choose))
    }

    /// Frees the memory of empty entries, if enough entries have become empty. Returns the number
    /// of bytes freed. Calls `go_on` repeatedly, and stops when `go_on` returns false. Does nothing
    /// while another thread is in this function.
    pub fn rebalance(&self, go_on: &mut dyn FnMut() -> bool) -> usize {
        match repaired_or_err(&self.0) {
            Ok(pool) => pool.entries().rebalance(go_on),
            Err(_) => 0,
        }
    }

    /// Returns the number of reads that waited because another thread was changing the entry.
    pub fn read_waits(&self) -> u64 {
        repaired_or_left_behind(&self.0).entries().read_waits()
    }

    /// Stores `bytes` in a new object for entry `index`. The entry refers to the object only after
    /// [`EntryWriteGuard::replace`].
    ///
    /// # Errors
    /// Fails if `index` is out of range, no class has space for `bytes`, or no memory is available.
    /// Fails with [`Error::LeftBehind`] if the pool is [left behind](Self::is_left_behind).
    pub fn stage(&self, index: u32, bytes: &[u8]) -> Result<StagedObject<'_>, Error> {
        repaired_or_err(&self.0)?.check_index(index)?;
        StagedObject::new(&self.0, index, bytes)
    }

    /// Returns the page budget, which holds the number of the pool's pages (`mem_used`) and their
    /// limit.
    pub fn pages(&self) -> &Budget {
        repaired_or_left_behind(&self.0).inner().memory.space.budget()
    }

    /// Returns the total size in bytes of the pool's memory: pages, their maps and descriptors,
    /// headers, classes and entries.
    pub fn bytes(&self) -> usize {
        self.pages().used() * page_size() + self.0.metadata_bytes()
    }

    /// Calculates the size classes and returns them.
    pub fn table(&self) -> ClassTable {
        self.0.table()
    }

    /// Returns the size of the largest object that the pool can store, in bytes.
    pub fn largest(&self) -> usize {
        self.0.largest()
    }

    /// Releases the pages that are retained for the next objects. Returns the number of pages
    /// released.
    pub fn trim(&self) -> usize {
        if repaired_or_err(&self.0).is_err() {
            return 0;
        }
        let alone = self.0.retained.wait_for_purge_job();
        purge::purge_all(&self.0, &alone)
    }

    /// Returns the statistics of each class.
    pub fn classes(&self) -> Classes {
        let pool = repaired_or_left_behind(&self.0);
        let table = pool.table();
        let shapes = table.classes().iter().zip(&pool.classes);
        Classes::new(shapes.map(|(&shape, class)| ClassStat::new(shape, &pool.lock(class))))
    }

    /// Asserts that the state of every class, zspage and entry is consistent. No other caller is
    /// allowed to use the pool during the check. Waits for background compaction and prevents it
    /// from starting. Does nothing if the pool is left behind.
    pub fn check(&self) {
        let Ok(pool) = repaired_or_err(&self.0) else { return };
        let _no_compaction = JobGuard::wait(&self.0.compaction.is_active);
        let _no_prefault = self.0.retained.wait_for_purge_job();
        check_pool(pool);
    }

    /// Moves objects together in every class, beginning with the largest class, and releases the
    /// retained pages. Returns the number of pages by which the pool has shrunk. If another thread
    /// is compacting, only releases retained pages. If the pool has grown since the last
    /// compaction, objects also move to finer classes. The moves to finer classes can commit a few
    /// pages more than they free.
    pub fn compact(&self) -> usize {
        self.pages_less_after(|| {
            compact::shrink_until(&self.0, usize::MAX);
            self.trim();
        })
    }

    /// Compacts as [`compact`](Self::compact) does, until at least `bytes` bytes were freed.
    /// Returns the number of pages by which the pool has shrunk.
    pub fn shrink(&self, bytes: usize) -> usize {
        self.pages_less_after(|| {
            let before = self.pages().used();
            let gained = compact::shrink_until(&self.0, bytes.div_ceil(page_size())).gained();
            // If the moves committed pages, the same number of retained pages is released in
            // addition.
            let committed = self.pages().used().saturating_sub(before);
            purge::purge(&self.0, gained + committed);
        })
    }

    fn pages_less_after(&self, work: impl FnOnce()) -> usize {
        let before = self.pages().used();
        work();
        before.saturating_sub(self.pages().used())
    }

    /// Returns the number of bytes that [`compact`](Self::compact) could free if no entry were
    /// pinned.
    pub fn freeable(&self) -> usize {
        let pool = repaired_or_left_behind(&self.0);
        let pages = pool.classes.iter().map(|class| pool.lock(class).gain() as usize);
        pages.sum::<usize>() * page_size()
    }

    /// Returns the number of pages that compaction has freed.
    pub fn pages_compacted(&self) -> u64 {
        self.compaction_stat().freed_pages
    }

    /// Returns the statistics of compaction, with its processor time.
    pub fn compaction_stat(&self) -> CompactionStat {
        CompactionStat::of(&self.0)
    }

    /// Enables two background threads, which exist only while they have work. One thread compacts,
    /// and the other thread prefaults pages and releases surplus retained pages.
    pub fn compact_in_background(&self) {
        background::enable(&self.0, |inner| &inner.compactor, run_compactor);
        background::enable(&self.0, |inner| &inner.prefaulter, run_prefaulter);
    }

    /// Stops the background threads, if there are any, and waits until they have ended.
    pub fn stop_background(&self) {
        self.0.compactor.stop();
        self.0.prefaulter.stop();
    }

    /// Returns whether children of fork inherit the pool's pages.
    pub fn is_in_children(&self) -> bool {
        self.0.memory.space.is_in_children()
    }

    /// Returns whether the pool is left behind: this process is a child, and the pool's pages
    /// stayed with the parent. A pool that is left behind refuses all requests.
    pub fn is_left_behind(&self) -> bool {
        self.0.is_in_child() && !self.is_in_children()
    }
}
