//! The table of entries: its memory follows what it holds.
//!
//! ```text
//!   directory: | link | link | link | ...          a link per region of 65,536 entries
//!                 0      |      '--> inner:  | link | link | ...   a link per leaf of 512 entries
//!              absent    |                      0      |      '--> dense: 512 entries, one page
//!                        '--> packed --> ...           '--> packed --> packed --> dense
//! ```
//! A packed node has 2 to 96 entries, in which a key is looked up. A region with few entries has
//! them in one, one with more has an inner node; so has a leaf, and then a dense node. What does
//! not fit goes to a node behind, each half as large as those before it together, and after some of
//! them an inner node or a dense node: the entries before it move behind then, unless one is
//! locked. `rebalance` converts regions and leaves that have changed: it joins nodes, packs, or
//! removes.
//!
//! How, and what others do meanwhile, is told in [`convert`].
//!
//! Invariants, beside those of [`node`] and [`epoch`](crate::epoch). zs-T1: every entry that is not
//! empty is in its region's nodes, once, and can be found; but for the copies that are made during
//! a conversion. zs-T2: the entry found is the one in force, unless it is frozen, since a way to an
//! entry goes only while the entry is frozen. zs-T3: after a conversion was begun, no other that
//! could freeze the same entries begins before all readers that were inside have left; so a thread
//! that thaws an entry thaws it for the conversion that it saw given up. zs-T4: one thread
//! converts, up to having waited for the readers.
//!
//! Locks: `making`, under which entries are made and chains converted; under it the slab caches',
//! the space's. Looking up and locking an entry takes none, and no one waits while inside the
//! readers (zs-R3).

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

/// A table of entries.
#[derive(Debug)]
pub(crate) struct Table {
    regions: Chunks<NodeLink>,
    /// Of a table of handle slots: what is kept of their generations.
    floors: Option<Floors>,
    nodes: Nodes,
    /// The readers of the table. The tally counts entries that became empty.
    epoch: Epoch,
    making: Mutex<Making>,
    read_waits: AtomicU64,
}

/// What the table's lock guards, beside links and counts of keys.
#[derive(Debug, Default)]
struct Making {
    retired: Retired,
    /// Entries the nodes have room for.
    room: usize,
    pass: pass::Last,
}

/// A table with its lock held.
#[derive(Debug)]
struct Locked<'t> {
    table: &'t Table,
    making: MutexGuard<'t, Making>,
}

/// Returns the region of an entry, and its place there.
#[inline]
fn split(index: u32) -> (u64, u16) {
    (index as u64 / REGION as u64, (index as u64 % REGION as u64) as u16)
}

/// Returns the entry at a place of a region.
fn index_of(region: u64, key: u16) -> u32 {
    (region * REGION as u64) as u32 + key as u32
}

impl Table {
    /// Returns a table without entries. They will lie in `arena`.
    pub(crate) fn new(arena: &Arc<Arena>, columns: Columns) -> Result<Self, Error> {
        Self::with_rows(arena, columns.into(), None)
    }

    /// Returns a table of handle slots, which begin with generation `first`.
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

    /// Counts the caller in among the readers.
    #[inline(always)]
    fn enter(&self) -> Inside<'_> {
        Inside { table: self, _reader: self.epoch.enter() }
    }

    /// Locks entry `index` for reading; `None` if there is none, or `admits` says no of its row:
    /// asked before the entry is waited for, and again with the entry locked.
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

    /// Looks entry `index` up and has `lock` try to lock it, unless `admits` says no of its row:
    /// given the entry, and the readers of this table.
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

    /// As [`lock_shared`](Self::lock_shared), for a change.
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

    /// Locks entry `index` for a change, made if there is none.
    pub(crate) fn lock(&self, index: u32) -> Result<WriteLock<'_>, Error> {
        loop {
            match self.lock_existing(index, |_| true) {
                Some(entry) => return Ok(entry),
                None => self.make(index)?,
            }
        }
    }

    /// Locks entry `index` for a change, made if there is none, if it is empty and no one has it
    /// locked.
    #[allow(unsafe_code)]
    pub(crate) fn claim(&self, index: u32) -> Result<Option<WriteLock<'_>>, Error> {
        loop {
            let inside = self.enter();
            if let Some(entry_ref) = inside.find(index) {
                // SAFETY: it was found in the table of these readers, and is looked at inside.
                return Ok(unsafe { entry_ref.try_claim(&self.epoch) });
            }
            drop(inside);
            self.make(index)?;
        }
    }

    /// Gives the object of entry `index` the flags that `choose` says, of it and the entry's row,
    /// as [`Entry::set_flags_if_unlocked`] does, and returns whether it has. Waits for nothing: an
    /// entry that is locked is left.
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

    /// Looks at entry `index`, if there is one, locked or not.
    pub(crate) fn peek<R>(&self, index: u32, look: impl FnOnce(&Entry, Row<'_>) -> R) -> Option<R> {
        let inside = self.enter();
        inside.find(index).map(|entry_ref| look(entry_ref.entry, entry_ref.row))
    }

    /// Looks at all entries of a leaf.
    pub(crate) fn for_each_of(&self, leaf: u64, mut look: impl FnMut(u32, &Entry, Row<'_>)) {
        let (region, nth) = (leaf / LEAVES as u64, (leaf % LEAVES as u64) as usize);
        let inside = self.enter();
        let Some(node) = inside.first(region) else { return };
        node.all_of(nth, |key, entry_ref| {
            look(index_of(region, key), entry_ref.entry, entry_ref.row);
            true
        });
    }

    /// Looks at all entries.
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

    /// Returns the first entry from `index` on that may hold something: those passed over were
    /// never made, or are gone.
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

    /// Locks the table, for one that makes entries or converts chains.
    fn lock_making(&self) -> Locked<'_> {
        Locked { table: self, making: self.making.lock() }
    }

    /// Makes entry `index`, if there is none. Packed nodes that are only in the way then go, if
    /// they can at once.
    #[cold]
    fn make(&self, index: u32) -> Result<(), Error> {
        let chain = make::make(self, index)?;
        chain.into_iter().for_each(|level| pass::absorb_now(self, split(index).0, level));
        Ok(())
    }

    /// Converts leaves and regions that are worth it, if enough has changed since the last time;
    /// bytes given back. `go_on` is asked before each. Does nothing while another thread does.
    pub(crate) fn rebalance(&self, go_on: &mut dyn FnMut() -> bool) -> usize {
        pass::rebalance(self, go_on)
    }

    /// Returns what is kept of a leaf of handle slots, once an entry of it or of one nearby was
    /// made.
    pub(crate) fn handle_leaf(&self, leaf: u64) -> Option<&HandleLeaf> {
        self.floors.as_ref()?.leaves.get(leaf)
    }

    /// Returns all leaves of handle slots there is something kept of.
    pub(crate) fn handle_leaves(&self) -> impl Iterator<Item = (u64, &HandleLeaf)> {
        self.floors.iter().flat_map(|floors| floors.leaves.from(0))
    }

    /// Returns what lies beside an entry made anew.
    fn fresh_row(&self, index: u32) -> RowValues {
        self.floors.as_ref().map_or([0; 2], |floors| [floors.fresh(index), 0])
    }

    /// Reads that had to wait because another had the entry exclusively.
    pub(crate) fn read_waits(&self) -> u64 {
        self.read_waits.load(Ordering::Relaxed)
    }

    /// Returns the bytes of the arena that nodes take.
    #[cfg(all(test, not(loom)))]
    fn node_bytes(&self) -> usize {
        let of_kind = |(kind, count): (layout::NodeKind, usize)| self.nodes.bytes(kind) * count;
        layout::NodeKind::all().zip(check::node_counts(self)).map(of_kind).sum()
    }

    /// Returns the bytes of the pages that nodes take.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn page_bytes(&self) -> usize {
        self.nodes.page_bytes()
    }

    /// Returns the bytes outside the arena.
    pub(crate) fn bytes(&self) -> usize {
        let floors = self.floors.as_ref().map_or(0, |floors| floors.leaves.bytes());
        size_of::<Epoch>() + self.regions.bytes() + floors
    }

    /// Holds the table still over a fork: no entry is being made, nothing converted.
    pub(crate) fn at_fork(&self, step: Step) {
        self.making.at_fork(step);
        self.nodes.at_fork(step);
    }

    /// Repairs, in a child, what lost threads left: entries locked, readers inside, nodes retired.
    ///
    /// # Safety
    /// It is a child that lost all other threads, and what this one has locked holds nothing there.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn repair(&self) {
        let mut making = self.making.lock();
        making.pass.forget_lost();
        // SAFETY: as the caller says; both are this table's.
        unsafe {
            self.epoch.forget_lost();
            self.nodes.repair(&mut making.retired);
        }
        drop(making);
        // SAFETY: as the caller says.
        self.for_each(|_, entry, _| unsafe { entry.unlock_lost() });
    }

    /// Asserts the state of all nodes. Nothing else may use the table meanwhile.
    pub(crate) fn check(&self) {
        check::check(self);
    }
}

/// Someone among the readers of a table, who can look at its nodes; until it is dropped.
#[derive(Debug)]
struct Inside<'t> {
    table: &'t Table,
    _reader: EpochGuard<'t>,
}

impl Inside<'_> {
    /// Returns the chain of a region.
    #[allow(unsafe_code)]
    #[inline(always)]
    fn chain(&self, region: u64) -> Option<Chain<'_>> {
        let link = self.table.regions.get(region)?;
        // SAFETY: it is a link of this table, and what borrows this is among its readers.
        Some(unsafe { Chain::new(link, self.table.nodes.row) })
    }

    /// Returns the first node of a region.
    #[inline(always)]
    fn first(&self, region: u64) -> Option<Node<'_>> {
        self.chain(region)?.first()
    }

    /// Returns entry `index`.
    #[inline(always)]
    fn find(&self, index: u32) -> Option<EntryRef<'_>> {
        let (region, key) = split(index);
        self.first(region)?.find(key)
    }
}

/// Has an entry thawed that someone inside found frozen, who goes then.
#[cold]
fn unless_frozen(inside: Inside<'_>, index: u32, busy: Busy) {
    if busy == Busy::Frozen {
        convert::give_up(&inside, index);
    }
}

/// Waits and tries again, as long as the entry is busy. `count` is told what is waited for at
/// first.
#[cold]
fn persist<T>(mut busy: Busy, count: impl Fn(Busy), attempt: impl Fn() -> Result<T, Busy>) -> T {
    let mut backoff = Backoff::default();
    let mut waited = false;
    loop {
        // An entry that was frozen was thawed, or has gone elsewhere: there is nothing to wait for.
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
