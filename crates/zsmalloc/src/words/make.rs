//! Making words: they go to a chain's last node, or to a new one behind it. Nothing is converted for it, but
//! once there is a wide node, the packed ones before it are only in the way, and go if they can at once.

use super::kind::{CROWD, Kind, LEAF, LEAVES, Level};
use super::link::Chain;
use super::node::Node;
use super::nodes::Fresh;
use super::{Beside, Making, Words, split};
use crate::Error;
use crate::readers::Inside;
use crate::word::Value;

impl<E: Beside> Words<E> {
    /// Makes word `index`, if there is none.
    #[cold]
    pub(super) fn make(&self, index: u32) -> Result<(), Error> {
        let unsettled = self.make_one(index)?;
        unsettled.into_iter().for_each(|level| self.settle(split(index).0, level));
        Ok(())
    }

    /// The same; what is now to be settled.
    fn make_one(&self, index: u32) -> Result<Option<Level>, Error> {
        let mut making = self.making.lock();
        let (stem, key) = split(index);
        let (supply, seed) = (self.nodes.supply(), self.seed);
        self.leaves.get_or_make(index as u64 / LEAF as u64, supply, || E::leaf(seed))?;
        let chain = self.stems.get_or_make(stem, supply, Chain::new)?;
        let inside = self.readers.enter();
        if chain.load(&inside).and_then(|node| node.find(key)).is_some() {
            return Ok(None);
        }
        let room = making.room;
        self.make_in(&mut making, &inside, chain, Level::Stem, index)?;
        let has_grown = making.room > room;
        Ok(has_grown.then(|| self.unsettled(&inside, chain, key)).flatten())
    }

    /// Where there are packed nodes before a wide one, on the way to a word.
    fn unsettled(&self, inside: &Inside<'_>, chain: &Chain<E>, key: u16) -> Option<Level> {
        let stem = chain.load(inside)?;
        let branch = stem.branch()?;
        if stem.is_chain() {
            return Some(Level::Stem);
        }
        let nth = key as usize / LEAF;
        let leaf = branch.leaf(nth).load(inside)?;
        (leaf.is_chain() && leaf.wide().is_some()).then_some(Level::Leaf(nth))
    }

    /// Makes word `index`, which there is not in that chain. The first node is packed, unless words are made in
    /// order, and so are those behind it until there are many.
    pub(super) fn make_in(
        &self,
        making: &mut Making,
        inside: &Inside<'_>,
        chain: &Chain<E>,
        level: Level,
        index: u32,
    ) -> Result<(), Error> {
        let (stem, key) = split(index);
        let leaf = self.leaf_of(stem, key);
        let Some(first) = chain.load(inside) else {
            let wide = self.is_filled(inside, index);
            let kind = if wide { level.wide() } else { Kind::first() };
            let node = self.make_node(making, inside, kind, index)?;
            chain.publish(&mut making.retired, node);
            return Ok(());
        };
        if let Some(branch) = first.branch() {
            let nth = key as usize / LEAF;
            return self.make_in(making, inside, branch.leaf(nth), Level::Leaf(nth), index);
        }
        let Some(last) = first.parts().last() else { return Ok(()) };
        if last.push(&mut making.retired, key, E::fresh(leaf)) {
            return Ok(());
        }
        let kind = level.behind(first.parts().map(|part| part.kind().capacity()).sum());
        let node = self.make_node(making, inside, kind, index)?;
        last.append(&mut making.retired, node);
        making.pass.made_behind(kind);
        Ok(())
    }

    /// A node with word `index`.
    fn make_node(
        &self,
        making: &mut Making,
        inside: &Inside<'_>,
        kind: Kind,
        index: u32,
    ) -> Result<Fresh<E>, Error> {
        let (stem, key) = split(index);
        let leaf = self.leaf_of(stem, key);
        let mut fresh = self.nodes.make(kind, leaf)?;
        if kind.is_branch() {
            let nth = key as usize / LEAF;
            let chain = fresh.node().leaf(nth);
            let made = self.make_in(making, inside, chain, Level::Leaf(nth), index);
            if let Err(error) = made {
                self.nodes.discard(fresh);
                return Err(error);
            }
        } else {
            fresh.put(key, Value::EMPTY, E::fresh(leaf));
            making.room += kind.capacity();
            making.pass.made(kind);
        }
        Ok(fresh)
    }

    /// Whether the leaf of word `index` is being filled: the one below has a dense node, which is how tables are
    /// filled, or some of its words are in packed nodes of the stem.
    fn is_filled(&self, inside: &Inside<'_>, index: u32) -> bool {
        let first = |leaf: u64| {
            let node = self.stems.get(leaf / LEAVES as u64)?.load(inside)?;
            Some((node, (leaf % LEAVES as u64) as usize))
        };
        let nth = index as u64 / LEAF as u64;
        let is_dense = |(stem, leaf): (Node<'_, E>, usize)| {
            let node = stem.branch().and_then(|branch| branch.leaf(leaf).load(inside));
            node.and_then(Node::wide).is_some()
        };
        let has_crowd = |(stem, leaf): (Node<'_, E>, usize)| stem.hidden(leaf).count() >= CROWD;
        nth.checked_sub(1).and_then(first).is_some_and(is_dense)
            || first(nth).is_some_and(has_crowd)
    }
}
