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
        match self.try_shared(index, &admits) {
            Ok(word) => word,
            Err(busy) => self.wait_shared(index, &admits, busy),
        }
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

    #[cold]
    fn wait_shared(
        &self,
        index: u32,
        admits: &impl Fn(&E) -> bool,
        mut busy: Busy,
    ) -> Option<Shared<'_, E>> {
        let mut waiting = Waiting::default();
        loop {
            if busy == Busy::Exclusive && waiting.is_first() {
                self.read_waits.fetch_add(1, Ordering::Relaxed);
            }
            waiting.wait(busy);
            match self.try_shared(index, admits) {
                Ok(word) => return word,
                Err(still) => busy = still,
            }
        }
    }

    /// As [`lock_shared`](Self::lock_shared), for a change.
    #[inline]
    pub(crate) fn lock_exclusive(
        &self,
        index: u32,
        admits: impl Fn(&E) -> bool,
    ) -> Option<Held<'_, E>> {
        let word = match self.try_exclusive(index, &admits) {
            Ok(word) => word,
            Err(busy) => self.wait_exclusive(index, &admits, busy),
        };
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

    #[cold]
    fn wait_exclusive(
        &self,
        index: u32,
        admits: &impl Fn(&E) -> bool,
        mut busy: Busy,
    ) -> Option<Held<'_, E>> {
        let mut waiting = Waiting::default();
        loop {
            waiting.wait(busy);
            match self.try_exclusive(index, admits) {
                Ok(word) => return word,
                Err(still) => busy = still,
            }
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

/// One who waits for a word.
#[derive(Default)]
struct Waiting {
    backoff: Backoff,
    waited: bool,
}

impl Waiting {
    fn is_first(&self) -> bool {
        !self.waited
    }

    /// Waits, but for a word that was frozen, which was thawed or has gone elsewhere.
    fn wait(&mut self, busy: Busy) {
        if busy != Busy::Frozen {
            self.waited = true;
            self.backoff.wait();
        }
    }
}
