//! Looking words up, and locking them: no lock is taken, and only a locked word waited for.

use super::kind::{LEAF, LEAVES, Level, STEM};
use super::node::Node;
use super::spot::Spot;
use super::{Beside, Held, Shared, Words, split};
use crate::Error;
use crate::readers::Inside;
use crate::sync::{Backoff, Ordering};
use crate::word::{Busy, Word};

impl<E: Beside> Words<E> {
    #[inline(always)]
    fn find<'s>(&'s self, inside: &'s Inside<'_>, index: u32) -> Option<Spot<'s, E>> {
        let (stem, key) = split(index);
        self.stems.get(stem)?.load(inside)?.find(key)
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
        match self.find(&inside, index).filter(|spot| admits(spot.beside)) {
            Some(spot) => spot
                .lock_shared(self)
                .map(|word| Some(word).filter(|word| admits(word.beside())))
                .inspect_err(|&busy| self.unless_frozen(&inside, index, busy)),
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
        match self.find(&inside, index).filter(|spot| admits(spot.beside)) {
            Some(spot) => spot
                .lock_exclusive(self)
                .map(Some)
                .inspect_err(|&busy| self.unless_frozen(&inside, index, busy)),
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
            if let Some(spot) = self.find(&inside, index) {
                return Ok(spot.claim(self));
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
            let Some(Spot { word, beside }) = self.find(&inside, index) else { return false };
            match word.remark(|place| choose(place.len, place.mark, beside)) {
                Ok(done) => return done,
                Err(Busy::Frozen) => self.unless_frozen(&inside, index, Busy::Frozen),
                Err(_) => return false,
            }
        }
    }

    /// Looks at word `index`, if there is one, locked or not.
    pub(crate) fn with<R>(&self, index: u32, look: impl FnOnce(&Word, &E) -> R) -> Option<R> {
        let inside = self.readers.enter();
        self.find(&inside, index).map(|spot| look(spot.word, spot.beside))
    }

    /// Looks at all words of a leaf.
    pub(crate) fn for_each_of(&self, leaf: u64, mut look: impl FnMut(u32, &Word, &E)) {
        let (stem, nth) = (leaf / LEAVES as u64, (leaf % LEAVES as u64) as usize);
        let inside = self.readers.enter();
        let Some(node) = self.stems.get(stem).and_then(|chain| chain.load(&inside)) else { return };
        node.all_of(nth, |key, spot| {
            look((stem * STEM as u64) as u32 + key as u32, spot.word, spot.beside);
            true
        });
    }

    /// Looks at all words.
    pub(crate) fn for_each(&self, mut look: impl FnMut(u32, &Word, &E)) {
        for (stem, chain) in self.stems.from(0) {
            let inside = self.readers.enter();
            let Some(node) = chain.load(&inside) else { continue };
            node.all(Level::Stem, |key, spot| {
                look((stem * STEM as u64) as u32 + key as u32, spot.word, spot.beside);
                true
            });
        }
    }

    /// The first word from `index` on that may hold something: those passed over were never made, or are gone.
    pub(crate) fn first_made(&self, index: u64) -> Option<u64> {
        let first = index / STEM as u64;
        let mut made = self.stems.from(first).filter(|(_, chain)| chain.is_made());
        made.find_map(|(stem, chain)| {
            let from = if stem == first { index as usize % STEM } else { 0 };
            let inside = self.readers.enter();
            let key = chain.load(&inside)?.first_made(from)?;
            Some(stem * STEM as u64 + key as u64)
        })
    }

    /// Gives conversions up that may have frozen word `index`, which someone inside found frozen. Those that are
    /// done have it elsewhere.
    #[cold]
    fn unless_frozen(&self, inside: &Inside<'_>, index: u32, busy: Busy) {
        if busy != Busy::Frozen {
            return;
        }
        let (stem, key) = split(index);
        let Some(chain) = self.stems.get(stem) else { return };
        chain.give_up();
        let branch = chain.load(inside).and_then(Node::branch);
        branch.into_iter().for_each(|branch| branch.leaf(key as usize / LEAF).give_up());
        // The word in force: it was frozen before, if at all (zs-T3).
        self.find(inside, index).into_iter().for_each(|spot| spot.word.thaw());
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
