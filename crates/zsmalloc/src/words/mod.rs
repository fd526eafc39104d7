//! The table of words: its memory follows what it holds.
//!
//! ```text
//!   directory: | link | link | link | ...          an entry per leaf of 512 words
//!                 0      |      '--> dense: 512 words, one page
//!              absent    '--> packed: 8 to 96 words with their keys --> dense, once it is full
//! ```
//! A leaf without words has no node, one with a few a packed node in which a key is looked up, one with many
//! a dense node. Words are made as they are asked for; `tidy` converts the leaves that have changed.
//!
//! A conversion is all or nothing, and whoever meets it gives it up:
//!
//! ```text
//!   link: node --begin--> node + converting --all words frozen, copied to a new node--commit--> new node
//!           ^------- give up: a word is locked, or someone wants one that is frozen -----|  (no way back)
//! ```
//! Between begin and commit every word of the old node is frozen by compare-and-swap from its unlocked state.
//! Who finds a frozen word looks at the link: converting, he gives the conversion up by the same
//! compare-and-swap that would have committed it; given up, he thaws the word; another node, he goes there.
//! So no one waits for a conversion (I3), and a conversion waits for no one: a leaf of which a word is locked
//! stays as it is until a later pass.
//!
//! Invariants, beside those of [`node`] and [`readers`](crate::readers). T1: every word that is not empty is
//! in its leaf's nodes, once. T2: the word found is the one in force, unless it is frozen: for a node is
//! replaced only when all its words are. T3: after a conversion was begun, no other of that leaf is before all
//! who were inside have left: so who thaws a word thaws it for the conversion that he saw given up. T4: one
//! thread tidies.
//!
//! Locks: `making`, under which words are made and leaves converted; under it the slab caches', the space's.
//! Looking up and locking a word takes none, and no one waits while inside the readers (R3).

mod convert;
mod directory;
mod held;
#[cfg(test)]
mod helpers;
mod kind;
mod look_up;
#[cfg(all(test, loom))]
mod loom_tests;
mod node;
mod retired;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::Error;
use crate::readers::Readers;
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::word::Value;
use directory::Directory;
use kind::Kind;
use node::{Node, Nodes};
use retired::Retired;
use slab::packed::Arena;
use std::fmt::Debug;
use std::sync::Arc;

pub(crate) use held::{Held, Shared};
pub(crate) use kind::LEAF;

/// What lies beside each word of a table: nothing, a time, or a cell's generation.
pub trait Beside: Debug + Send + Sync + Sized {
    /// What is kept per leaf, also of one without words.
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

    /// The words go from the table, which are all empty.
    fn dropped<'s>(_leaf: &Self::Leaf, _gone: impl Iterator<Item = &'s Self>)
    where
        Self: 's,
    {
    }

    /// The word was made empty, and is locked still.
    fn emptied(&self) {}
}

impl Beside for () {
    type Leaf = ();
    type Seed = ();

    fn leaf(_seed: ()) {}

    fn fresh(_leaf: &()) {}

    fn moved(&self) {}
}

/// A table of words.
#[derive(Debug)]
pub(crate) struct Words<E: Beside> {
    directory: Directory<E>,
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
    pass: convert::Last,
}

fn split(index: u32) -> (u64, u16) {
    (index as u64 / LEAF as u64, (index as u64 % LEAF as u64) as u16)
}

impl<E: Beside> Words<E> {
    /// A table without words. They will lie in `arena`.
    pub(crate) fn new(arena: &Arc<Arena>, seed: E::Seed) -> Result<Self, Error> {
        Ok(Words {
            directory: Directory::new(),
            nodes: Nodes::new(arena)?,
            readers: Readers::new(),
            making: Mutex::default(),
            read_waits: AtomicU64::new(0),
            seed,
        })
    }

    /// What is kept of a leaf, once a word of it or of one nearby was made.
    pub(crate) fn leaf(&self, leaf: u64) -> Option<&E::Leaf> {
        self.directory.get(leaf).map(|entry| &entry.leaf)
    }

    /// All leaves there is something kept of.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = (u64, &E::Leaf)> {
        self.directory.from(0).map(|(leaf, entry)| (leaf, &entry.leaf))
    }

    /// The first word from `index` on that may hold something: those passed over were never made, or are gone.
    pub(crate) fn first_made(&self, index: u64) -> Option<u64> {
        let leaf = self.directory.first_made(index / LEAF as u64)?;
        Some(index.max(leaf * LEAF as u64))
    }

    /// Makes word `index`, if there is none. A leaf's first words are packed, unless the leaf before it is
    /// dense, which is how tables are filled; what does not fit goes to a dense node behind.
    #[cold]
    fn make(&self, index: u32) -> Result<(), Error> {
        let (leaf, key) = split(index);
        let mut guard = self.making.lock();
        let making = &mut *guard;
        let entry = self.directory.get_or_make(leaf, self.seed, self.nodes.supply())?;
        let inside = self.readers.enter();
        let made = |kind| self.nodes.make(kind, &entry.leaf);
        let kind = match entry.chain.load(&inside) {
            Some(node) => {
                let fresh = || E::fresh(&entry.leaf);
                if node.find(key).is_some() || node.push(&mut making.retired, key, fresh()) {
                    return Ok(());
                }
                node.append(&mut making.retired, made(Kind::DENSE)?);
                Kind::DENSE
            }
            None => {
                let below = leaf.checked_sub(1).and_then(|below| self.directory.get(below));
                let below = below.and_then(|entry| entry.chain.load(&inside));
                let dense = below.is_some_and(Node::has_dense);
                let kind = if dense { Kind::DENSE } else { Kind::SMALLEST };
                let mut node = made(kind)?;
                node.put(key, Value::EMPTY, E::fresh(&entry.leaf));
                entry.chain.publish(&mut making.retired, node);
                kind
            }
        };
        making.room += kind.capacity();
        making.pass.made(kind);
        Ok(())
    }

    /// Reads that had to wait because another had the word exclusively.
    pub(crate) fn read_waits(&self) -> u64 {
        self.read_waits.load(Ordering::Relaxed)
    }

    /// Bytes of the arena that nodes take.
    #[cfg(all(test, not(loom)))]
    fn node_bytes(&self) -> usize {
        let mut bytes = 0;
        let inside = self.readers.enter();
        for (_, entry) in self.directory.from(0) {
            let kinds = entry.chain.load(&inside).into_iter().flat_map(Node::kinds);
            bytes += kinds.map(|kind| self.nodes.bytes(kind)).sum::<usize>();
        }
        bytes
    }

    /// Bytes of the pages that nodes take.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn page_bytes(&self) -> usize {
        self.nodes.page_bytes()
    }

    /// Bytes outside the arena.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Readers>() + self.directory.bytes()
    }

    /// Holds the table still over a fork: no word is being made, no leaf converted.
    pub(crate) fn hold(&self) {
        self.making.hold();
        self.nodes.hold();
    }

    pub(crate) fn let_go(&self) {
        self.nodes.let_go();
        self.making.let_go();
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
        let inside = self.readers.enter();
        let nodes = || self.directory.from(0).filter_map(|(_, entry)| entry.chain.load(&inside));
        self.nodes.check(nodes().flat_map(Node::kinds));
        let room: usize = nodes().flat_map(Node::kinds).map(Kind::capacity).sum();
        assert_eq!(room, self.making.lock().room, "words the nodes have room for");
        nodes().for_each(Node::check);
        self.for_each(|index, word, _| {
            assert!(!word.is_frozen(), "word {index} is frozen, and no leaf is being converted");
        });
    }
}
