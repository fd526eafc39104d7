//! The pool's core: objects stored for owners, whose entries are cell and lock of each object.
//!
//! Lock order: entry, class, slab caches, space.

use crate::check::{check_class, check_plan};
use crate::entry::{Location, Value};
use crate::inner::PoolInner;
use crate::memory::Pinned;
use crate::stats::{ClassStat, Classes};
use crate::sync::JobGuard;
use crate::table::{ReadLock, Row, WriteLock};
use crate::write_guard::{EntryWriteGuard, StagedObject};
use crate::{ClassTable, Config, Error, purge};
use page::{Budget, page_size};
use slab::packed::Arena;
use std::fmt;
use std::sync::Arc;

/// Who has entries. Sealed: an object's safety rests on its entry, so only this crate's owners
/// exist.
pub trait Owner: sealed::Owner {}

pub(crate) mod sealed {
    use crate::Error;
    use crate::table::Table;

    pub trait Owner: Sync {
        /// The entries.
        #[allow(private_interfaces)]
        fn table(&self) -> &Table;

        /// Whether the owner may have an entry `index`.
        fn check_index(&self, index: u32) -> Result<(), Error>;

        /// Holds the owner still over a fork: its locks are taken until `unlock_after_fork`.
        fn lock_for_fork(&self);

        /// Releases what `lock_for_fork` took.
        fn unlock_after_fork(&self);

        /// Unlocks all entries and repairs what else lost threads left, in a child.
        fn repair(&self);

        /// Bytes of memory the owner uses outside the pool's arena.
        fn bytes(&self) -> usize;

        /// Asserts the owner's own state.
        fn check(&self);
    }
}

/// A pool whose objects belong to the entries of an [`Owner`].
pub struct EntryPool<O> {
    inner: PoolInner,
    owner: O,
}

impl<O> fmt::Debug for EntryPool<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntryPool").field("space", &self.inner.memory.space).finish_non_exhaustive()
    }
}

/// What an entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// 59 bits of the owner's, 0 in a new entry; no object.
    Inline(u64),
    /// An object, and the owner's four bits beside it.
    Object {
        /// The object.
        bytes: &'a [u8],
        /// The owner's bits, 0 to 15.
        flags: u8,
    },
}

/// What an entry held when it was looked at, or before it was given something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Old {
    /// The owner's bits; no object.
    Inline(u64),
    /// An object, freed meanwhile.
    Object {
        /// Its bytes.
        len: usize,
        /// The owner's bits.
        flags: u8,
    },
}

impl From<Value> for Old {
    fn from(value: Value) -> Self {
        match value.decode() {
            Ok(Location { len, flags, .. }) => Old::Object { len, flags },
            Err(payload) => Old::Inline(payload),
        }
    }
}

impl<O: Owner> EntryPool<O> {
    /// A pool without pages. `owner` makes its entries in the arena that it is given.
    pub(crate) fn new(
        config: Config,
        owner: impl FnOnce(&Arc<Arena>) -> Result<O, Error>,
    ) -> Result<Self, Error> {
        let supply = config.pages.supply.clone();
        let arena = Arena::new(page::Config { supply, ..page::Config::default() })?;
        let owner = owner(&arena)?;
        Ok(EntryPool { inner: PoolInner::new(config, arena)?, owner })
    }

    pub(crate) fn inner(&self) -> &PoolInner {
        &self.inner
    }

    pub(crate) fn owner(&self) -> &O {
        &self.owner
    }

    /// Locks entry `index` for reading. What it holds stays and does not change until the pin is
    /// dropped. An entry has six pins at most at a time: whoever wants another waits. One that
    /// holds nothing may not exist, and so not be locked: it may be given something meanwhile.
    ///
    /// # Panics
    /// In a child that is [left behind](Self::is_left_behind).
    pub fn read(&self, index: u32) -> EntryReadGuard<'_> {
        self.expect_here();
        self.read_admitted(index, |_| true)
    }

    /// As [`read`](Self::read), but an entry that holds nothing where `admits` says no of its row:
    /// asked before the entry is waited for, and again with the entry locked.
    pub(crate) fn read_if(
        &self,
        index: u32,
        admits: impl Fn(Row<'_>) -> bool,
    ) -> Result<EntryReadGuard<'_>, Error> {
        self.ensure_here()?;
        Ok(self.read_admitted(index, admits))
    }

    fn read_admitted(&self, index: u32, admits: impl Fn(Row<'_>) -> bool) -> EntryReadGuard<'_> {
        let entry = self.owner.table().lock_shared(index, admits);
        let value = entry.as_ref().map_or(Value::EMPTY, ReadLock::value);
        let memory = &self.inner.memory;
        let held =
            value.decode().map(|place| (memory.pinned(place.offset, place.len), place.flags));
        EntryReadGuard { held, lock: entry }
    }

    /// Has the processor fetch what entry `index` holds, which is to be overwritten soon, while
    /// something else is done.
    pub fn prefetch(&self, index: u32) {
        if self.ensure_here().is_err() {
            return;
        }
        let value = self.owner.table().peek(index, |entry, _| entry.peek());
        if let Some(Ok(place)) = value.map(Value::decode) {
            self.inner.prefetch(place.offset, place.len);
        }
    }

    /// Locks entry `index` for a change.
    ///
    /// # Errors
    /// There is no such entry, no memory for it, or [`Error::LeftBehind`].
    pub fn lock(&self, index: u32) -> Result<EntryWriteGuard<'_>, Error> {
        self.ensure_here()?;
        self.owner.check_index(index)?;
        Ok(self.write_guard(index, self.owner.table().lock(index)?))
    }

    /// As [`lock`](Self::lock), but `None` for an entry that is not there and so holds nothing.
    ///
    /// # Panics
    /// In a child that is [left behind](Self::is_left_behind).
    pub fn lock_existing(&self, index: u32) -> Option<EntryWriteGuard<'_>> {
        self.expect_here();
        Some(self.write_guard(index, self.owner.table().lock_existing(index, |_| true)?))
    }

    /// As [`lock_existing`](Self::lock_existing), with `admits` as in [`read_if`](Self::read_if).
    pub(crate) fn lock_if(
        &self,
        index: u32,
        admits: impl Fn(Row<'_>) -> bool,
    ) -> Result<Option<EntryWriteGuard<'_>>, Error> {
        self.ensure_here()?;
        let entry = self.owner.table().lock_existing(index, admits);
        Ok(entry.map(|entry| self.write_guard(index, entry)))
    }

    pub(crate) fn write_guard<'p>(
        &'p self,
        index: u32,
        entry: WriteLock<'p>,
    ) -> EntryWriteGuard<'p> {
        EntryWriteGuard::new(&self.inner, index, entry)
    }

    /// Gives back the memory of entries that hold nothing any more, if enough do; bytes. `go_on` is
    /// asked now and then. Does nothing while another thread does it.
    pub fn tidy(&self, go_on: &mut dyn FnMut() -> bool) -> usize {
        match self.ensure_here() {
            Ok(()) => self.owner.table().rebalance(go_on),
            Err(_) => 0,
        }
    }

    /// Reads that had to wait since an entry was being changed.
    pub fn read_waits(&self) -> u64 {
        self.owner.table().read_waits()
    }

    /// Stores `bytes` for entry `index`, which does not name them yet: see
    /// [`EntryWriteGuard::replace`].
    ///
    /// # Errors
    /// There is no memory or no class for them, or [`Error::LeftBehind`].
    pub fn stage(&self, index: u32, bytes: &[u8]) -> Result<StagedObject<'_>, Error> {
        self.ensure_here()?;
        StagedObject::new(&self.inner, index, bytes)
    }

    /// The count of the pool's pages (`mem_used`) and its limit.
    pub fn pages(&self) -> &Budget {
        self.try_repair();
        self.inner.memory.space.budget()
    }

    /// All memory of the pool in bytes: pages, their maps and descriptors, headers, classes and
    /// entries.
    pub fn bytes(&self) -> usize {
        let memory = &self.inner.memory;
        let pages = self.pages().used() * page_size() + memory.space.metadata_bytes();
        pages + memory.arena.bytes() + self.inner.bytes() + self.owner.bytes()
    }

    /// The size classes, calculated once more.
    pub fn table(&self) -> ClassTable {
        self.inner.table()
    }

    /// The largest object there is.
    pub fn largest(&self) -> usize {
        self.inner.largest()
    }

    /// Gives back the pages that are retained for the next objects; how many.
    pub fn trim(&self) -> usize {
        if self.ensure_here().is_err() {
            return 0;
        }
        let alone = self.inner.retained.wait_to_tend();
        purge::purge_all(&self.inner, &alone)
    }

    /// Statistics per class.
    pub fn classes(&self) -> Classes {
        self.try_repair();
        let table = self.inner.table();
        let shapes = table.classes().iter().zip(&self.inner.classes);
        Classes::new(shapes.map(|(&shape, class)| ClassStat::new(shape, &self.inner.lock(class))))
    }

    /// Asserts the state of every class, zspage and entry. No other caller may use the pool
    /// meanwhile; compaction is waited for, and kept away. In a child that is left behind there is
    /// nothing to assert.
    pub fn check(&self) {
        if self.ensure_here().is_err() {
            return;
        }
        let _no_compaction = JobGuard::wait(&self.inner.compaction.is_active);
        let _no_prefault = self.inner.retained.wait_to_tend();
        self.check_quiescent();
    }

    fn check_quiescent(&self) {
        let (mut retained, mut committed) = (0, 0);
        let mut lens = Vec::new();
        for class in &self.inner.classes {
            let locked = self.inner.lock(class);
            check_class(&self.inner, &locked, |offset, index| {
                let entry = self.owner.table().peek(index, |entry, _| entry.peek().decode());
                let Some(Ok(place)) = entry else {
                    panic!("the object at {offset:#x} is of entry {index}, which holds {entry:?}")
                };
                assert_eq!(place.offset, offset, "entry {index} names another object (I1)");
                assert!(place.len <= class.capacity(), "entry {index}: {place:?} in {class:?}");
                lens.push(place.len);
            });
            retained += locked.state.retained as usize;
            committed += locked.state.committed as usize;
        }
        assert_eq!(retained, self.inner.retained.pages(), "pages retained");
        assert_eq!(committed, self.pages().used(), "pages committed");
        check_plan(&self.inner, &lens);
        self.inner.memory.space.check();
        self.inner.memory.arena.check();
        self.owner.check();
    }
}

/// An entry locked for reading.
#[derive(Debug)]
pub struct EntryReadGuard<'p> {
    /// The object and its flags, or the payload.
    held: Result<(Pinned, u8), u64>,
    lock: Option<ReadLock<'p>>,
}

impl EntryReadGuard<'_> {
    /// What the entry holds.
    ///
    /// # Panics
    /// In a child of the process that pinned it, as [`row`](Self::row). There a pin can only
    /// be dropped, which does nothing.
    #[inline]
    pub fn content(&self) -> Content<'_> {
        self.lock.iter().for_each(ReadLock::assert_same_process);
        match &self.held {
            Ok((object, flags)) => Content::Object { bytes: object.bytes(), flags: *flags },
            Err(payload) => Content::Inline(*payload),
        }
    }

    /// What lies beside the entry, if it is there and so is locked.
    pub fn row(&self) -> Option<Row<'_>> {
        self.lock.as_ref().map(ReadLock::row)
    }

    /// Clears bits of the flags of the object that is pinned, while others read it too; nothing
    /// where none is. The pin goes on to show the flags that it found.
    pub fn clear_flags(&self, bits: u8) {
        if let (Ok(_), Some(entry)) = (&self.held, &self.lock) {
            entry.clear_flags(bits);
        }
    }

    /// Has the processor fetch the first `lines` lines of what the entry holds, which is to be read
    /// soon.
    #[inline]
    pub(crate) fn prefetch(&self, lines: usize) {
        if let Ok((object, _)) = &self.held {
            object.prefetch(lines);
        }
    }
}
