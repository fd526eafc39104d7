//! The pool with its entries, each the place and the lock of an object.
//!
//! Lock order: entry, class, slab caches, space.

use crate::class_guard::ClassGuard;
use crate::entry::{Location, Value};
use crate::handle_slots::HandleSlots;
use crate::inner::PoolInner;
use crate::memory::Pinned;
use crate::meta::Arena;
use crate::stats::{ClassStat, Classes};
use crate::sync::JobGuard;
use crate::sync::Ordering::Relaxed;
use crate::table::{Columns, LEAF, ReadLock, Row, Table, WriteLock};
use crate::write_guard::{EntryWriteGuard, StagedObject};
use crate::{ClassTable, Config, Error};
use page::{Budget, page_size};
use std::fmt;
use std::sync::Arc;

/// A pool with numbered entries, each of which may hold an object. They are made as they are used.
pub struct EntryPool {
    inner: PoolInner,
    entries: Table,
    /// Entries there can be.
    len: u64,
    /// Which of them are free, in a pool that gives out handles.
    handles: Option<Arc<HandleSlots>>,
}

impl fmt::Debug for EntryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntryPool").field("space", &self.inner.memory.space).finish_non_exhaustive()
    }
}

/// What an entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// 59 bits of the user's, 0 in a new entry; no object.
    Inline(u64),
    /// An object, and four bits of the user's beside it.
    Object {
        /// The object.
        bytes: &'a [u8],
        /// The user's bits, 0 to 15.
        flags: u8,
    },
}

/// What an entry held when it was looked at, or before it was given something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Old {
    /// The user's bits; no object.
    Inline(u64),
    /// An object, freed meanwhile.
    Object {
        /// Its bytes.
        len: usize,
        /// The user's bits.
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

impl EntryPool {
    /// A pool without pages, with entries 0 to `len - 1`, at most 2^32 - 1 of them, and such
    /// columns beside each. Who has it sees to it that it is held over forks ([`page::fork`]), or
    /// that no child uses it; but one whose pages are not in children is refused there anyway.
    pub fn new(config: Config, len: u64, columns: Columns) -> Result<Self, Error> {
        // u32::MAX marks slots of zspages that are held, so no entry has that number.
        if len > u32::MAX as u64 {
            return Err(Error::Index { index: len, len: u32::MAX as u64 });
        }
        let arena = arena_of(&config)?;
        let entries = Table::new(&arena, columns)?;
        Ok(EntryPool { inner: PoolInner::new(config, arena)?, entries, len, handles: None })
    }

    /// A pool whose entries are handle slots, which begin with generation `first`.
    pub(crate) fn with_handles(
        config: Config,
        handles: Arc<HandleSlots>,
        first: u32,
    ) -> Result<Self, Error> {
        let arena = arena_of(&config)?;
        let entries = Table::of_handles(&arena, first)?;
        let (len, handles) = (HandleSlots::LEN, Some(handles));
        Ok(EntryPool { inner: PoolInner::new(config, arena)?, entries, len, handles })
    }

    pub(crate) fn inner(&self) -> &PoolInner {
        &self.inner
    }

    pub(crate) fn entries(&self) -> &Table {
        &self.entries
    }

    pub(crate) fn handles(&self) -> Option<&HandleSlots> {
        self.handles.as_deref()
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
        let entry = self.entries.lock_shared(index, admits);
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
        let value = self.entries.peek(index, |entry, _| entry.peek());
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
        if index as u64 >= self.len {
            return Err(Error::Index { index: index as u64, len: self.len });
        }
        Ok(self.write_guard(index, self.entries.lock(index)?))
    }

    /// As [`lock`](Self::lock), but `None` for an entry that is not there and so holds nothing.
    ///
    /// # Panics
    /// In a child that is [left behind](Self::is_left_behind).
    pub fn lock_existing(&self, index: u32) -> Option<EntryWriteGuard<'_>> {
        self.expect_here();
        Some(self.write_guard(index, self.entries.lock_existing(index, |_| true)?))
    }

    /// As [`lock_existing`](Self::lock_existing), with `admits` as in [`read_if`](Self::read_if).
    pub(crate) fn lock_if(
        &self,
        index: u32,
        admits: impl Fn(Row<'_>) -> bool,
    ) -> Result<Option<EntryWriteGuard<'_>>, Error> {
        self.ensure_here()?;
        let entry = self.entries.lock_existing(index, admits);
        Ok(entry.map(|entry| self.write_guard(index, entry)))
    }

    pub(crate) fn write_guard<'p>(
        &'p self,
        index: u32,
        entry: WriteLock<'p>,
    ) -> EntryWriteGuard<'p> {
        EntryWriteGuard::new(&self.inner, index, entry)
    }

    /// The first entry from `index` on that may hold something: those passed over hold nothing.
    pub fn first_made(&self, index: u64) -> Option<u64> {
        self.entries.first_made(index)
    }

    /// What `look` says of what entry `index` holds at this moment, and what lies beside it;
    /// nothing where it was never made. Waits for nothing: what it holds may be changed or freed
    /// meanwhile.
    pub fn look_at<R>(&self, index: u32, look: impl FnOnce(Old, Row<'_>) -> R) -> Option<R> {
        self.try_repair();
        self.entries.peek(index, |entry, row| look(Old::from(entry.peek()), row))
    }

    /// Whether entry `index` holds nothing, and no one has it locked who may be about to change
    /// that. It is ordered as a load with acquire: of two threads that each lock an entry, pass a
    /// sequentially consistent fence, and then look with this at the other's, or lock it if it is
    /// there, one sees that the other has locked.
    pub fn is_vacant(&self, index: u32) -> bool {
        self.try_repair();
        self.entries.peek(index, |entry, _| entry.is_vacant()).unwrap_or(true)
    }

    /// Shows `look` entries that hold something, some from `index` on, locked or not; from where to
    /// go on, if there may be more. `look` must not wait for anything.
    pub fn look_at_some(&self, index: u64, mut look: impl FnMut(u32, Old, Row<'_>)) -> Option<u64> {
        self.try_repair();
        let first = self.first_made(index)?;
        let leaf = first / LEAF as u64;
        self.entries.for_each_of(leaf, |nth, entry, row| {
            let held = Old::from(entry.peek());
            if nth as u64 >= first && held != Old::Inline(0) {
                look(nth, held, row);
            }
        });
        Some((leaf + 1) * LEAF as u64)
    }

    /// Gives the object of entry `index` the flags that `choose` says, of its length, its flags and
    /// what lies beside the entry; whether it has. Waits for nothing: an entry that is locked is
    /// left. `choose` is asked until it says the flags that are there, so a time it looks at is not
    /// older than the flags.
    pub fn set_flags_if_unlocked(
        &self,
        index: u32,
        choose: impl Fn(usize, u8, Row<'_>) -> u8,
    ) -> bool {
        self.ensure_here().is_ok() && self.entries.set_flags_if_unlocked(index, choose)
    }

    /// Gives back the memory of entries that hold nothing any more, if enough do; bytes. `go_on` is
    /// asked now and then. Does nothing while another thread does it.
    pub fn tidy(&self, go_on: &mut dyn FnMut() -> bool) -> usize {
        match self.ensure_here() {
            Ok(()) => self.entries.rebalance(go_on),
            Err(_) => 0,
        }
    }

    /// Reads that had to wait since an entry was being changed.
    pub fn read_waits(&self) -> u64 {
        self.entries.read_waits()
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
        let entries = self.entries.bytes() + self.handles().map_or(0, HandleSlots::bytes);
        pages + memory.arena.bytes() + self.inner.bytes() + entries
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
        let alone = JobGuard::wait(&self.inner.tending);
        self.inner.purge_all(&alone)
    }

    /// Statistics per class.
    pub fn classes(&self) -> Classes {
        self.try_repair();
        let table = self.inner.table();
        let shapes = table.classes().iter().zip(&self.inner.classes);
        Classes::new(
            shapes
                .map(|(&shape, class)| ClassStat::new(shape, &ClassGuard::new(&self.inner, class))),
        )
    }

    /// Asserts the state of every class, zspage and entry. No other caller may use the pool
    /// meanwhile; compaction is waited for, and kept away. In a child that is left behind there is
    /// nothing to assert.
    pub fn check(&self) {
        if self.ensure_here().is_err() {
            return;
        }
        let _no_compaction = JobGuard::wait(&self.inner.compacting);
        let _no_fetch = JobGuard::wait(&self.inner.tending);
        self.check_quiescent();
    }

    fn check_quiescent(&self) {
        let (mut retained, mut committed) = (0, 0);
        let mut lens = Vec::new();
        for class in &self.inner.classes {
            let locked = ClassGuard::new(&self.inner, class);
            locked.check(|offset, index| {
                let entry = self.entries.peek(index, |entry, _| entry.peek().decode());
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
        assert_eq!(retained, self.inner.retained.load(Relaxed), "pages retained");
        assert_eq!(committed, self.pages().used(), "pages committed");
        self.inner.check_plan(&lens);
        self.inner.memory.space.check();
        self.inner.memory.arena.check();
        self.entries.check();
        self.handles().inspect(|handles| handles.check(&self.entries));
    }
}

/// Where entries, headers and tables of a pool lie.
fn arena_of(config: &Config) -> Result<Arc<Arena>, Error> {
    let supply = config.pages.supply.clone();
    Ok(Arena::new(page::Config { supply, ..page::Config::default() })?)
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
