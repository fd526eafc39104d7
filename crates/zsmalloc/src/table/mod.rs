//! The table of entries. Its memory follows its contents.
//!
//! ```text
//!   directory: | link | link | link | ...          a link per region of 65,536 entries
//!                 0      |      '--> inner:  | link | link | ...   a link per leaf of 512 entries
//!              absent    |                      0      |      '--> dense: 512 entries, one page
//!                        '--> packed --> ...           '--> packed --> packed --> dense
//! ```
//! A packed node has 2 to 96 entries, and a look-up searches its keys. A region with few entries
//! has them in one packed node; a region with more has an inner node. A leaf likewise has a packed
//! node or a dense one. If a node is full, another is appended, each half as large as those before
//! it together, and after some of them an inner or a dense node. The entries before that node move
//! into it, unless one is locked. `rebalance` converts regions and leaves that have changed: it
//! joins nodes, packs them, or removes them.
//!
//! [`convert`] describes conversions, and how other threads proceed during one.
//!
//! Invariants, beside those of [`node`] and [`epoch`](crate::epoch):
//! - zs-T1: every entry that is not empty is in its region's nodes once, and can be found, except
//!   for the copies that are made during a conversion.
//! - zs-T2: the entry that a look-up finds is the current one unless it is frozen, because a path
//!   to an entry is removed only while the entry is frozen.
//! - zs-T3: after a conversion was begun, no other that could freeze the same entries begins before
//!   all readers that were inside have left. So a thread that thaws an entry thaws it for the
//!   conversion that it saw given up.
//! - zs-T4: one thread at a time converts, until it has waited for the readers.
//!
//! Locks: `making`, under which entries are made and chains converted; under it, those of the slab
//! caches and of the space. Looking up and locking an entry takes no lock, and no thread waits
//! while it is inside as a reader (zs-R3).

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
mod retired;
mod row;
#[cfg(all(test, not(loom)))]
mod tests;
mod walk;

use crate::Error;
use crate::entry::{Busy, Entry};
use crate::epoch::{Epoch, EpochGuard};
use crate::meta::Arena;
use crate::sync::{AtomicU64, Backoff, Mutex, MutexGuard, Ordering};
use chunks::Chunks;
use floors::{Floors, HandleLeaf};
use layout::{LEAVES, Level, REGION};
use link::NodeLink;
use locks::{EntryRef, PendingLock};
use node::{Chain, Node};
use nodes::Nodes;
use page::fork::Step;
use retired::Retired;
use row::{RowKind, RowValues};
use std::sync::Arc;

#[cfg(all(test, not(loom)))]
pub(crate) use floors::LIFT;
pub(crate) use floors::{GENERATION_MAX, is_worn_out};
pub(crate) use layout::LEAF;
pub(crate) use locks::{ForkStamp, ReadLock, WriteLock};
pub use row::{Columns, Row};

#[derive(Debug)]
pub(crate) struct Table {
    regions: Chunks<NodeLink>,
    /// The data of leaves, in a table of handle slots.
    floors: Option<Floors>,
    nodes: Nodes,
    /// The readers of the table. The tally counts entries that became empty.
    epoch: Epoch,
    making: Mutex<Making>,
    read_waits: AtomicU64,
}

/// The state that the table's lock guards, beside links and counts of keys.
#[derive(Debug, Default)]
struct Making {
    retired: Retired,
    /// The number of entries for which the nodes have room.
    room: usize,
    pass: pass::Last,
}

#[derive(Debug)]
struct Locked<'t> {
    table: &'t Table,
    making: MutexGuard<'t, Making>,
}

/// Returns the region of an entry, and its key there.
#[inline]
fn split(index: u32) -> (u64, u16) {
    (index as u64 / REGION as u64, (index as u64 % REGION as u64) as u16)
}

/// Returns the entry with key `key` in a region.
fn index_of(region: u64, key: u16) -> u32 {
    (region * REGION as u64) as u32 + key as u32
}

impl Table {
    /// Returns a table without entries, which will lie in `arena`.
    pub(crate) fn new(arena: &Arc<Arena>, columns: Columns) -> Result<Self, Error> {
        Self::with_rows(arena, columns.into(), None)
    }

    /// Returns a table of handle slots, whose generations begin with `first`.
    pub(crate) fn of_handles(arena: &Arc<Arena>, first: u32) -> Result<Self, Error> {
        debug_assert!((1..=GENERATION_MAX).contains(&first));
        Self::with_rows(arena, RowKind::Generation, Some(Floors::new(first)))
    }

    fn with_rows(arena: &Arc<Arena>, row: RowKind, floors: Option<Floors>) -> Result<Self, Error> {
        Ok(Table {
            regions: Chunks::new(),
            floors,
            nodes: Nodes::new(arena, row)?,
            epoch: Epoch::new(),
            making: Mutex::default(),
            read_waits: AtomicU64::new(0),
        })
    }

    /// Counts the caller in as a reader.
    #[inline(always)]
    fn enter(&self) -> Inside<'_> {
        Inside { table: self, _reader: self.epoch.enter() }
    }

    /// Locks entry `index` for reading. Returns `None` if it does not exist or `admits` returns
    /// false for its row. `admits` is called before the entry is waited for, and again with the
    /// entry locked.
    #[allow(unsafe_code)]
    #[inline]
    pub(crate) fn lock_shared(
        &self,
        index: u32,
        admits: impl Fn(Row<'_>) -> bool,
    ) -> Option<ReadLock<'_>> {
        // SAFETY: `try_lock` found the entry in the table of these readers, and is inside.
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

    /// Looks entry `index` up and calls `lock` with it and the readers of this table, to try to
    /// lock it. Returns `None` if it does not exist or `admits` returns false for its row.
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

    /// As [`lock_shared`](Self::lock_shared), but locks the entry exclusively.
    #[allow(unsafe_code)]
    #[inline]
    pub(crate) fn lock_existing(
        &self,
        index: u32,
        admits: impl Fn(Row<'_>) -> bool,
    ) -> Option<WriteLock<'_>> {
        // SAFETY: as in `lock_shared`.
        let lock = |entry: EntryRef<'_>, epoch| unsafe { entry.try_lock_exclusive(epoch) };
        let attempt = || self.try_lock(index, &admits, lock);
        let entry = attempt().unwrap_or_else(|busy| persist(busy, |_| (), attempt));
        entry.map(PendingLock::wait_for_readers).filter(|entry| admits(entry.row()))
    }

    /// Locks entry `index` exclusively, and makes it if it does not exist.
    pub(crate) fn lock(&self, index: u32) -> Result<WriteLock<'_>, Error> {
        loop {
            match self.lock_existing(index, |_| true) {
                Some(entry) => return Ok(entry),
                None => self.make(index)?,
            }
        }
    }

    /// Locks entry `index` exclusively if it is empty and unlocked. Makes it if it does not exist.
    #[allow(unsafe_code)]
    pub(crate) fn claim(&self, index: u32) -> Result<Option<WriteLock<'_>>, Error> {
        loop {
            let inside = self.enter();
            if let Some(entry_ref) = inside.find(index) {
                // SAFETY: it was found in the table of these readers, and is used while inside.
                return Ok(unsafe { entry_ref.try_claim(&self.epoch) });
            }
            drop(inside);
            self.make(index)?;
        }
    }

    /// Sets the flags of the object of entry `index` to the result of `choose`, which gets the
    /// object's length and flags and the entry's row, as [`Entry::set_flags_if_unlocked`] does.
    /// Returns false if the entry is locked or has no object. Never waits.
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

    /// Calls `look` with entry `index`, if it exists, locked or not.
    pub(crate) fn peek<R>(&self, index: u32, look: impl FnOnce(&Entry, Row<'_>) -> R) -> Option<R> {
        let inside = self.enter();
        inside.find(index).map(|entry_ref| look(entry_ref.entry, entry_ref.row))
    }

    pub(crate) fn for_each_of(&self, leaf: u64, mut look: impl FnMut(u32, &Entry, Row<'_>)) {
        let (region, nth) = (leaf / LEAVES as u64, (leaf % LEAVES as u64) as usize);
        let inside = self.enter();
        let Some(node) = inside.first(region) else { return };
        node.all_of(nth, |key, entry_ref| {
            look(index_of(region, key), entry_ref.entry, entry_ref.row);
            true
        });
    }

    pub(crate) fn for_each(&self, mut look: impl FnMut(u32, &Entry, Row<'_>)) {
        for (region, _) in self.regions.from(0) {
            let inside = self.enter();
            let Some(node) = inside.first(region) else { continue };
            node.all_entries(Level::Region, |key, entry_ref| {
                look(index_of(region, key), entry_ref.entry, entry_ref.row);
                true
            });
        }
    }

    /// Returns the first entry from `index` on that exists. Those before it were never made, or
    /// were removed.
    pub(crate) fn first_made(&self, index: u64) -> Option<u64> {
        let first = index / REGION as u64;
        let mut made = self.regions.from(first).filter(|(_, link)| link.is_made());
        made.find_map(|(region, _)| {
            let from = if region == first { index as usize % REGION } else { 0 };
            let inside = self.enter();
            let key = inside.first(region)?.first_made(from)?;
            Some(region * REGION as u64 + key as u64)
        })
    }

    fn lock_making(&self) -> Locked<'_> {
        Locked { table: self, making: self.making.lock() }
    }

    /// Makes entry `index`, if it does not exist. Packed nodes that then precede a wide one are
    /// removed, if that is possible at once.
    #[cold]
    fn make(&self, index: u32) -> Result<(), Error> {
        let chain = make::make(self, index)?;
        chain.into_iter().for_each(|level| pass::absorb_now(self, split(index).0, level));
        Ok(())
    }

    /// Converts leaves and regions for which it is worthwhile, if enough has changed since the last
    /// time. Returns the number of bytes freed. Calls `go_on` before each, and stops if it returns
    /// false. Does nothing while another thread is in this function.
    pub(crate) fn rebalance(&self, go_on: &mut dyn FnMut() -> bool) -> usize {
        pass::rebalance(self, go_on)
    }

    /// Returns the data of a leaf of handle slots, which exists once an entry of it or of one
    /// nearby was made.
    pub(crate) fn handle_leaf(&self, leaf: u64) -> Option<&HandleLeaf> {
        self.floors.as_ref()?.leaves.get(leaf)
    }

    /// Returns all leaves of handle slots that have data.
    pub(crate) fn handle_leaves(&self) -> impl Iterator<Item = (u64, &HandleLeaf)> {
        self.floors.iter().flat_map(|floors| floors.leaves.from(0))
    }

    /// Returns the initial row of an entry that is made.
    fn fresh_row(&self, index: u32) -> RowValues {
        self.floors.as_ref().map_or([0; 2], |floors| [floors.fresh(index), 0])
    }

    /// Returns the number of reads that waited because another thread had locked the entry
    /// exclusively.
    pub(crate) fn read_waits(&self) -> u64 {
        self.read_waits.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes of the arena that nodes occupy.
    #[cfg(all(test, not(loom)))]
    fn node_bytes(&self) -> usize {
        let of_kind = |(kind, count): (layout::NodeKind, usize)| self.nodes.bytes(kind) * count;
        layout::NodeKind::all().zip(check::node_counts(self)).map(of_kind).sum()
    }

    /// Returns the number of bytes of the pages on which nodes lie.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn page_bytes(&self) -> usize {
        self.nodes.page_bytes()
    }

    /// Returns the number of bytes outside the arena.
    pub(crate) fn bytes(&self) -> usize {
        let floors = self.floors.as_ref().map_or(0, |floors| floors.leaves.bytes());
        size_of::<Epoch>() + self.regions.bytes() + floors
    }

    /// Locks or unlocks the table for a fork, so that no entry is being made and no chain
    /// converted.
    pub(crate) fn at_fork(&self, step: Step) {
        self.making.at_fork(step);
        self.nodes.at_fork(step);
    }

    /// Repairs locked entries, readers inside and retired nodes that lost threads left in a child.
    ///
    /// # Safety
    /// The process is a child without the other threads of its parent. The locks of this thread
    /// hold nothing there.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn repair(&self) {
        let mut making = self.making.lock();
        making.pass.forget_lost();
        // SAFETY: guaranteed by the caller; both belong to this table.
        unsafe {
            self.epoch.forget_lost();
            self.nodes.repair(&mut making.retired);
        }
        drop(making);
        // SAFETY: guaranteed by the caller.
        self.for_each(|_, entry, _| unsafe { entry.unlock_lost() });
    }

    /// Asserts the state of all nodes. No other thread may use the table during the check.
    pub(crate) fn check(&self) {
        check::check(self);
    }
}

/// A reader of a table, which can read its nodes until this is dropped.
#[derive(Debug)]
struct Inside<'t> {
    table: &'t Table,
    _reader: EpochGuard<'t>,
}

impl Inside<'_> {
    #[allow(unsafe_code)]
    #[inline(always)]
    fn chain(&self, region: u64) -> Option<Chain<'_>> {
        let link = self.table.regions.get(region)?;
        // SAFETY: it is a link of this table, and the borrower of this is among its readers.
        Some(unsafe { Chain::new(link, self.table.nodes.row) })
    }

    #[inline(always)]
    fn first(&self, region: u64) -> Option<Node<'_>> {
        self.chain(region)?.first()
    }

    #[inline(always)]
    fn find(&self, index: u32) -> Option<EntryRef<'_>> {
        let (region, key) = split(index);
        self.first(region)?.find(key)
    }
}

/// Thaws an entry that a reader found frozen, and ends that reader.
#[cold]
fn unless_frozen(inside: Inside<'_>, index: u32, busy: Busy) {
    if busy == Busy::Frozen {
        convert::give_up(&inside, index);
    }
}

/// Waits and tries again as long as the entry is busy. Calls `count` with the reason for the first
/// wait.
#[cold]
fn persist<T>(mut busy: Busy, count: impl Fn(Busy), attempt: impl Fn() -> Result<T, Busy>) -> T {
    let mut backoff = Backoff::default();
    let mut waited = false;
    loop {
        // An entry that was frozen has been thawed or moved, so there is nothing to wait for.
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
