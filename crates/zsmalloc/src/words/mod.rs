//! The table of words: its memory follows what it holds.
//!
//! ```text
//!   directory: | link | link | link | ...          a link per stem of 65,536 words
//!                 0      |      '--> branch: | link | link | ...     a link per leaf of 512 words
//!              absent    |                      0      |      '--> dense: 512 words, one page
//!                        '--> packed --> ...           '--> packed --> packed --> dense
//! ```
//! A packed node has 2 to 96 words, in which a key is looked up. A stem with few words has them in one, one with
//! more has a branch; so has a leaf, and then a dense node. What does not fit goes to a node behind, each half
//! as large as those before it together, and after some of them a branch or a dense node: the words before it
//! move behind then, unless one is locked. `tidy` converts stems and leaves that have changed: it joins nodes,
//! packs, or removes.
//!
//! A conversion is all or nothing, and whoever meets it gives it up:
//!
//! ```text
//!   link: node --begin--> node + converting --all words frozen, copied to a new node--commit--> new node
//!           ^------- give up: a word is locked, or someone wants one that is frozen -----|  (no way back)
//! ```
//! Between begin and commit every word of the old nodes is frozen by compare-and-swap from its unlocked state.
//! Who finds a frozen word looks at the links that lead to it: those that are converting he gives up by the same
//! compare-and-swap that would have committed the conversion; then he looks the word up again, and thaws it if
//! it is frozen still, for if it is committed, the word in force is another and is not.
//! So no one waits for a conversion (I3), and a conversion waits for no one: what has a locked word stays as it
//! is until a later pass.
//!
//! The words of packed nodes before a branch move behind it in the same way (`absorb`): their places in the
//! branch's leaves are hidden until the link names the branch, so they are filled before it does; what the
//! branch has already is used meanwhile.
//!
//! Invariants, beside those of [`node`] and [`readers`](crate::readers). zs-T1: every word that is
//! not empty is in its stem's nodes, once, and can be found; but for the copies that are made
//! during a conversion. zs-T2: the word found is the one in force, unless it is frozen: for a way
//! to a word goes only when it is. zs-T3: after a conversion was begun, no other that could freeze
//! the same words is before all who were inside have left: so who thaws a word thaws it for the
//! conversion that he saw given up. zs-T4: one thread converts, up to having waited for the
//! readers.
//!
//! Locks: `making`, under which words are made and chains converted; under it the slab caches', the space's.
//! Looking up and locking a word takes none, and no one waits while inside the readers (zs-R3).

mod convert;
mod held;
#[cfg(test)]
pub(crate) mod helpers;
mod kind;
mod link;
mod look_up;
#[cfg(all(test, loom))]
mod loom_tests;
mod make;
mod node;
mod nodes;
mod pass;
mod retired;
mod shelves;
mod spot;
#[cfg(all(test, not(loom)))]
mod tests;
mod walk;

use crate::Error;
use crate::readers::Readers;
use crate::sync::{AtomicU64, Mutex, Ordering};
use kind::{ALIGN, LEAVES, Level, STEM};
use link::Chain;
use nodes::Nodes;
use retired::Retired;
use shelves::Shelves;
use slab::packed::Arena;
use std::fmt::Debug;
use std::sync::Arc;

pub(crate) use held::{Held, Shared};
pub(crate) use kind::LEAF;

/// What lies beside each word of a table: nothing, a time, or a cell's generation.
pub trait Beside: Debug + Send + Sync + Sized {
    /// What is kept per leaf, also of one without words: nothing, or what outlives those that go.
    type Leaf: Debug + Send + Sync;
    /// What a leaf begins with.
    type Seed: Copy + Debug + Send + Sync;

    /// A leaf that never had a word.
    fn leaf(seed: Self::Seed) -> Self::Leaf;

    /// What lies beside a word made anew.
    fn fresh(leaf: &Self::Leaf) -> Self;

    /// The same, in another place. The word is unlocked and frozen.
    fn moved(&self) -> Self;

    /// Whether the word stays in the table when it is empty.
    fn stays(&self, _leaf: &Self::Leaf) -> bool {
        false
    }

    /// Becomes what lies beside another place, of which this takes over the word. No one looks at it meanwhile.
    fn take(&self, from: &Self);

    /// The word goes from the table, which is empty. Not called where nothing is kept per leaf.
    fn dropped(_leaf: &Self::Leaf, _gone: &Self) {}

    /// The word was made empty, and is locked still.
    fn emptied(&self) {}
}

impl Beside for () {
    type Leaf = ();
    type Seed = ();

    fn leaf(_seed: ()) {}

    fn fresh(_leaf: &()) {}

    fn moved(&self) {}

    fn take(&self, _from: &()) {}
}

/// A table of words.
#[derive(Debug)]
pub(crate) struct Words<E: Beside> {
    stems: Shelves<Chain<E>>,
    leaves: Shelves<E::Leaf>,
    nodes: Nodes<E>,
    /// Who looks up a word. The tally is of words that became empty.
    readers: Readers,
    making: Mutex<Making>,
    read_waits: AtomicU64,
    seed: E::Seed,
}

/// What the table's lock guards, beside links and counts of keys.
#[derive(Debug, Default)]
struct Making {
    retired: Retired,
    /// Words the nodes have room for.
    room: usize,
    pass: pass::Last,
}

/// The stem of a word, and its place there.
#[inline]
fn split(index: u32) -> (u64, u16) {
    (index as u64 / STEM as u64, (index as u64 % STEM as u64) as u16)
}

impl<E: Beside> Words<E> {
    /// A table without words. They will lie in `arena`.
    pub(crate) fn new(arena: &Arc<Arena>, seed: E::Seed) -> Result<Self, Error> {
        Ok(Words {
            stems: Shelves::new(),
            leaves: Shelves::new(),
            nodes: Nodes::new(arena)?,
            readers: Readers::new(),
            making: Mutex::default(),
            read_waits: AtomicU64::new(0),
            seed,
        })
    }

    /// What is kept of a leaf, once a word of it or of one nearby was made.
    pub(crate) fn leaf(&self, leaf: u64) -> Option<&E::Leaf> {
        self.leaves.get(leaf)
    }

    /// All leaves there is something kept of.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = (u64, &E::Leaf)> {
        self.leaves.from(0)
    }

    /// What is kept of the leaf of a word that there is, or is about to be.
    fn leaf_of(&self, stem: u64, key: u16) -> &E::Leaf {
        match self.leaf(stem * LEAVES as u64 + (key as usize / LEAF) as u64) {
            Some(leaf) => leaf,
            None => unreachable!("a word was made before what is kept of its leaf"),
        }
    }

    /// Reads that had to wait because another had the word exclusively.
    pub(crate) fn read_waits(&self) -> u64 {
        self.read_waits.load(Ordering::Relaxed)
    }

    /// How many nodes there are of each kind.
    fn kinds(&self) -> [usize; ALIGN] {
        let mut counts = [0; ALIGN];
        let inside = self.readers.enter();
        for (_, chain) in self.stems.from(0) {
            chain.load(&inside).into_iter().for_each(|node| {
                node.each(|kind| counts[kind.0 as usize] += 1);
            });
        }
        counts
    }

    /// Bytes of the arena that nodes take.
    #[cfg(all(test, not(loom)))]
    fn node_bytes(&self) -> usize {
        let of_kind = |(kind, count): (kind::Kind, usize)| self.nodes.bytes(kind) * count;
        kind::Kind::all().zip(self.kinds()).map(of_kind).sum()
    }

    /// Bytes of the pages that nodes take.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn page_bytes(&self) -> usize {
        self.nodes.page_bytes()
    }

    /// Bytes outside the arena.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Readers>() + self.stems.bytes() + self.leaves.bytes()
    }

    /// Holds the table still over a fork: no word is being made, nothing converted.
    pub(crate) fn lock_for_fork(&self) {
        self.making.lock_for_fork();
        self.nodes.lock_for_fork();
    }

    pub(crate) fn unlock_after_fork(&self) {
        self.nodes.unlock_after_fork();
        self.making.unlock_after_fork();
    }

    /// Mends, in a child, what lost threads left: words locked, readers inside, nodes retired.
    pub(crate) fn mend(&self) {
        self.readers.forget_lost();
        let mut making = self.making.lock();
        self.nodes.free_lost(&mut making.retired);
        making.pass.forget_lost();
        drop(making);
        self.nodes.mend();
        self.for_each(|_, word, _| word.unlock_lost());
    }

    /// Asserts the state of all nodes. Nothing else may use the table meanwhile.
    pub(crate) fn check(&self) {
        let counts = self.kinds();
        self.nodes.check(&counts);
        let room: usize =
            kind::Kind::all().zip(counts).map(|(kind, count)| kind.capacity() * count).sum();
        assert_eq!(room, self.making.lock().room, "words the nodes have room for");
        let inside = self.readers.enter();
        for node in self.stems.from(0).filter_map(|(_, chain)| chain.load(&inside)) {
            node.check(Level::Stem);
            let Some(branch) = node.branch() else { continue };
            let leaves = (0..LEAVES).map(|leaf| (leaf, branch.leaf(leaf).load(&inside)));
            leaves.for_each(|(leaf, node)| {
                node.into_iter().for_each(|node| node.check(Level::Leaf(leaf)));
            });
        }
        drop(inside);
        self.for_each(|index, word, _| {
            assert!(!word.is_frozen(), "word {index} is frozen, and nothing is being converted");
        });
    }
}
