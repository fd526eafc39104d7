//! The pool with its entries, each the place and the lock of an object.
//!
//! Lock order: entry, class, slab caches, space.

use crate::background::{self, run_compactor};
use crate::check::check_pool;
use crate::compact;
use crate::entry::Value;
use crate::fork::{ensure_here, expect_here, try_repair};
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

/// A pool with numbered entries, each of which may hold an object. They are made as they are used.
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
    /// Returns a pool without pages, with entries 0 to `len - 1`, at most 2^32 - 1 of them, and
    /// such columns beside each. The caller has to register it for forks ([`page::fork`]), or to
    /// use it in no child; a pool whose pages are not in children refuses requests there anyway.
    pub fn new(config: Config, len: u64, columns: Columns) -> Result<Self, Error> {
        // u32::MAX marks slots of zspages that are held, so no entry has that number.
        if len > u32::MAX as u64 {
            return Err(Error::Index { index: len, len: u32::MAX as u64 });
        }
        let inner = PoolInner::new(config, len, None, |arena| Table::new(arena, columns))?;
        Ok(EntryPool(Arc::new(inner)))
    }

    /// Returns a pool whose entries are handle slots, which begin with generation `first`.
    pub(crate) fn with_handles(
        config: Config,
        handles: Arc<HandleSlots>,
        first: u32,
    ) -> Result<Self, Error> {
        let entries = |arena: &_| Table::of_handles(arena, first);
        let inner = PoolInner::new(config, HandleSlots::LEN, Some(handles), entries)?;
        Ok(EntryPool(Arc::new(inner)))
    }

    /// Holds the pool over forks from now on.
    pub(crate) fn register(&self) {
        let weak: Weak<PoolInner> = Arc::downgrade(&self.0);
        page::fork::register(weak, page::fork::Turn::First);
    }

    pub(crate) fn inner(&self) -> &PoolInner {
        &self.0
    }

    /// Locks entry `index` for reading. What it holds stays and does not change until the pin is
    /// dropped. An entry has six pins at most at a time: a call for another waits. An entry that
    /// holds nothing may not exist; then it is not locked, and may be given something meanwhile.
    ///
    /// # Panics
    /// In a child that is [left behind](Self::is_left_behind).
    pub fn read(&self, index: u32) -> EntryReadGuard<'_> {
        EntryReadGuard::new(expect_here(&self.0), index)
    }

    /// As [`read`](Self::read), but an entry that holds nothing where `admits` says no of its row:
    /// asked before the entry is waited for, and again with the entry locked.
    pub(crate) fn read_if(
        &self,
        index: u32,
        admits: impl Fn(Row<'_>) -> bool,
    ) -> Result<EntryReadGuard<'_>, Error> {
        Ok(EntryReadGuard::new_if(ensure_here(&self.0)?, index, admits))
    }

    /// Locks entries for reading one after the other, each two entries before it is given out, and
    /// has the processor fetch what they hold meanwhile. A caller that drops each pin before it
    /// asks for the next holds three at most. `entries` has to ascend.
    ///
    /// # Panics
    /// In a child that is [left behind](Self::is_left_behind).
    pub fn read_ahead<W: Iterator<Item = u32>>(&self, entries: W) -> EntryIter<'_, W> {
        EntryIter::new(expect_here(&self.0), entries)
    }

    /// Makes the processor fetch what entry `index` holds, which is to be overwritten soon, while
    /// something else is done.
    pub fn prefetch(&self, index: u32) {
        let Ok(here) = ensure_here(&self.0) else { return };
        let value = here.entries().peek(index, |entry, _| entry.peek());
        if let Some(Ok(place)) = value.map(Value::decode) {
            self.0.prefetch(place.offset, place.len);
        }
    }

    /// Locks entry `index` for a change.
    ///
    /// # Errors
    /// There is no such entry, no memory for it, or [`Error::LeftBehind`].
    pub fn lock(&self, index: u32) -> Result<EntryWriteGuard<'_>, Error> {
        EntryWriteGuard::lock(ensure_here(&self.0)?, index)
    }

    /// Locks entry `index` as [`lock`](Self::lock) does; returns `None` for an entry that does not
    /// exist and so holds nothing.
    ///
    /// # Panics
    /// In a child that is [left behind](Self::is_left_behind).
    pub fn lock_existing(&self, index: u32) -> Option<EntryWriteGuard<'_>> {
        EntryWriteGuard::lock_existing(expect_here(&self.0), index, |_| true)
    }

    /// Returns the first entry from `index` on that may hold something; those before it hold
    /// nothing.
    pub fn first_made(&self, index: u64) -> Option<u64> {
        // A node may have entries behind the last.
        let made = try_repair(&self.0).entries().first_made(index)?;
        u32::try_from(made).ok().filter(|&made| self.0.check_index(made).is_ok()).map(u64::from)
    }

    /// Returns what `look` returns for what entry `index` holds at this moment, and what lies
    /// beside it; nothing where it was never made. Waits for nothing: what it holds may be changed
    /// or freed meanwhile.
    pub fn look_at<R>(&self, index: u32, look: impl FnOnce(Old, Row<'_>) -> R) -> Option<R> {
        let entries = try_repair(&self.0).entries();
        entries.peek(index, |entry, row| look(Old::from(entry.peek()), row))
    }

    /// Returns whether entry `index` holds nothing and is not locked by a thread that may be about
    /// to change that. It is ordered as a load with acquire: of two threads that each lock an
    /// entry, pass a sequentially consistent fence, and then look with this at the other's, or lock
    /// it if it is there, one sees that the other has locked.
    pub fn is_vacant(&self, index: u32) -> bool {
        let entries = try_repair(&self.0).entries();
        entries.peek(index, |entry, _| entry.is_vacant()).unwrap_or(true)
    }

    /// Shows `look` entries that hold something, some from `index` on, locked or not; from where to
    /// go on, if there may be more. `look` must not wait for anything.
    pub fn look_at_some(&self, index: u64, mut look: impl FnMut(u32, Old, Row<'_>)) -> Option<u64> {
        let first = self.first_made(index)?;
        let leaf = first / LEAF as u64;
        try_repair(&self.0).entries().for_each_of(leaf, |nth, entry, row| {
            let held = Old::from(entry.peek());
            if nth as u64 >= first && held != Old::Inline(0) {
                look(nth, held, row);
            }
        });
        Some((leaf + 1) * LEAF as u64)
    }

    /// Gives the object of entry `index` the flags that `choose` says, of its length, its flags and
    /// what lies beside the entry, and returns whether it has. Waits for nothing: an entry that is
    /// locked is left. `choose` is asked until it says the flags that are there, so a time it looks
    /// at is not older than the flags.
    pub fn set_flags_if_unlocked(
        &self,
        index: u32,
        choose: impl Fn(usize, u8, Row<'_>) -> u8,
    ) -> bool {
        ensure_here(&self.0).is_ok_and(|here| here.entries().set_flags_if_unlocked(index, choose))
    }

    /// Gives back the memory of entries that hold nothing any more, if enough do; bytes. `go_on` is
    /// asked now and then. Does nothing while another thread does it.
    pub fn tidy(&self, go_on: &mut dyn FnMut() -> bool) -> usize {
        match ensure_here(&self.0) {
            Ok(here) => here.entries().rebalance(go_on),
            Err(_) => 0,
        }
    }

    /// Reads that had to wait since an entry was being changed.
    pub fn read_waits(&self) -> u64 {
        try_repair(&self.0).entries().read_waits()
    }

    /// Stores `bytes` for entry `index`, which does not name them yet: see
    /// [`EntryWriteGuard::replace`].
    ///
    /// # Errors
    /// There is no such entry, no memory or no class for them, or [`Error::LeftBehind`].
    pub fn stage(&self, index: u32, bytes: &[u8]) -> Result<StagedObject<'_>, Error> {
        ensure_here(&self.0)?.check_index(index)?;
        StagedObject::new(&self.0, index, bytes)
    }

    /// Returns the count of the pool's pages (`mem_used`) and its limit, both in pages.
    pub fn pages(&self) -> &Budget {
        try_repair(&self.0).inner().memory.space.budget()
    }

    /// Returns all memory of the pool in bytes: pages, their maps and descriptors, headers, classes
    /// and entries.
    pub fn bytes(&self) -> usize {
        self.pages().used() * page_size() + self.0.metadata_bytes()
    }

    /// Returns the size classes, calculated at each call.
    pub fn table(&self) -> ClassTable {
        self.0.table()
    }

    /// Returns the bytes of the largest object that the pool can store.
    pub fn largest(&self) -> usize {
        self.0.largest()
    }

    /// Gives back the pages that are retained for the next objects, and returns how many.
    pub fn trim(&self) -> usize {
        if ensure_here(&self.0).is_err() {
            return 0;
        }
        let alone = self.0.retained.wait_to_tend();
        purge::purge_all(&self.0, &alone)
    }

    /// Statistics per class.
    pub fn classes(&self) -> Classes {
        let here = try_repair(&self.0);
        let table = here.table();
        let shapes = table.classes().iter().zip(&here.classes);
        Classes::new(shapes.map(|(&shape, class)| ClassStat::new(shape, &here.lock(class))))
    }

    /// Asserts the state of every class, zspage and entry. No other caller may use the pool
    /// meanwhile; compaction is waited for, and kept away. In a child that is left behind there is
    /// nothing to assert.
    pub fn check(&self) {
        let Ok(here) = ensure_here(&self.0) else { return };
        let _no_compaction = JobGuard::wait(&self.0.compaction.is_active);
        let _no_prefault = self.0.retained.wait_to_tend();
        check_pool(here);
    }

    /// Moves objects together in every class, the largest first, and gives back the pages retained;
    /// by how many pages less are in use. While another thread compacts, only the retained pages
    /// go. In a pool that has grown since, objects go to finer classes too; where there is next to
    /// nothing to free, those may take a few pages more than they save.
    pub fn compact(&self) -> usize {
        self.pages_less_after(|| {
            compact::shrink_until(&self.0, usize::MAX);
            self.trim();
        })
    }

    /// Compacts as [`compact`](Self::compact) does, until `bytes` bytes were freed.
    pub fn shrink(&self, bytes: usize) -> usize {
        self.pages_less_after(|| {
            let before = self.pages().used();
            let gained = compact::shrink_until(&self.0, bytes.div_ceil(page_size())).gained();
            // Where objects came to pages that were not committed, as many more were left as those.
            let committed = self.pages().used().saturating_sub(before);
            purge::purge(&self.0, gained + committed);
        })
    }

    fn pages_less_after(&self, work: impl FnOnce()) -> usize {
        let before = self.pages().used();
        work();
        before.saturating_sub(self.pages().used())
    }

    /// Returns the bytes of pages that [`compact`](Self::compact) could free, were nothing pinned.
    pub fn freeable(&self) -> usize {
        let here = try_repair(&self.0);
        let pages = here.classes.iter().map(|class| here.lock(class).gain() as usize);
        pages.sum::<usize>() * page_size()
    }

    /// Returns the pages that compaction has freed so far.
    pub fn pages_compacted(&self) -> u64 {
        self.compaction_stat().freed_pages
    }

    /// Returns what compaction has done so far, and the processor time it took.
    pub fn compaction_stat(&self) -> CompactionStat {
        CompactionStat::of(&self.0)
    }

    /// Makes the pool work in the background from now on, whenever it is worth it: two threads, one
    /// of which compacts, while the other prefaults pages and gives back what too much is retained.
    pub fn compact_in_background(&self) {
        background::enable(&self.0, |inner| &inner.compactor, run_compactor);
        background::enable(&self.0, |inner| &inner.prefaulter, run_prefaulter);
    }

    /// Ends the background threads, if there are any, and waits for them.
    pub fn stop_background(&self) {
        self.0.compactor.stop();
        self.0.prefaulter.stop();
    }

    /// Returns whether a child has the pool's pages too.
    pub fn is_in_children(&self) -> bool {
        self.0.memory.space.is_in_children()
    }

    /// Returns whether this is a child, and the pool's pages stayed with the parent: then it
    /// refuses everything.
    pub fn is_left_behind(&self) -> bool {
        self.0.is_in_child() && !self.is_in_children()
    }
}
