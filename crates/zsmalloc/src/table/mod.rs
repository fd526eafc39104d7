//! The table of entries. The memory of the table is proportional to the number of entries.
//!
//! ```text
//!   directory: | link | link | link | ...          a link per span of 65,536 entries
//!                 0      |      '--> inner:  | link | link | ...   a link per leaf of 512 entries
//!              absent    |                      0      |      '--> dense: 512 entries, one page
//!                        '--> packed --> ...           '--> packed --> packed --> dense
//! ```
//! A packed node has space for 2 to 96 entries, and a look-up searches the node's keys. A span has
//! a packed node if its entries are few, otherwise an inner node. A leaf has a packed node or a
//! dense node. If the last node of a chain is full, another node is appended. The new node is a
//! packed node that can hold half as many entries as all earlier nodes together. After several
//! packed nodes, the new node is an inner node or a dense node. The entries of the packed nodes
//! then move into the inner or dense node, if none of these entries is locked. `rebalance` joins,
//! packs or removes the nodes of spans and leaves that have changed.
//!
//! [`convert`] describes conversions, and what other threads do during a conversion.
//!
//! Invariants, in addition to those of [`node`] and [`epoch`](crate::epoch):
//! - zs-T1: every entry that is not empty is in its span's nodes once, apart from copies during a
//!   conversion, and a look-up finds the entry.
//! - zs-T2: if an entry that a look-up finds is not frozen, it is the current entry, because a path
//!   to an entry is removed only while the entry is frozen.
//! - zs-T3: after a conversion has begun, all present readers leave before another conversion of
//!   the same entries begins. So a thread that thaws an entry undoes only the conversion that it
//!   found given up, never a later conversion.
//! - zs-T4: one thread at a time converts chains, and waits for the readers before another thread
//!   begins.
//!
//! A thread holds the lock `making` when it creates entries or converts chains. The locks of the
//! slab caches and of the space are taken under `making`. To look up and lock an entry, a thread
//! takes none of these locks. No thread waits while it is counted as a reader (zs-R3).

mod check;
mod chunks;
mod convert;
mod floors;
mod fresh;
#[cfg(test)]
pub(crate) mod helpers;
mod layout;
mod link;
mod locks;
#[cfg(all(test, loom))]
mod loom_tests;
mod make;
mod node;
mod nodes;
mod pass;
pub(crate) mod policy;
mod retired;
mod row;
#[cfg(all(test, not(loom)))]
mod tests;
mod walk;

use crate::Error;
use crate::entry::{Busy, Entry};
use crate::epoch::{Epoch, EpochGuard};
use crate::meta::MetadataArena;
use crate::sync::{AtomicU64, Backoff, Mutex, MutexGuard, Ordering};
use chunks::Chunks;
use floors::{Floors, HandleLeaf};
use layout::{LEAVES, Level, SPAN};
use link::NodeLink;
use locks::{EntryRef, PendingLock};
use node::{Chain, Node};
use nodes::Nodes;
use page::fork::Step;
use retired::Retired;
use row::{RowKind, RowValues};
use std::sync::Arc;
use walk::{all_entries, all_in_leaf, first_made};

pub(crate) use floors::{GENERATION_MAX, is_worn_out};
pub(crate) use layout::LEAF;
pub(crate) use locks::{ForkStamp, ReadLock, WriteLock};
pub use row::{Columns, Row};

#[derive(Debug)]
pub(crate) struct Table {
    spans: Chunks<NodeLink>,
    /// The data kept for each leaf, if this is a table of handle slots.
    floors: Option<Floors>,
    nodes: Nodes,
    /// The counts of the table's readers, and of entries that have become empty.
    epoch: Epoch,
    making: Mutex<Making>,
    read_waits: AtomicU64,
}

/// The state that the table's lock guards, in addition to links and counts of keys.
#[derive(Debug, Default)]
struct Making {
    retired: Retired,
    /// The number of entries that the nodes can hold.
    room: usize,
    pass: pass::Last,
}

#[derive(Debug)]
struct Locked<'t> {
    table: &'t Table,
    making: MutexGuard<'t, Making>,
}

/// Returns the number of an entry's span, and the entry's key in that span.
#[inline]
fn split(index: u32) -> (u64, u16) {
    (index as u64 / SPAN as u64, (index as u64 % SPAN as u64) as u16)
}

/// Returns the number of the entry with key `key` in a span.
fn index_of(span: u64, key: u16) -> u32 {
    (span * SPAN as u64) as u32 + key as u32
}

impl Table {
    /// Returns a table without entries. The table's nodes will be allocated in `arena`.
    pub(crate) fn new(arena: &Arc<MetadataArena>, columns: Columns) -> Result<Self, Error> {
        Self::with_rows(arena, columns.into(), None)
    }

    /// Returns a table of handle slots, whose generations begin with `first`.
    pub(crate) fn of_handles(arena: &Arc<MetadataArena>, first: u32) -> Result<Self, Error> {
        debug_assert!((1..=GENERATION_MAX).contains(&first));
        Self::with_rows(arena, RowKind::Generation, Some(Floors::new(first)))
    }

    fn with_rows(
        arena: &Arc<MetadataArena>,
        row: RowKind,
        floors: Option<Floors>,
    ) -> Result<Self, Error> {
        Ok(Table {
            spans: Chunks::new(),
            floors,
            nodes: Nodes::new(arena, row)?,
            epoch: Epoch::new(),
            making: Mutex::default(),
            read_waits: AtomicU64::new(0),
        })
    }

    /// Counts the caller as a reader until the result is dropped.
    #[inline(always)]
    fn enter(&self) -> Inside<'_> {
        Inside { table: self, _reader: self.epoch.enter() }
    }

    /// Locks entry `index` for reading. Returns `None` if the entry does not exist or `admits`
    /// returns false for its row. `admits` is called before this function waits for the entry, and
    /// again while the entry is locked.
    #[allow(unsafe_code)]
    #[inline]
    pub(crate) fn lock_shared(
        &self,
        index: u32,
        admits: impl Fn(Row<'_>) -> bool,
    ) -> Option<ReadLock<'_>> {
        // SAFETY: `try_lock` found the entry in the table of these readers, and this thread is
        // counted as a reader.
        let lock = |entry: EntryRef<'_>, epoch| unsafe { entry.try_lock_shared(epoch) };
        let attempt = || self.try_lock(index, &admits, lock);
        let entry = attempt().unwrap_or_else(|busy| {
            let count = |busy| {
                if busy == Busy::Exclusive {
                    self.read_waits.fetch_add(1, Ordering::Relaxed);
                }
            };
            persist(busy, count, attempt)
        });
        entry.filter(|entry| admits(entry.row()))
    }

    /// Looks up entry `index`, and passes the entry and the readers of this table to `lock`, which
    /// tries to lock the entry. Returns `None` if the entry does not exist or `admits` returns
    /// false for its row.
    #[inline(always)]
    fn try_lock<'t, L>(
        &'t self,
        index: u32,
        admits: &impl Fn(Row<'_>) -> bool,
        lock: impl FnOnce(EntryRef<'_>, &'t Epoch) -> Result<L, Busy>,
    ) -> Result<Option<L>, Busy> {
        let inside = self.enter();
        match inside.find(index).filter(|entry_ref| admits(entry_ref.row)) {
            Some(entry_ref) => lock(entry_ref, &self.epoch)
                .map(Some)
                .inspect_err(|&busy| unless_frozen(inside, index, busy)),
            None => Ok(None),
        }
    }

    /// Locks the entry as [`lock_shared`](Self::lock_shared) does, but exclusively.
    #[allow(unsafe_code)]
    #[inline]
    pub(crate) fn lock_existing(
        &self,
        index: u32,
        admits: impl Fn(Row<'_>) -> bool,
    ) -> Option<WriteLock<'_>> {
        // SAFETY: `try_lock` found the entry in the table of these readers, and this thread is
        // counted as a reader.
        let lock = |entry: EntryRef<'_>, epoch| unsafe { entry.try_lock_exclusive(epoch) };
        let attempt = || self.try_lock(index, &admits, lock);
        let entry = attempt().unwrap_or_else(|busy| persist(busy, |_| (), attempt));
        entry.map(PendingLock::wait_for_readers).filter(|entry| admits(entry.row()))
    }

    /// Locks entry `index` exclusively, and creates the entry if it does not exist.
    pub(crate) fn lock(&self, index: u32) -> Result<WriteLock<'_>, Error> {
        loop {
            match self.lock_existing(index, |_| true) {
                Some(entry) => return Ok(entry),
                None => self.make(index)?,
            }
        }
    }

    /// Locks entry `index` exclusively if it is empty and unlocked. Creates the entry if it does
    /// not exist.
    #[allow(unsafe_code)]
    pub(crate) fn claim(&self, index: u32) -> Result<Option<WriteLock<'_>>, Error> {
        loop {
            let inside = self.enter();
            if let Some(entry_ref) = inside.find(index) {
                // SAFETY: the entry was found in the table of these readers, and is used while this
                // thread is counted as a reader.
                return Ok(unsafe { entry_ref.try_claim(&self.epoch) });
            }
            drop(inside);
            self.make(index)?;
        }
    }

    /// Sets the flags of the object of entry `index` to the result of `choose` (see
    /// [`Entry::set_flags_if_unlocked`]). The arguments of `choose` are the object's length, the
    /// object's flags and the entry's row. Returns false if the entry is locked or has no object.
    /// Never waits.
    pub(crate) fn set_flags_if_unlocked(
        &self,
        index: u32,
        choose: impl Fn(usize, u8, Row<'_>) -> u8,
    ) -> bool {
        loop {
            let inside = self.enter();
            let Some(EntryRef { entry, row }) = inside.find(index) else { return false };
            match entry.set_flags_if_unlocked(|place| choose(place.len, place.flags, row)) {
                Ok(done) => return done,
                Err(Busy::Frozen) => unless_frozen(inside, index, Busy::Frozen),
                Err(_) => return false,
            }
        }
    }

    /// If entry `index` exists, calls `look` with the entry, even if the entry is locked.
    pub(crate) fn peek<R>(&self, index: u32, look: impl FnOnce(&Entry, Row<'_>) -> R) -> Option<R> {
        let inside = self.enter();
        inside.find(index).map(|entry_ref| look(entry_ref.entry, entry_ref.row))
    }

    pub(crate) fn for_each_of(&self, leaf: u64, mut look: impl FnMut(u32, &Entry, Row<'_>)) {
        let (span, nth) = (leaf / LEAVES as u64, (leaf % LEAVES as u64) as usize);
        let inside = self.enter();
        let Some(node) = inside.first(span) else { return };
        all_in_leaf(node, nth, |key, entry_ref| {
            look(index_of(span, key), entry_ref.entry, entry_ref.row);
            true
        });
    }

    pub(crate) fn for_each(&self, mut look: impl FnMut(u32, &Entry, Row<'_>)) {
        for (span, _) in self.spans.from(0) {
            let inside = self.enter();
            let Some(node) = inside.first(span) else { continue };
            all_entries(node, Level::Span, |key, entry_ref| {
                look(index_of(span, key), entry_ref.entry, entry_ref.row);
                true
            });
        }
    }

    /// Returns the number of the first entry from `index` on that may exist. All entries between
    /// `index` and this entry were never created, or were removed.
    pub(crate) fn first_made(&self, index: u64) -> Option<u64> {
        let first = index / SPAN as u64;
        let mut made = self.spans.from(first).filter(|(_, link)| link.is_made());
        made.find_map(|(span, _)| {
            let from = if span == first { index as usize % SPAN } else { 0 };
            let inside = self.enter();
            let key = first_made(inside.first(span)?, from)?;
            Some(span * SPAN as u64 + key as u64)
        })
    }

    fn lock_making(&self) -> Locked<'_> {
        Locked { table: self, making: self.making.lock() }
    }

    /// Creates entry `index`, if it does not exist. Then removes packed nodes that precede a wide
    /// node, if no entry in them is locked.
    #[cold]
    fn make(&self, index: u32) -> Result<(), Error> {
        let chain = make::make(self, index)?;
        chain.into_iter().for_each(|level| pass::absorb_now(self, split(index).0, level));
        Ok(())
    }

    /// If enough entries have changed since the last pass, converts the leaves and spans for which
    /// a conversion is worthwhile. Returns the number of bytes freed. Calls `go_on` before each
    /// conversion, and stops if `go_on` returns false. Does nothing while another thread is in this
    /// function.
    pub(crate) fn rebalance(&self, go_on: &mut dyn FnMut() -> bool) -> usize {
        pass::rebalance(self, go_on)
    }

    /// Returns the data of a leaf of handle slots, if the data exist (see [`Floors`]).
    pub(crate) fn handle_leaf(&self, leaf: u64) -> Option<&HandleLeaf> {
        self.floors.as_ref()?.leaves.get(leaf)
    }

    /// Returns all leaves of handle slots that have data.
    pub(crate) fn handle_leaves(&self) -> impl Iterator<Item = (u64, &HandleLeaf)> {
        self.floors.iter().flat_map(|floors| floors.leaves.from(0))
    }

    /// Returns the initial values of the row of entry `index`.
    fn fresh_row(&self, index: u32) -> RowValues {
        self.floors.as_ref().map_or([0; 2], |floors| [floors.fresh(index), 0])
    }

    /// Returns the number of reads that waited because another thread had locked the entry
    /// exclusively.
    pub(crate) fn read_waits(&self) -> u64 {
        self.read_waits.load(Ordering::Relaxed)
    }

    /// Returns the total size of the nodes in bytes.
    #[cfg(all(test, not(loom)))]
    fn node_bytes(&self) -> usize {
        let of_kind = |(kind, count): (layout::NodeKind, usize)| self.nodes.bytes(kind) * count;
        layout::NodeKind::all().zip(check::node_counts(self)).map(of_kind).sum()
    }

    /// Returns the number of bytes of the pages that contain nodes.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn page_bytes(&self) -> usize {
        self.nodes.page_bytes()
    }

    /// Returns the size in bytes of the table's memory outside the arena.
    pub(crate) fn bytes(&self) -> usize {
        let floors = self.floors.as_ref().map_or(0, |floors| floors.leaves.bytes());
        size_of::<Epoch>() + self.spans.bytes() + floors
    }

    /// Locks the table before a fork, or unlocks it after the fork. During the fork no thread
    /// creates an entry or converts a chain.
    pub(crate) fn at_fork(&self, step: Step) {
        self.making.at_fork(step);
        self.nodes.at_fork(step);
    }

    /// In a child of fork, repairs the state that lost threads left. Unlocks all entries, resets
    /// the counts of readers, and frees the retired nodes.
    ///
    /// # Safety
    /// The process is a child without the other threads of its parent. The process does not rely on
    /// locks that this thread took before the fork.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn repair(&self) {
        let mut making = self.making.lock();
        making.pass.forget_lost();
        // SAFETY: the caller guarantees that the lost threads do not exist. `epoch` and `retired`
        // belong to this table.
        unsafe {
            self.epoch.forget_lost();
            self.nodes.repair(&mut making.retired);
        }
        drop(making);
        // SAFETY: the caller guarantees that the threads that locked entries do not exist.
        self.for_each(|_, entry, _| unsafe { entry.unlock_lost() });
    }

    /// Asserts that the state of all nodes is consistent. No other thread is allowed to use the
    /// table during the check.
    pub(crate) fn check(&self) {
        check::check(self);
    }
}

/// A reader of a table. The nodes that the reader finds are not freed until this value is dropped.
#[derive(Debug)]
struct Inside<'t> {
    table: &'t Table,
    _reader: EpochGuard<'t>,
}

impl Inside<'_> {
    #[allow(unsafe_code)]
    #[inline(always)]
    fn chain(&self, span: u64) -> Option<Chain<'_>> {
        let link = self.table.spans.get(span)?;
        // SAFETY: `link` belongs to this table, and the borrower of this value is counted as a
        // reader.
        Some(unsafe { Chain::new(link, self.table.nodes.row) })
    }

    #[inline(always)]
    fn first(&self, span: u64) -> Option<Node<'_>> {
        self.chain(span)?.first()
    }

    #[inline(always)]
    fn find(&self, index: u32) -> Option<EntryRef<'_>> {
        let (span, key) = split(index);
        self.first(span)?.find(key)
    }
}

/// Thaws entry `index` if `busy` is `Frozen`. The caller is no longer counted as a reader after the
/// call.
#[cold]
fn unless_frozen(inside: Inside<'_>, index: u32, busy: Busy) {
    if busy == Busy::Frozen {
        convert::give_up(&inside, index);
    }
}

/// Repeats `attempt` until the entry is not busy, and waits before each attempt. Calls `count` with
/// the reason for the first wait.
#[cold]
fn persist<T>(mut busy: Busy, count: impl Fn(Busy), attempt: impl Fn() -> Result<T, Busy>) -> T {
    let mut backoff = Backoff::default();
    let mut waited = false;
    loop {
        // An entry that was frozen has been thawed or moved, so no wait is necessary.
        if busy != Busy::Frozen {
            if !waited {
                count(busy);
            }
            waited = true;
            backoff.wait();
        }
        match attempt() {
            Ok(done) => return done,
            Err(still) => busy = still,
        }
    }
}
