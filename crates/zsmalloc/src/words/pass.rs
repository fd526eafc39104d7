//! Passes: all leaves and stems are looked at in turn, if enough has changed.

use super::convert::Outcome;
use super::kind::{Kind, LEAF, LEAVES, Level};
use super::{Beside, Words};

/// A pass goes over the table when this part of the words there is room for became empty since the last.
const CHANGED_SHARE: u64 = 16;
/// What making a node for many words counts, in words: filling a table makes a pass due when it has doubled.
const MADE_SHARE: usize = 8;
/// Steps of a stem: its leaves, and then it as a whole.
const STEPS: u64 = LEAVES as u64 + 1;

/// What is known of the last pass.
#[derive(Debug, Default)]
pub(super) struct Last {
    /// Whether a pass is under way (zs-T4).
    tidying: bool,
    /// The step at which the last was stopped.
    next: u64,
    /// Words that had become empty when the last began that was not stopped.
    tallied: u64,
    /// What else there may be to do, in words.
    owed: u64,
}

impl Last {
    /// Notes that a node was made.
    pub(super) fn made(&mut self, kind: Kind) {
        self.owed += if kind.is_dense() { (LEAF / MADE_SHARE) as u64 } else { 0 };
    }

    /// Notes that a node was put behind others, to be joined with them.
    pub(super) fn made_behind(&mut self, kind: Kind) {
        self.owed += (kind.capacity() / MADE_SHARE).max(1) as u64;
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

/// A pass over the table.
struct Pass {
    /// The next step: so many of each stem.
    next: u64,
    tallied: u64,
    owed: u64,
    /// Chains left alone because a word of theirs was locked.
    busy: u64,
    freed: usize,
    state: State,
}

/// That a thread tidies, which is this one: no longer, if it panics, in code of others. Dropped with no lock held.
struct Tidying<'w, E: Beside>(&'w Words<E>);

impl<E: Beside> Drop for Tidying<'_, E> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // As before any other conversion (zs-T3).
            self.0.nodes.free_retired(&self.0.readers, &self.0.making);
            self.0.making.lock().pass.tidying = false;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Going,
    Stopped,
    Done,
}

impl<E: Beside> Words<E> {
    /// Converts leaves and stems that are worth it, if enough has changed since the last time; bytes given back.
    /// `go_on` is asked before each. Does nothing while another thread tidies.
    pub(crate) fn tidy(&self, go_on: &mut dyn FnMut() -> bool) -> usize {
        let Some(mut pass) = self.begin_pass() else { return 0 };
        let _tidying = Tidying(self);
        while pass.state == State::Going {
            if self.convert_some(&mut pass, go_on) {
                // Before words are frozen again, or memory is used again, whoever was inside is to have left.
                self.nodes.free_retired(&self.readers, &self.making);
            }
        }
        if pass.freed > 0 {
            self.nodes.shrink();
        }
        self.end_pass(&pass);
        pass.freed
    }

    /// Converts one chain, if no thread tidies and no word there is locked; else it is left to a pass.
    pub(super) fn settle(&self, stem: u64, level: Level) {
        // The first, so that it ends after the lock.
        let _tidying;
        let mut making = self.making.lock();
        if std::mem::replace(&mut making.pass.tidying, true) {
            return;
        }
        _tidying = Tidying(self);
        // One word was just made, and is to find room again if it goes because it is empty.
        self.convert(&mut making, stem, level, 1);
        drop(making);
        self.nodes.free_retired(&self.readers, &self.making);
        self.making.lock().pass.tidying = false;
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

    /// Converts chains until the pass is over or readers are to be waited for; whether it began to.
    fn convert_some(&self, pass: &mut Pass, go_on: &mut dyn FnMut() -> bool) -> bool {
        let (mut begun, mut leaves_begun) = (false, false);
        loop {
            let Some((step, stem, level)) = self.next_step(pass.next) else {
                pass.state = State::Done;
                return begun;
            };
            if level == Level::Stem && leaves_begun {
                // Its leaves may have been among them (zs-T3).
                return begun;
            }
            if !go_on() {
                pass.state = State::Stopped;
                return begun;
            }
            pass.next = step + 1;
            let mut making = self.making.lock();
            let outcome = self.convert(&mut making, stem, level, 0);
            let was_begun = matches!(outcome, Outcome::GivenUp | Outcome::Converted(_));
            begun |= was_begun;
            leaves_begun |= was_begun && level != Level::Stem;
            match outcome {
                Outcome::Left => {}
                Outcome::Busy | Outcome::GivenUp => pass.busy += 1,
                Outcome::Converted(bytes) => pass.freed += bytes,
                Outcome::Absorbed(bytes) => {
                    pass.freed += bytes;
                    pass.next = stem * STEPS;
                    return true;
                }
            }
            if !making.retired.has_room() {
                return begun;
            }
        }
    }

    /// The first step from `next` on where there are nodes: its number, and what it is of. Leaves are left until
    /// all their words are behind the branch.
    fn next_step(&self, next: u64) -> Option<(u64, u64, Level)> {
        let (first, done) = (next / STEPS, next % STEPS);
        let mut made = self.stems.from(first).filter(|(_, chain)| chain.is_made());
        let (stem, chain) = made.next()?;
        let done = if stem == first { done as usize } else { 0 };
        let inside = self.readers.enter();
        let branch = chain.load(&inside).filter(|node| node.kind().is_branch());
        let is_made = |leaf: &usize| branch.is_some_and(|branch| branch.leaf(*leaf).is_made());
        let (nth, level) = match (done..LEAVES).find(is_made) {
            Some(leaf) => (leaf, Level::Leaf(leaf)),
            None => (LEAVES, Level::Stem),
        };
        Some((stem * STEPS + nth as u64, stem, level))
    }
}
