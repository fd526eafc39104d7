//! Conversion: leaves and stems are given the nodes that suit the words they have.
//!
//! See the drawing of [`super`]. All of it but the waiting for readers is under the table's lock, so that no
//! word is made meanwhile.

use super::kind::{FEW, Kind, LEAF, Level, PACKED_MAX, STEM};
use super::link::Chain;
use super::node::Node;
use super::nodes::Fresh;
use super::retired::Behind;
use super::spot::Spot;
use super::{Beside, Making, Words};
use crate::readers::Inside;
use crate::word::Value;

/// What became of a chain.
pub(super) enum Outcome {
    /// It is as it should be.
    Left,
    /// It would be worth it, but a word is locked or there is no memory.
    Busy,
    /// A conversion was begun and given up.
    GivenUp,
    /// So many bytes of nodes went.
    Converted(usize),
    /// The same, and its words are among those of leaves now.
    Absorbed(usize),
}

/// A chain that may be converted.
#[derive(Clone, Copy)]
struct Subject<'s, E: Beside> {
    stem: u64,
    level: Level,
    chain: &'s Chain<E>,
    first: Node<'s, E>,
    inside: &'s Inside<'s>,
}

impl<E: Beside> Words<E> {
    /// Gives a leaf or a stem the node that suits its words and `more`, or none if there are none but empty ones.
    pub(super) fn convert(
        &self,
        making: &mut Making,
        stem: u64,
        level: Level,
        more: usize,
    ) -> Outcome {
        let inside = &self.readers.enter();
        let chain = self.stems.get(stem).and_then(|chain| match level {
            Level::Stem => Some(chain),
            Level::Leaf(leaf) => Some(chain.load(inside)?.branch()?.leaf(leaf)),
        });
        let Some(chain) = chain else { return Outcome::Left };
        let Some(first) = chain.load(inside) else { return Outcome::Left };
        let subject = Subject { stem, level, chain, first, inside };
        let most = match level {
            Level::Leaf(_) => LEAF,
            Level::Stem if first.branch().is_some() => FEW,
            Level::Stem => PACKED_MAX,
        };
        let (kept, locked) = self.count(&subject, most);
        let kept = kept + more;
        if kept > most {
            return self.absorb(making, &subject);
        }
        let kind = match level {
            Level::Leaf(_) => Kind::for_leaf(kept),
            Level::Stem => Kind::packed(kept),
        };
        self.resize(making, &subject, (kept > 0).then_some(kind), locked)
    }

    /// Words of a chain that are to stay, counted until there are more than `most`; and whether one is locked.
    fn count(&self, subject: &Subject<'_, E>, most: usize) -> (usize, bool) {
        let (mut kept, mut locked) = (0, false);
        subject.first.all(subject.level, |key, spot| {
            kept += usize::from(self.is_kept(subject.stem, key, &spot));
            locked |= spot.word.is_locked();
            kept <= most
        });
        (kept, locked)
    }

    /// Whether a word is to stay in the table.
    fn is_kept(&self, stem: u64, key: u16, spot: &Spot<'_, E>) -> bool {
        spot.word.peek() != Value::EMPTY || spot.beside.stays(self.leaf_of(stem, key))
    }

    /// Replaces a chain by a node of that kind, if it is worth it, or by one in a lower place.
    fn resize(
        &self,
        making: &mut Making,
        subject: &Subject<'_, E>,
        kind: Option<Kind>,
        locked: bool,
    ) -> Outcome {
        let Subject { stem, level, first, .. } = *subject;
        let (before, _) = self.size(first);
        let is_worth_it =
            first.is_chain() || kind.map_or(0, |kind| self.nodes.bytes(kind)) * 4 <= before * 3;
        if locked {
            return if is_worth_it { Outcome::Busy } else { Outcome::Left };
        }
        // A dense node's own; others need none, and there is that of any word.
        let key = match level {
            Level::Leaf(leaf) => leaf * LEAF,
            Level::Stem => first.first_made(0).unwrap_or(0),
        };
        let leaf = || self.leaf_of(stem, key as u16);
        let fresh = match kind {
            None => None,
            Some(kind) if is_worth_it => match self.nodes.make(kind, leaf()) {
                Ok(fresh) => Some(fresh),
                Err(_) => return Outcome::Busy,
            },
            Some(_) if first.kind().is_branch() => return Outcome::Left,
            Some(_) => match self.nodes.make_below(first, leaf()) {
                Some(fresh) => Some(fresh),
                None => return Outcome::Left,
            },
        };
        let after = fresh.as_ref().map_or(0, |fresh| self.nodes.bytes(fresh.kind()));
        match self.replace(making, subject, fresh) {
            Ok(()) => Outcome::Converted(before.saturating_sub(after)),
            Err(fresh) => {
                fresh.into_iter().for_each(|fresh| self.nodes.discard(fresh));
                Outcome::GivenUp
            }
        }
    }

    /// Replaces the nodes of a chain, unless someone uses a word there meanwhile; then `fresh` comes back.
    fn replace(
        &self,
        making: &mut Making,
        subject: &Subject<'_, E>,
        mut fresh: Option<Fresh<E>>,
    ) -> Result<(), Option<Fresh<E>>> {
        let Subject { level, chain, first, .. } = *subject;
        let (_, before) = self.size(first);
        let after = fresh.as_ref().map_or(0, |fresh| fresh.kind().capacity());
        chain.begin(&mut making.retired, first.link());
        let to = |fresh: &Option<Fresh<E>>| fresh.as_ref().map(Fresh::link);
        let replaced = first.all(level, |_, spot| spot.word.freeze())
            && self.copy(subject, &mut fresh)
            && chain.commit(&mut making.retired, first.link(), to(&fresh), Behind::Goes);
        if replaced {
            making.room = making.room - before + after;
            return Ok(());
        }
        chain.give_up();
        first.all(level, |_, spot| {
            spot.word.thaw();
            true
        });
        Err(fresh)
    }

    /// Copies the words that are to stay; false if there are more than were counted. What a word says that was
    /// thawed meanwhile does not matter: then nothing is committed.
    fn copy(&self, subject: &Subject<'_, E>, fresh: &mut Option<Fresh<E>>) -> bool {
        let Subject { stem, level, first, .. } = *subject;
        // A dense node has them all anyway.
        let all = fresh.as_ref().is_some_and(|fresh| fresh.kind().is_dense());
        let copied = first.all(level, |key, spot| {
            let put = |fresh: &mut Fresh<E>| fresh.put(key, spot.word.peek(), spot.beside.moved());
            let stays = all || self.is_kept(stem, key, &spot);
            !stays || fresh.as_mut().is_some_and(put)
        });
        if copied && !all && keeps_leaves::<E>() {
            // Not before all are copied: this may change which are to stay.
            let fresh = fresh.as_ref().map(Fresh::node);
            first.all(level, |key, spot| {
                if fresh.is_none_or(|fresh| fresh.find(key).is_none()) {
                    E::dropped(self.leaf_of(stem, key), spot.beside);
                }
                true
            });
        }
        copied
    }

    /// Moves the words of a stem's packed nodes behind the branch that they hide, if there is one.
    fn absorb(&self, making: &mut Making, subject: &Subject<'_, E>) -> Outcome {
        let Subject { stem, chain, first, inside, .. } = *subject;
        let Some(branch) = first.branch().filter(|_| first.is_chain()) else {
            return Outcome::Left;
        };
        if !first.all_packed(|_, spot| !spot.word.is_locked()) {
            return Outcome::Busy;
        }
        let has_place = first.all_packed(|key, spot| {
            let leaf = key as usize / LEAF;
            let index = (stem * STEM as u64) as u32 + key as u32;
            let mut make =
                || self.make_in(making, inside, branch.leaf(leaf), Level::Leaf(leaf), index);
            !self.is_kept(stem, key, &spot) || branch.find(key).is_some() || make().is_ok()
        });
        if !has_place {
            return Outcome::Busy;
        }
        chain.begin(&mut making.retired, first.link());
        let moved = first.all_packed(|_, spot| spot.word.freeze())
            && self.uncover(subject, branch)
            && chain.commit(&mut making.retired, first.link(), Some(branch.link()), Behind::Stays);
        if moved {
            let packed = || first.parts().map(|part| part.kind()).filter(|kind| kind.is_packed());
            making.room -= packed().map(Kind::capacity).sum::<usize>();
            return Outcome::Absorbed(packed().map(|kind| self.nodes.bytes(kind)).sum());
        }
        chain.give_up();
        first.all_packed(|key, spot| {
            if let Some(hidden) = branch.find(key) {
                hidden.beside.take(&E::fresh(self.leaf_of(stem, key)));
                hidden.word.swing(hidden.word.peek(), Value::EMPTY);
            }
            spot.word.thaw();
            true
        });
        Outcome::GivenUp
    }

    /// Gives the hidden words what those say that hide them; false if one has to have a place, and none.
    fn uncover(&self, subject: &Subject<'_, E>, branch: Node<'_, E>) -> bool {
        let Subject { stem, first, .. } = *subject;
        let moved = first.all_packed(|key, spot| match branch.find(key) {
            Some(hidden) => {
                hidden.beside.take(spot.beside);
                hidden.word.swing(Value::EMPTY, spot.word.peek())
            }
            None => !self.is_kept(stem, key, &spot),
        });
        if moved && keeps_leaves::<E>() {
            first.all_packed(|key, spot| {
                if branch.find(key).is_none() {
                    E::dropped(self.leaf_of(stem, key), spot.beside);
                }
                true
            });
        }
        moved
    }

    /// Bytes of all nodes from `node` on, and the words they have room for.
    fn size(&self, node: Node<'_, E>) -> (usize, usize) {
        let (mut bytes, mut room) = (0, 0);
        node.each(|kind| {
            bytes += self.nodes.bytes(kind);
            room += kind.capacity();
        });
        (bytes, room)
    }
}

/// Whether it matters which words go.
const fn keeps_leaves<E: Beside>() -> bool {
    size_of::<E::Leaf>() > 0
}
