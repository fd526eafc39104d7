//! Looking entries up, and locking them: no lock is taken, and only a locked entry waited for.

use super::layout::{LEAF, LEAVES, Level, REGION};
use super::locks::EntryRef;
use super::node::Node;
use super::row::Row;
use super::{ReadLock, Table, WriteLock, index_of, split};
use crate::Error;
use crate::entry::{Busy, Entry};
use crate::epoch::EpochGuard;
use crate::sync::{Backoff, Ordering};

impl Table {
    #[inline(always)]
    fn find<'s>(&'s self, inside: &'s EpochGuard<'_>, index: u32) -> Option<EntryRef<'s>> {
        let (region, key) = split(index);
        self.nodes.load(self.regions.get(region)?, inside)?.find(key)
    }

    /// Locks entry `index` for reading; `None` if there is none, or `admits` says no of its row:
    /// asked before the entry is waited for, and again with the entry locked.
    #[inline]
    pub(crate) fn lock_shared(
        &self,
        index: u32,
        admits: impl Fn(Row<'_>) -> bool,
    ) -> Option<ReadLock<'_>> {
        let attempt = || self.try_lock_shared(index, &admits);
        attempt().unwrap_or_else(|busy| {
            let count = |busy| {
                if busy == Busy::Exclusive {
                    self.read_waits.fetch_add(1, Ordering::Relaxed);
                }
            };
            persist(busy, count, attempt)
        })
    }

    #[inline(always)]
    fn try_lock_shared(
        &self,
        index: u32,
        admits: &impl Fn(Row<'_>) -> bool,
    ) -> Result<Option<ReadLock<'_>>, Busy> {
        let inside = self.epoch.enter();
        match self.find(&inside, index).filter(|entry_ref| admits(entry_ref.row)) {
            Some(entry_ref) => entry_ref
                .try_lock_shared(&self.epoch)
                .map(|entry| Some(entry).filter(|entry| admits(entry.row())))
                .inspect_err(|&busy| self.unless_frozen(&inside, index, busy)),
            None => Ok(None),
        }
    }

    /// As [`lock_shared`](Self::lock_shared), for a change.
    #[inline]
    pub(crate) fn lock_existing(
        &self,
        index: u32,
        admits: impl Fn(Row<'_>) -> bool,
    ) -> Option<WriteLock<'_>> {
        let attempt = || self.try_lock_existing(index, &admits);
        let entry = attempt().unwrap_or_else(|busy| persist(busy, |_| (), attempt));
        entry.map(WriteLock::wait_for_readers).filter(|entry| admits(entry.row()))
    }

    /// Those who read the entry are still to be waited for.
    #[inline(always)]
    fn try_lock_existing(
        &self,
        index: u32,
        admits: &impl Fn(Row<'_>) -> bool,
    ) -> Result<Option<WriteLock<'_>>, Busy> {
        let inside = self.epoch.enter();
        match self.find(&inside, index).filter(|entry_ref| admits(entry_ref.row)) {
            Some(entry_ref) => entry_ref
                .try_lock_exclusive(&self.epoch)
                .map(Some)
                .inspect_err(|&busy| self.unless_frozen(&inside, index, busy)),
            None => Ok(None),
        }
    }

    /// Locks entry `index` for a change, made if there is none.
    pub(crate) fn lock(&self, index: u32) -> Result<WriteLock<'_>, Error> {
        loop {
            match self.lock_existing(index, |_| true) {
                Some(entry) => return Ok(entry),
                None => self.make(index)?,
            }
        }
    }

    /// Locks entry `index` for a change, made if there is none, if it is empty and no one has it
    /// locked.
    pub(crate) fn claim(&self, index: u32) -> Result<Option<WriteLock<'_>>, Error> {
        loop {
            let inside = self.epoch.enter();
            if let Some(entry_ref) = self.find(&inside, index) {
                return Ok(entry_ref.try_claim(&self.epoch));
            }
            drop(inside);
            self.make(index)?;
        }
    }

    /// Gives the object of entry `index` the flags that `choose` says, of it and the entry's
    /// row, as [`Entry::set_flags_if_unlocked`] does; whether it has. Waits for nothing: an
    /// entry that is locked is left.
    pub(crate) fn set_flags_if_unlocked(
        &self,
        index: u32,
        choose: impl Fn(usize, u8, Row<'_>) -> u8,
    ) -> bool {
        loop {
            let inside = self.epoch.enter();
            let Some(EntryRef { entry, row }) = self.find(&inside, index) else { return false };
            match entry.set_flags_if_unlocked(|place| choose(place.len, place.flags, row)) {
                Ok(done) => return done,
                Err(Busy::Frozen) => self.unless_frozen(&inside, index, Busy::Frozen),
                Err(_) => return false,
            }
        }
    }

    /// Looks at entry `index`, if there is one, locked or not.
    pub(crate) fn peek<R>(&self, index: u32, look: impl FnOnce(&Entry, Row<'_>) -> R) -> Option<R> {
        let inside = self.epoch.enter();
        self.find(&inside, index).map(|entry_ref| look(entry_ref.entry, entry_ref.row))
    }

    /// Looks at all entries of a leaf.
    pub(crate) fn for_each_of(&self, leaf: u64, mut look: impl FnMut(u32, &Entry, Row<'_>)) {
        let (region, nth) = (leaf / LEAVES as u64, (leaf % LEAVES as u64) as usize);
        let inside = self.epoch.enter();
        let chain = self.regions.get(region);
        let Some(node) = chain.and_then(|chain| self.nodes.load(chain, &inside)) else { return };
        node.all_of(nth, |key, entry_ref| {
            look(index_of(region, key), entry_ref.entry, entry_ref.row);
            true
        });
    }

    /// Looks at all entries.
    pub(crate) fn for_each(&self, mut look: impl FnMut(u32, &Entry, Row<'_>)) {
        for (region, chain) in self.regions.from(0) {
            let inside = self.epoch.enter();
            let Some(node) = self.nodes.load(chain, &inside) else { continue };
            node.all_entries(Level::Region, |key, entry_ref| {
                look(index_of(region, key), entry_ref.entry, entry_ref.row);
                true
            });
        }
    }

    /// The first entry from `index` on that may hold something: those passed over were never made,
    /// or are gone.
    pub(crate) fn first_made(&self, index: u64) -> Option<u64> {
        let first = index / REGION as u64;
        let mut made = self.regions.from(first).filter(|(_, chain)| chain.is_made());
        made.find_map(|(region, chain)| {
            let from = if region == first { index as usize % REGION } else { 0 };
            let inside = self.epoch.enter();
            let key = self.nodes.load(chain, &inside)?.first_made(from)?;
            Some(region * REGION as u64 + key as u64)
        })
    }

    /// Gives conversions up that may have frozen entry `index`, which someone inside found frozen.
    /// Those that are done have it elsewhere.
    #[cold]
    fn unless_frozen(&self, inside: &EpochGuard<'_>, index: u32, busy: Busy) {
        if busy != Busy::Frozen {
            return;
        }
        let (region, key) = split(index);
        let Some(chain) = self.regions.get(region) else { return };
        chain.give_up();
        let inner = self.nodes.load(chain, inside).and_then(Node::inner);
        inner.into_iter().for_each(|inner| inner.leaf(key as usize / LEAF).give_up());
        // The entry in force: it was frozen before, if at all (zs-T3).
        self.find(inside, index).into_iter().for_each(|entry_ref| entry_ref.entry.thaw());
    }
}

/// Waits and tries again, as long as the entry is busy. `count` is told what is waited for at
/// first.
#[cold]
fn persist<T>(mut busy: Busy, count: impl Fn(Busy), attempt: impl Fn() -> Result<T, Busy>) -> T {
    let mut backoff = Backoff::default();
    let mut waited = false;
    loop {
        // An entry that was frozen was thawed, or has gone elsewhere: there is nothing to wait for.
        if busy != Busy::Frozen {
            if !waited {
                count(busy);
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
