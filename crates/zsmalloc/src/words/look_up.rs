//! Looking words up, and locking them: no lock is taken, and only a locked word waited for.

use super::directory::Entry;
use super::node::{Node, Spot};
use super::{Beside, Held, LEAF, Shared, Words, split};
use crate::Error;
use crate::readers::Inside;
use crate::sync::{Backoff, Ordering};
use crate::word::{Busy, Word};

/// A word where it was found: inside, or while it is locked.
#[derive(Debug)]
struct Found<'s, E: Beside> {
    entry: &'s Entry<E>,
    node: Node<'s, E>,
    spot: Spot<'s, E>,
}

impl<E: Beside> Words<E> {
    #[inline(always)]
    fn find<'s>(&'s self, inside: &'s Inside<'_>, index: u32) -> Option<Found<'s, E>> {
        let (leaf, key) = split(index);
        let entry = self.directory.get(leaf)?;
        let node = entry.chain.load(inside)?;
        Some(Found { entry, node, spot: node.find(key)? })
    }

    /// Locks word `index` for reading; `None` if there is none, or `admits` says no of what lies beside it:
    /// asked before the word is waited for, and again with the word locked.
    #[inline]
    pub(crate) fn lock_shared(
        &self,
        index: u32,
        admits: impl Fn(&E) -> bool,
    ) -> Option<Shared<'_, E>> {
        let attempt = || self.try_shared(index, &admits);
        attempt().unwrap_or_else(|busy| {
            let tally = |busy| {
                if busy == Busy::Exclusive {
                    self.read_waits.fetch_add(1, Ordering::Relaxed);
                }
            };
            persist(busy, tally, attempt)
        })
    }

    #[inline(always)]
    fn try_shared(
        &self,
        index: u32,
        admits: &impl Fn(&E) -> bool,
    ) -> Result<Option<Shared<'_, E>>, Busy> {
        let inside = self.readers.enter();
        match self.find(&inside, index).filter(|found| admits(found.spot.beside)) {
            Some(found) => {
                found.lock_shared(self).map(|word| Some(word).filter(|word| admits(word.beside())))
            }
            None => Ok(None),
        }
    }

    /// As [`lock_shared`](Self::lock_shared), for a change.
    #[inline]
    pub(crate) fn lock_exclusive(
        &self,
        index: u32,
        admits: impl Fn(&E) -> bool,
    ) -> Option<Held<'_, E>> {
        let attempt = || self.try_exclusive(index, &admits);
        let word = attempt().unwrap_or_else(|busy| persist(busy, |_| (), attempt));
        word.map(Held::wait_for_readers).filter(|word| admits(word.beside()))
    }

    /// Those who read the word are still to be waited for.
    #[inline(always)]
    fn try_exclusive(
        &self,
        index: u32,
        admits: &impl Fn(&E) -> bool,
    ) -> Result<Option<Held<'_, E>>, Busy> {
        let inside = self.readers.enter();
        match self.find(&inside, index).filter(|found| admits(found.spot.beside)) {
            Some(found) => found.lock_exclusive(self).map(Some),
            None => Ok(None),
        }
    }

    /// Locks word `index` for a change, made if there is none.
    pub(crate) fn lock_or_make(&self, index: u32) -> Result<Held<'_, E>, Error> {
        loop {
            match self.lock_exclusive(index, |_| true) {
                Some(word) => return Ok(word),
                None => self.make(index)?,
            }
        }
    }

    /// Locks word `index` for a change, made if there is none, if it is empty and no one has it locked.
    pub(crate) fn claim(&self, index: u32) -> Result<Option<Held<'_, E>>, Error> {
        loop {
            let inside = self.readers.enter();
            if let Some(found) = self.find(&inside, index) {
                return Ok(found.spot.claim(self));
            }
            drop(inside);
            self.make(index)?;
        }
    }

    /// Gives the object of word `index` the mark that `choose` says, of it and what lies beside the word, as
    /// [`Word::remark`] does; whether it has. Waits for nothing: a word that is locked is left.
    pub(crate) fn remark(&self, index: u32, choose: impl Fn(usize, u8, &E) -> u8) -> bool {
        loop {
            let inside = self.readers.enter();
            let Some(found) = self.find(&inside, index) else { return false };
            let beside = found.spot.beside;
            match found.spot.word.remark(|place| choose(place.len, place.mark, beside)) {
                Ok(done) => return done,
                Err(Busy::Frozen) => found.unless_frozen(Busy::Frozen),
                Err(_) => return false,
            }
        }
    }

    /// Looks at word `index`, if there is one, locked or not.
    pub(crate) fn with<R>(&self, index: u32, look: impl FnOnce(&Word, &E) -> R) -> Option<R> {
        let inside = self.readers.enter();
        self.find(&inside, index).map(|found| look(found.spot.word, found.spot.beside))
    }

    /// Looks at all words of a leaf.
    pub(crate) fn for_each_of(&self, leaf: u64, mut look: impl FnMut(u32, &Word, &E)) {
        let inside = self.readers.enter();
        let node = self.directory.get(leaf).and_then(|entry| entry.chain.load(&inside));
        let words = node.into_iter().flat_map(Node::words);
        words.for_each(|(key, spot)| {
            look((leaf * LEAF as u64) as u32 + key as u32, spot.word, spot.beside);
        });
    }

    /// Looks at all words.
    pub(crate) fn for_each(&self, mut look: impl FnMut(u32, &Word, &E)) {
        self.directory.from(0).for_each(|(leaf, _)| self.for_each_of(leaf, &mut look));
    }
}

impl<E: Beside> Found<'_, E> {
    /// Locks the word for reading, unless that would be to wait.
    #[inline(always)]
    fn lock_shared<'t>(&self, table: &'t Words<E>) -> Result<Shared<'t, E>, Busy> {
        self.spot.lock_shared(table).inspect_err(|&busy| self.unless_frozen(busy))
    }

    /// Locks the word for a change, unless that would be to wait; those who read it are still inside.
    fn lock_exclusive<'t>(&self, table: &'t Words<E>) -> Result<Held<'t, E>, Busy> {
        self.spot.lock_exclusive(table).inspect_err(|&busy| self.unless_frozen(busy))
    }

    /// Gives a conversion up that froze the word, unless it is done: then the word has gone elsewhere.
    #[cold]
    fn unless_frozen(&self, busy: Busy) {
        if busy == Busy::Frozen && self.entry.chain.give_up(self.node) {
            self.spot.word.thaw();
        }
    }
}

/// Waits and tries again, as long as the word is busy. `tally` is told what is waited for at first.
#[cold]
fn persist<T>(mut busy: Busy, tally: impl Fn(Busy), attempt: impl Fn() -> Result<T, Busy>) -> T {
    let mut backoff = Backoff::default();
    let mut waited = false;
    loop {
        // A word that was frozen was thawed, or has gone elsewhere: there is nothing to wait for.
        if busy != Busy::Frozen {
            if !waited {
                tally(busy);
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
