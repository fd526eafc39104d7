//! Conversion: leaves are given the nodes that suit the words they have.
//!
//! See the drawing of [`super`]. All of it but the waiting for readers is under the table's lock, so that no
//! word is made meanwhile.

use super::directory::Entry;
use super::kind::{Kind, LEAF};
use super::node::{Fresh, Node, Spot};
use super::{Beside, Making, Words};
use crate::word::Value;

/// A pass goes over the leaves when this part of the words there is room for became empty since the last.
const CHANGED_SHARE: u64 = 16;
/// What a dense node counts that was made, in words: filling a table makes it due when it has doubled.
const MADE: u64 = LEAF as u64 / 8;

/// What is known of the last pass.
#[derive(Debug, Default)]
pub(super) struct Last {
    /// Whether a pass is under way (T4).
    tidying: bool,
    /// The leaf at which the last was stopped.
    next: u64,
    /// Words that had become empty when the last began that was not stopped.
    tallied: u64,
    /// What else there may be to do, in words.
    owed: u64,
}

impl Last {
    /// Notes that a node was made.
    pub(super) fn made(&mut self, kind: Kind) {
        self.owed += if kind.is_dense() { MADE } else { 0 };
    }

    /// Makes a pass due.
    #[cfg(test)]
    pub(super) fn owe(&mut self, words: usize) {
        self.owed += words as u64 + 1;
    }

    /// Forgets the pass of a thread that a child lost.
    pub(super) fn forget_lost(&mut self) {
        self.tidying = false;
    }
}

/// A pass over all leaves.
struct Pass {
    next: u64,
    tallied: u64,
    owed: u64,
    /// Leaves left alone because a word of theirs was locked.
    busy: u64,
    freed: usize,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Going,
    Stopped,
    Done,
}

/// What became of a leaf.
enum Outcome {
    /// It is as it should be.
    Left,
    /// It would be worth it, but a word is locked or there is no memory.
    Busy,
    /// A conversion was begun and given up.
    GivenUp,
    /// So many bytes of nodes went.
    Converted(usize),
}

impl<E: Beside> Words<E> {
    /// Converts the leaves that are worth it, if enough has changed since the last time; bytes given back.
    /// `go_on` is asked before each leaf. Does nothing while another thread tidies.
    pub(crate) fn tidy(&self, go_on: &mut dyn FnMut() -> bool) -> usize {
        let Some(mut pass) = self.begin_pass() else { return 0 };
        while pass.state == State::Going {
            if self.convert_some(&mut pass, go_on) {
                // Before a leaf is tried again, or memory is used again, whoever was inside is to have left.
                self.nodes.free_retired(&self.readers, &self.making);
            }
        }
        if pass.freed > 0 {
            self.nodes.shrink();
        }
        self.end_pass(&pass);
        pass.freed
    }

    fn begin_pass(&self) -> Option<Pass> {
        let mut making = self.making.lock();
        // Under the lock: no less than what another pass saw.
        let tallied = self.readers.tallied();
        let room = making.room as u64;
        let last = &mut making.pass;
        let changed = tallied - last.tallied + last.owed;
        if last.tidying || changed == 0 || changed * CHANGED_SHARE < room {
            return None;
        }
        last.tidying = true;
        let (next, owed) = (last.next, last.owed);
        Some(Pass { next, tallied, owed, busy: 0, freed: 0, state: State::Going })
    }

    fn end_pass(&self, pass: &Pass) {
        let last = &mut self.making.lock().pass;
        last.tidying = false;
        if pass.state == State::Done {
            last.next = 0;
            last.tallied = pass.tallied;
            last.owed = last.owed - pass.owed + pass.busy * LEAF as u64;
        } else {
            last.next = pass.next;
        }
    }

    /// Converts leaves until the pass is over or nodes are to be given back; whether it began to.
    fn convert_some(&self, pass: &mut Pass, go_on: &mut dyn FnMut() -> bool) -> bool {
        let mut begun = false;
        loop {
            let Some(leaf) = self.directory.first_made(pass.next) else {
                pass.state = State::Done;
                return begun;
            };
            if !go_on() {
                pass.state = State::Stopped;
                return begun;
            }
            pass.next = leaf + 1;
            let mut making = self.making.lock();
            match self.convert(&mut making, leaf) {
                Outcome::Left => {}
                Outcome::Busy => pass.busy += 1,
                Outcome::GivenUp => {
                    begun = true;
                    pass.busy += 1;
                }
                Outcome::Converted(bytes) => {
                    begun = true;
                    pass.freed += bytes;
                }
            }
            if !making.retired.has_room() {
                return begun;
            }
        }
    }

    /// Gives a leaf the node that suits its words, or none if they are all empty.
    fn convert(&self, making: &mut Making, leaf: u64) -> Outcome {
        let inside = self.readers.enter();
        let Some(entry) = self.directory.get(leaf) else { return Outcome::Left };
        let Some(node) = entry.chain.load(&inside) else { return Outcome::Left };
        let (kept, locked) = count(entry, node);
        let kind = (kept > 0).then(|| Kind::for_words(kept));
        let is_worth_it = self.is_worth_it(node, kind);
        if locked {
            return if is_worth_it { Outcome::Busy } else { Outcome::Left };
        }
        let fresh = match kind {
            None => None,
            Some(kind) if is_worth_it => match self.nodes.make(kind, &entry.leaf) {
                Ok(fresh) => Some(fresh),
                Err(_) => return Outcome::Busy,
            },
            Some(_) => match self.nodes.make_below(node, &entry.leaf) {
                Some(fresh) => Some(fresh),
                None => return Outcome::Left,
            },
        };
        let before = self.size(node);
        let after = fresh.as_ref().map_or(0, |fresh| self.nodes.bytes(fresh.kind()));
        match self.replace(making, entry, node, fresh) {
            Ok(()) => Outcome::Converted(before - after),
            Err(fresh) => {
                fresh.into_iter().for_each(|fresh| self.nodes.discard(fresh));
                Outcome::GivenUp
            }
        }
    }

    /// Replaces the nodes of a leaf, unless someone uses a word of it meanwhile; then `fresh` comes back.
    fn replace(
        &self,
        making: &mut Making,
        entry: &Entry<E>,
        node: Node<'_, E>,
        mut fresh: Option<Fresh<E>>,
    ) -> Result<(), Option<Fresh<E>>> {
        let before: usize = node.kinds().map(Kind::capacity).sum();
        let after = fresh.as_ref().map_or(0, |fresh| fresh.kind().capacity());
        entry.chain.begin(&mut making.retired, node);
        let copied = freeze(node) && copy(entry, node, fresh.as_mut());
        let replaced =
            if copied { entry.chain.commit(&mut making.retired, node, fresh) } else { Err(fresh) };
        if replaced.is_ok() {
            making.room = making.room - before + after;
        } else {
            entry.chain.give_up(node);
            node.words().for_each(|(_, spot)| spot.word.thaw());
        }
        replaced
    }

    /// Whether a node of `kind` would be enough smaller than those there are, or one instead of two.
    fn is_worth_it(&self, node: Node<'_, E>, kind: Option<Kind>) -> bool {
        let wanted = kind.map_or(0, |kind| self.nodes.bytes(kind));
        node.is_chain() || wanted * 4 <= self.size(node) * 3
    }

    /// Bytes of a node and the one behind it.
    fn size(&self, node: Node<'_, E>) -> usize {
        node.kinds().map(|kind| self.nodes.bytes(kind)).sum()
    }
}

/// Whether a word is to stay in the table.
fn is_kept<E: Beside>(entry: &Entry<E>, spot: &Spot<'_, E>) -> bool {
    spot.word.peek() != Value::EMPTY || spot.beside.stays(&entry.leaf)
}

/// The words of a leaf that are to stay, and whether one of the leaf's is locked.
fn count<E: Beside>(entry: &Entry<E>, node: Node<'_, E>) -> (usize, bool) {
    node.words().fold((0, false), |(kept, locked), (_, spot)| {
        (kept + usize::from(is_kept(entry, &spot)), locked || spot.word.is_locked())
    })
}

/// Freezes all words; false if one is locked.
fn freeze<E: Beside>(node: Node<'_, E>) -> bool {
    node.words().all(|(_, spot)| spot.word.freeze())
}

/// Copies the words that are to stay; false if there are more than were counted. What a word says that was
/// thawed meanwhile does not matter: then nothing is committed.
fn copy<E: Beside>(entry: &Entry<E>, node: Node<'_, E>, mut fresh: Option<&mut Fresh<E>>) -> bool {
    // A dense node has them all anyway.
    let all = fresh.as_ref().is_some_and(|fresh| fresh.kind().is_dense());
    let stays = |spot: &Spot<'_, E>| all || is_kept(entry, spot);
    let gone = node.words().filter(|(_, spot)| !stays(spot));
    E::dropped(&entry.leaf, gone.map(|(_, spot)| spot.beside));
    node.words().filter(|(_, spot)| stays(spot)).all(|(key, spot)| {
        let to = fresh.as_mut();
        to.is_some_and(|fresh| fresh.put(key, spot.word.peek(), spot.beside.moved()))
    })
}
