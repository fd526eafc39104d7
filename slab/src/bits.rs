//! Two bits per object: *live* while a user has it, and *remote* when another thread than the
//! slab's has freed it.
//!
//! ```text
//!   live:   | 1 1 0 1 ... |     changed by the slab's thread, or under the lock if it has none
//!   remote: | 0 1 0 0 ... |     set by anyone, atomically; cleared by who drains
//!   owner:  thread's number; 0 none
//! ```
//! A thread that frees an object of another's slab sets its remote bit. The slab's thread drains
//! them when it has no other object left, or gives the slab up. sl-B1: a thread that gives up a
//! slab removes the owner first and drains then; a thread that frees sets the bit first and looks
//! for the owner then. So one of the two sees the other, and no bit is forgotten. sl-B2: an object
//! with its remote bit set is live still, and freeing it again, by any thread, finds the bit.
//! sl-B3: a thread that drains makes the object free first and clears the bit then, so a second
//! free finds one or the other, unless it looks before both and sets the bit after. Then it gets no
//! error, but the bit is *late*: an object that has one is not given out before it is cleared.

use crate::sync::{Relaxed, fence_in_models};
use std::sync::atomic::Ordering::SeqCst;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32 as Owner, AtomicU64 as Word};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32 as Owner, AtomicU64 as Word};

/// No thread owns the slab.
pub(crate) const NO_ONE: u32 = 0;
/// The slab is the reserve's: no thread will own it.
pub(crate) const RESERVE: u32 = u32::MAX;

/// The bits of a slab's objects, and the slab's owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bits<'s> {
    pub(crate) live: &'s [Word],
    pub(crate) remote: &'s [Word],
    pub(crate) owner: &'s Owner,
}

/// What became of an object that another thread than its slab's has freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freed {
    /// The slab's thread will find it.
    Deferred,
    /// The slab is no thread's: the holder of the lock has to drain it.
    Orphan,
    /// It was free already.
    DoubleFree,
}

#[inline]
fn bit(index: usize) -> u64 {
    1 << (index % 64)
}

/// For the slab's thread: the first free object of these 64 becomes live: its number among them.
/// None that has a late bit (sl-B3).
#[inline]
pub(crate) fn alloc(live: &Word, remote: &Word) -> Option<usize> {
    let before = live.load(Relaxed);
    let taken = before | remote.load(Relaxed);
    if taken == u64::MAX {
        return None;
    }
    let index = taken.trailing_ones() as usize;
    live.store(before | bit(index), Relaxed);
    Some(index)
}

/// For the slab's thread: one of 64 objects becomes free; false where it was (sl-B2).
#[inline]
pub(crate) fn free(live: &Word, remote: &Word, index: usize) -> bool {
    let before = live.load(Relaxed);
    let is_live = before & !remote.load(Relaxed) & bit(index) != 0;
    if is_live {
        live.store(before & !bit(index), Relaxed);
    }
    is_live
}

impl Bits<'_> {
    /// Marks what lies beyond the last object as never free.
    pub(crate) fn end_at(&self, objects: usize) {
        if let Some(last) = self.live.last()
            && !objects.is_multiple_of(64)
        {
            last.store(u64::MAX << (objects % 64), Relaxed);
        }
    }

    #[inline]
    pub(crate) fn is_live(&self, index: usize) -> bool {
        self.live[index / 64].load(Relaxed) & bit(index) != 0
    }

    /// Returns whether the object is live, and no thread has freed it remotely.
    pub(crate) fn is_out(&self, index: usize) -> bool {
        self.is_live(index) && self.remote[index / 64].load(Relaxed) & bit(index) == 0
    }

    /// For the slab's thread: the next word from `start` on, and around, of which an object is
    /// free; without late bits.
    pub(crate) fn next_word(&self, start: usize) -> Option<usize> {
        let mut words = (start..self.live.len()).chain(0..start);
        let word = words.find(|&word| self.live[word].load(Relaxed) != u64::MAX)?;
        // Of free objects: late ones (sl-B3).
        self.clear_remote(word, !self.live[word].load(Relaxed));
        Some(word)
    }

    /// For the slab's thread: a free object becomes live, the first of those from word `start` on,
    /// or of others.
    pub(crate) fn alloc_from(&self, start: usize) -> Option<usize> {
        loop {
            let word = self.next_word(start)?;
            // None if another late bit was faster, which it takes a second free each for.
            if let Some(index) = alloc(&self.live[word], &self.remote[word]) {
                return Some(word * 64 + index);
            }
        }
    }

    /// For the slab's thread: an object becomes live.
    pub(crate) fn set_live(&self, index: usize) {
        let word = &self.live[index / 64];
        word.store(word.load(Relaxed) | bit(index), Relaxed);
        // No thread was told of it yet, so a bit that is set comes from an earlier free (sl-B3).
        self.clear_remote(index / 64, bit(index));
    }

    fn clear_remote(&self, word: usize, bits: u64) {
        let remote = &self.remote[word];
        if remote.load(Relaxed) & bits != 0 {
            remote.fetch_and(!bits, SeqCst);
        }
    }

    /// For the slab's thread: an object becomes free; false where it was (sl-B2).
    pub(crate) fn free(&self, index: usize) -> bool {
        free(&self.live[index / 64], &self.remote[index / 64], index)
    }

    /// For the slab's thread: live objects, those beyond the last included.
    pub(crate) fn live(&self) -> usize {
        self.live.iter().map(|word| word.load(Relaxed).count_ones() as usize).sum()
    }

    /// For any other thread: an object becomes free.
    #[inline]
    pub(crate) fn free_remotely(&self, index: usize) -> Freed {
        if !self.is_live(index) {
            return Freed::DoubleFree;
        }
        // Release: what the user did with the object comes before; SeqCst: sl-B1.
        let remote = &self.remote[index / 64];
        if remote.fetch_or(bit(index), SeqCst) & bit(index) != 0 {
            return Freed::DoubleFree;
        }
        // From here on the slab may be gone; its descriptor is not.
        fence_in_models();
        if self.owner.load(SeqCst) == NO_ONE { Freed::Orphan } else { Freed::Deferred }
    }

    /// For the slab's thread: it is no one's from now on. `drain_remote` comes next (sl-B1).
    pub(crate) fn orphan(&self) {
        self.owner.store(NO_ONE, SeqCst);
        fence_in_models();
    }

    /// For the slab's thread: the objects that others have freed become free, and are told.
    pub(crate) fn drain_remote(&self, mut freed: impl FnMut(usize)) {
        for (nth, (live, remote)) in self.live.iter().zip(self.remote).enumerate() {
            let found = remote.load(SeqCst);
            if found == 0 {
                continue;
            }
            let before = live.load(Relaxed);
            live.store(before & !found, Relaxed);
            remote.fetch_and(!found, SeqCst);
            let mut bits = before & found;
            while bits != 0 {
                freed(nth * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }
}
