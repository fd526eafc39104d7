//! Two bits per object. The bit *live* is set while a user has the object. The bit *remote* is set
//! when a thread that does not own the slab frees the object.
//!
//! ```text
//!   live:   | 1 1 0 1 ... |     changed by the slab's thread, or under the lock if it has none
//!   remote: | 0 1 0 0 ... |     set by any thread, atomically; cleared by the draining thread
//!   owner:  thread's number; 0 means none
//! ```
//! A thread that frees an object in another thread's slab sets the object's remote bit. The slab's
//! thread drains the remote bits when no object is free, or when the thread gives up the slab.
//!
//! - sl-B1: a thread that gives up a slab first removes the owner, and then drains the remote bits.
//!   A thread that frees an object first sets the remote bit, and then reads the owner. So at least
//!   one of the two threads sees the other thread's write, and no remote bit is lost.
//! - sl-B2: an object with its remote bit set is still live, and a second free by any thread
//!   detects the bit.
//! - sl-B3: a draining thread first marks the object as free, and then clears the remote bit. A
//!   second free usually detects one of these changes. A second free that reads the bits before
//!   both changes, and sets the remote bit after both, reports no error. The remote bit of such a
//!   second free is *late*. An object is not allocated before its late bit is cleared.

use crate::sync::{Relaxed, fence_in_models};
use std::sync::atomic::Ordering::SeqCst;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32 as Owner, AtomicU64 as Word};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32 as Owner, AtomicU64 as Word};

/// The owner of a slab that no thread owns.
pub(crate) const NO_ONE: u32 = 0;
/// The owner of a slab of the reserve. Such a slab never belongs to a thread.
pub(crate) const RESERVE: u32 = u32::MAX;

/// The bits of a slab's objects, and the slab's owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bits<'s> {
    pub(crate) live: &'s [Word],
    pub(crate) remote: &'s [Word],
    pub(crate) owner: &'s Owner,
}

/// The result of a free by a thread that does not own the slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freed {
    /// The slab's thread will find the object when it drains the bits.
    Deferred,
    /// No thread owns the slab. The caller must take the lock and drain the slab.
    Orphan,
    /// The object was already free.
    DoubleFree,
}

#[inline]
fn bit(index: usize) -> u64 {
    1 << (index % 64)
}

/// Marks the first free object of a group of 64 as live, and returns the object's index in the
/// group. Skips objects with a late bit (sl-B3). Only the slab's thread is allowed to call this
/// function.
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

/// Marks one of 64 objects as free. Returns false if the object was free already (sl-B2). Only the
/// slab's thread is allowed to call this function.
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
    /// Marks the bits beyond the last object as live, so that they are never allocated.
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

    /// Returns true if the object is live and was not freed remotely.
    pub(crate) fn is_out(&self, index: usize) -> bool {
        self.is_live(index) && self.remote[index / 64].load(Relaxed) & bit(index) == 0
    }

    /// Returns the next word that contains a free object. Searches from the word `start` to the
    /// last word, and then from the first word. Clears the late bits of the returned word. Only the
    /// slab's thread is allowed to call this function.
    pub(crate) fn next_word(&self, start: usize) -> Option<usize> {
        let mut words = (start..self.live.len()).chain(0..start);
        let word = words.find(|&word| self.live[word].load(Relaxed) != u64::MAX)?;
        // A remote bit of a free object is late (sl-B3).
        self.clear_remote(word, !self.live[word].load(Relaxed));
        Some(word)
    }

    /// Marks a free object as live, and returns its number. Searches the words from `start` to the
    /// end, and then the other words. Only the slab's thread is allowed to call this function.
    pub(crate) fn alloc_from(&self, start: usize) -> Option<usize> {
        loop {
            let word = self.next_word(start)?;
            // `alloc` fails only if a late bit was set after the search. A bit is set during the
            // loop only if an object is freed twice, so the loop ends.
            if let Some(index) = alloc(&self.live[word], &self.remote[word]) {
                return Some(word * 64 + index);
            }
        }
    }

    /// Marks an object as live. Only the slab's thread is allowed to call this function.
    pub(crate) fn set_live(&self, index: usize) {
        let word = &self.live[index / 64];
        word.store(word.load(Relaxed) | bit(index), Relaxed);
        // No user has the object yet, so a set remote bit is the late bit of an earlier free
        // (sl-B3).
        self.clear_remote(index / 64, bit(index));
    }

    fn clear_remote(&self, word: usize, bits: u64) {
        let remote = &self.remote[word];
        if remote.load(Relaxed) & bits != 0 {
            remote.fetch_and(!bits, SeqCst);
        }
    }

    /// Marks an object as free. Returns false if the object was free already (sl-B2). Only the
    /// slab's thread is allowed to call this function.
    pub(crate) fn free(&self, index: usize) -> bool {
        free(&self.live[index / 64], &self.remote[index / 64], index)
    }

    /// Returns the number of live bits, including those beyond the last object. Only the slab's
    /// thread is allowed to call this function.
    pub(crate) fn live(&self) -> usize {
        self.live.iter().map(|word| word.load(Relaxed).count_ones() as usize).sum()
    }

    /// Marks an object as freed remotely. The slab's thread must not call this function.
    #[inline]
    pub(crate) fn free_remotely(&self, index: usize) -> Freed {
        if !self.is_live(index) {
            return Freed::DoubleFree;
        }
        // Release orders the user's accesses to the object before the free. sl-B1 requires SeqCst.
        let remote = &self.remote[index / 64];
        if remote.fetch_or(bit(index), SeqCst) & bit(index) != 0 {
            return Freed::DoubleFree;
        }
        // From here on, another thread can reclaim the slab. The slab's descriptor remains valid.
        fence_in_models();
        if self.owner.load(SeqCst) == NO_ONE { Freed::Orphan } else { Freed::Deferred }
    }

    /// Removes the owner of the slab. The caller must then call `drain_remote` (sl-B1). Only the
    /// slab's thread is allowed to call this function.
    pub(crate) fn orphan(&self) {
        self.owner.store(NO_ONE, SeqCst);
        fence_in_models();
    }

    /// Marks as free the objects that other threads freed, and calls `freed` for each of these
    /// objects. Only the slab's thread is allowed to call this function.
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
