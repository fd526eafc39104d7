//! The table of entries: its memory follows what it holds.
//!
//! ```text
//!   directory: | link | link | link | ...          a link per region of 65,536 entries
//!                 0      |      '--> inner:  | link | link | ...     a link per leaf of 512 entries
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
//! A conversion is all or nothing, and whoever meets it gives it up:
//!
//! ```text
//!   link: node --begin--> node + converting --all entries frozen, copied to a new node--commit--> new node
//!           ^------- give up: an entry is locked, or someone wants one that is frozen -----|  (no way back)
//! ```
//! Between begin and commit every entry of the old nodes is frozen by compare-and-swap from its
//! unlocked state. Who finds a frozen entry looks at the links that lead to it: those that are
//! converting he gives up by the same compare-and-swap that would have committed the conversion;
//! then he looks the entry up again, and thaws it if it is frozen still, for if it is committed,
//! the entry in force is another and is not. So no one waits for a conversion (I3), and a
//! conversion waits for no one: what has a locked entry stays as it is until a later pass.
//!
//! The entries of packed nodes before an inner node move behind it in the same way (`absorb`):
//! their places in the inner node's leaves are hidden until the link names the inner node, so they
//! are filled before it does; what the inner node has already is used meanwhile.
//!
//! Invariants, beside those of [`node`] and [`epoch`](crate::epoch). zs-T1: every entry that is
//! not empty is in its region's nodes, once, and can be found; but for the copies that are made
//! during a conversion. zs-T2: the entry found is the one in force, unless it is frozen: for a way
//! to an entry goes only when it is. zs-T3: after a conversion was begun, no other that could
//! freeze the same entries is before all who were inside have left: so who thaws an entry thaws it
//! for the conversion that he saw given up. zs-T4: one thread converts, up to having waited for the
//! readers.
//!
//! Locks: `making`, under which entries are made and chains converted; under it the slab caches',
//! the space's. Looking up and locking an entry takes none, and no one waits while inside the
//! readers (zs-R3).

mod chunks;
mod convert;
mod floors;
#[cfg(test)]
pub(crate) mod helpers;
mod layout;
mod link;
mod locks;
mod look_up;
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
use crate::epoch::Epoch;
use crate::sync::{AtomicU64, Mutex, Ordering};
use chunks::Chunks;
use floors::{Floors, HandleLeaf};
use layout::{ALIGN, LEAVES, Level, REGION};
use link::NodeLink;
use nodes::Nodes;
use retired::Retired;
use row::{RowKind, RowValues};
use slab::packed::Arena;
use std::sync::Arc;

#[cfg(all(test, not(loom)))]
pub(crate) use floors::LIFT;
pub(crate) use floors::{GENERATION_MAX, is_worn_out};
pub(crate) use layout::LEAF;
pub(crate) use locks::{ReadLock, WriteLock};
pub use row::{Columns, Row};

/// A table of entries.
#[derive(Debug)]
pub(crate) struct Table {
    regions: Chunks<NodeLink>,
    /// Of a table of handle slots: what is kept of their generations.
    floors: Option<Floors>,
    nodes: Nodes,
    /// Who looks up an entry. The tally is of entries that became empty.
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

/// The region of an entry, and its place there.
#[inline]
fn split(index: u32) -> (u64, u16) {
    (index as u64 / REGION as u64, (index as u64 % REGION as u64) as u16)
}

/// The entry at a place of a region.
fn index_of(region: u64, key: u16) -> u32 {
    (region * REGION as u64) as u32 + key as u32
}

impl Table {
    /// A table without entries. They will lie in `arena`.
    pub(crate) fn new(arena: &Arc<Arena>, columns: Columns) -> Result<Self, Error> {
        Self::with_rows(arena, RowKind::Columns(columns), None)
    }

    /// A table of handle slots, which begin with generation `first`.
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

    /// What is kept of a leaf of handle slots, once an entry of it or of one nearby was made.
    pub(crate) fn handle_leaf(&self, leaf: u64) -> Option<&HandleLeaf> {
        self.floors.as_ref()?.get(leaf)
    }

    /// All leaves of handle slots there is something kept of.
    pub(crate) fn handle_leaves(&self) -> impl Iterator<Item = (u64, &HandleLeaf)> {
        self.floors.iter().flat_map(Floors::all)
    }

    /// What lies beside an entry made anew.
    fn fresh_row(&self, index: u32) -> RowValues {
        self.floors.as_ref().map_or([0; 2], |floors| [floors.fresh(index), 0])
    }

    /// Waits for the readers inside, and gives back the nodes that were retired before.
    fn free_retired(&self) {
        let until = self.making.lock().retired.retired_count();
        self.epoch.wait();
        // All who could know of these have left (zs-W2). One at a time: others wait to make
        // entries.
        while self.nodes.free_first(&mut self.making.lock().retired, until) {}
    }

    /// Reads that had to wait because another had the entry exclusively.
    pub(crate) fn read_waits(&self) -> u64 {
        self.read_waits.load(Ordering::Relaxed)
    }

    /// How many nodes there are of each kind.
    fn node_counts(&self) -> [usize; ALIGN] {
        let mut counts = [0; ALIGN];
        let inside = self.epoch.enter();
        for (_, chain) in self.regions.from(0) {
            self.nodes.load(chain, &inside).into_iter().for_each(|node| {
                node.each(|kind| counts[kind.0 as usize] += 1);
            });
        }
        counts
    }

    /// Bytes of the arena that nodes take.
    #[cfg(all(test, not(loom)))]
    fn node_bytes(&self) -> usize {
        let of_kind = |(kind, count): (layout::NodeKind, usize)| self.nodes.bytes(kind) * count;
        layout::NodeKind::all().zip(self.node_counts()).map(of_kind).sum()
    }

    /// Bytes of the pages that nodes take.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn page_bytes(&self) -> usize {
        self.nodes.page_bytes()
    }

    /// Bytes outside the arena.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Epoch>() + self.regions.bytes() + self.floors.as_ref().map_or(0, Floors::bytes)
    }

    /// Holds the table still over a fork: no entry is being made, nothing converted.
    pub(crate) fn lock_for_fork(&self) {
        self.making.lock_for_fork();
        self.nodes.lock_for_fork();
    }

    pub(crate) fn unlock_after_fork(&self) {
        self.nodes.unlock_after_fork();
        self.making.unlock_after_fork();
    }

    /// Repairs, in a child, what lost threads left: entries locked, readers inside, nodes retired.
    pub(crate) fn repair(&self) {
        self.epoch.forget_lost();
        let mut making = self.making.lock();
        self.nodes.free_lost(&mut making.retired);
        making.pass.forget_lost();
        drop(making);
        self.nodes.repair();
        self.for_each(|_, entry, _| entry.unlock_lost());
    }

    /// Asserts the state of all nodes. Nothing else may use the table meanwhile.
    pub(crate) fn check(&self) {
        let counts = self.node_counts();
        self.nodes.check(&counts);
        let room: usize =
            layout::NodeKind::all().zip(counts).map(|(kind, count)| kind.capacity() * count).sum();
        assert_eq!(room, self.making.lock().room, "entries the nodes have room for");
        let inside = self.epoch.enter();
        for node in self.regions.from(0).filter_map(|(_, chain)| self.nodes.load(chain, &inside)) {
            node.check(Level::Region);
            let Some(inner) = node.inner() else { continue };
            let leaves = (0..LEAVES).map(|leaf| (leaf, inner.below(leaf)));
            leaves.for_each(|(leaf, node)| {
                node.into_iter().for_each(|node| node.check(Level::Leaf(leaf)));
            });
        }
        drop(inside);
        self.for_each(|index, entry, _| {
            assert!(!entry.is_frozen(), "entry {index} is frozen, and nothing is being converted");
        });
    }
}
