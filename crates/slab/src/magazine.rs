//! Magazines: free objects that a thread keeps for itself, so that it needs no lock for most it does.
//!
//! ```text
//!   thread 3 --> | count, asked | entry 0 | entry 1 | ... limit |     taken from and put on the end
//!   entry        | object | its live bit: word's address, and which of 64 in the bits above 56 |
//! ```
//! An empty magazine is filled with `batchcount` objects from behind, a full one gives its `batchcount` oldest back.
//!
//! # Safety
//! - M1: a thread's magazine is made, filled and emptied by that thread alone: a [`Number`] can't leave its thread,
//!   and a number goes to another one under a lock. Others may look at `count`, and set `asked`.
//! - M2: an object's bit is set while a user has the object. Who clears it, of all that try, is who freed the object;
//!   so an object gets into one magazine once. Its bit stays where it is as long as the object is in none of its slab's.
#![allow(unsafe_code)]

use crate::Error;
use crate::sync::{
    Acquire, AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Relaxed, Release, UnsafeCell,
};
use crate::thread::{NUMBERS_MAX, Number};
use std::ptr::{NonNull, null_mut};

/// Above any address a process may use.
const BIT_SHIFT: u32 = 57;

/// An object, and where it is marked as live.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) object: NonNull<u8>,
    live: *const AtomicU64,
}

impl Entry {
    /// # Safety
    /// `word` stays what it is as long as the entry, or a copy of it, is used.
    #[inline]
    pub(crate) unsafe fn new(object: NonNull<u8>, word: *const AtomicU64, bit: u32) -> Self {
        Entry { object, live: word.map_addr(|address| address | (bit as usize) << BIT_SHIFT) }
    }

    #[inline]
    fn bit(&self) -> (&AtomicU64, u64) {
        let bit = self.live.addr() >> BIT_SHIFT;
        let word = self.live.map_addr(|address| address & ((1 << BIT_SHIFT) - 1));
        // SAFETY: `new`'s caller says that the word stays.
        (unsafe { &*word }, 1 << bit)
    }

    /// Marks the object as a user's.
    #[inline]
    pub(crate) fn set_live(&self) {
        let (word, bit) = self.bit();
        word.fetch_or(bit, Relaxed);
    }

    /// Marks it as free; false where it was already (M2).
    #[inline]
    pub(crate) fn set_free(&self) -> bool {
        let (word, bit) = self.bit();
        word.fetch_and(!bit, Relaxed) & bit != 0
    }
}

/// What magazines are filled from and emptied to.
pub(crate) trait Behind {
    /// Gives `want` objects, or fewer, but at least one.
    fn fetch(&self, want: usize, give: &mut dyn FnMut(Entry)) -> Result<(), Error>;

    /// Takes objects back.
    fn put(&self, entries: &[Entry]);
}

/// How much a magazine holds, and how much is moved at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunables {
    /// Most objects of a magazine; 0 is no magazines.
    pub limit: u32,
    /// Objects moved at a time.
    pub batchcount: u32,
    /// Batches that the threads of a cache share.
    pub shared: u32,
}

impl Tunables {
    /// What suits objects `stride` bytes apart: 128 KiB of them in a magazine.
    pub(crate) fn suiting(stride: usize) -> Self {
        let limit = ((128 << 10) / stride).clamp(4, 1024) as u32;
        Tunables { limit, batchcount: limit.div_ceil(2), shared: 8 }
    }

    pub(crate) fn check(self) -> Result<Self, Error> {
        let Tunables { limit, batchcount, .. } = self;
        let possible = (limit == 0 && batchcount == 0) || (batchcount >= 1 && batchcount <= limit);
        if possible && limit <= 4096 {
            Ok(self)
        } else {
            Err(Error::Tunables { limit, batchcount })
        }
    }
}

#[derive(Debug)]
#[repr(align(128))]
struct Magazine {
    count: AtomicU32,
    /// Another thread asks for all of it to be given back.
    asked: AtomicBool,
    limit: usize,
    batch: usize,
    entries: UnsafeCell<Vec<Entry>>,
}

/// The magazines of a cache.
#[derive(Debug)]
pub(crate) struct Magazines {
    tunables: Tunables,
    /// By thread; null before a thread's first object.
    slots: Box<[AtomicPtr<Magazine>]>,
}

// SAFETY: entries are objects of the cache and addresses of its bits; a magazine is its thread's alone (M1).
unsafe impl Send for Magazines {}
// SAFETY: as above.
unsafe impl Sync for Magazines {}

impl Magazines {
    pub(crate) fn new(tunables: Tunables) -> Self {
        let threads = if tunables.limit == 0 { 0 } else { NUMBERS_MAX };
        Magazines { tunables, slots: (0..threads).map(|_| AtomicPtr::new(null_mut())).collect() }
    }

    pub(crate) fn tunables(&self) -> Tunables {
        self.tunables
    }

    #[inline]
    fn own(&self, number: Number) -> Option<&Magazine> {
        let slot = self.slots.get(number.place()?)?;
        // SAFETY: null, or what `make` leaked, which stays until the magazines are dropped.
        unsafe { slot.load(Relaxed).as_ref() }
    }

    /// An object of the thread's own; none where it has none, or someone asked for them.
    #[inline]
    pub(crate) fn pop(&self, number: Number) -> Option<Entry> {
        let magazine = self.own(number)?;
        if magazine.asked.load(Relaxed) {
            return None;
        }
        magazine.entries.with_mut(|entries| {
            // SAFETY: M1.
            let entries = unsafe { &mut *entries };
            let entry = entries.pop()?;
            magazine.count.store(entries.len() as u32, Relaxed);
            Some(entry)
        })
    }

    /// Keeps a free object; false where there is no room for it, or someone asked for all.
    #[inline]
    pub(crate) fn push(&self, number: Number, entry: Entry) -> bool {
        let Some(magazine) = self.own(number) else { return false };
        if magazine.asked.load(Relaxed) {
            return false;
        }
        magazine.entries.with_mut(|entries| {
            // SAFETY: M1.
            let entries = unsafe { &mut *entries };
            let has_room = entries.len() < magazine.limit;
            if has_room {
                entries.push(entry);
                magazine.count.store(entries.len() as u32, Relaxed);
            }
            has_room
        })
    }

    /// An object from behind, where the thread has none of its own; its magazine is filled by the way.
    pub(crate) fn refill(&self, number: Number, behind: &impl Behind) -> Result<Entry, Error> {
        self.give_what_was_asked_for(number, behind);
        let mut first = None;
        let Some(magazine) = self.own(number).or_else(|| self.make(number)) else {
            behind.fetch(1, &mut |entry| first = Some(entry))?;
            return Ok(taken(first));
        };
        let mut batch = Batch { magazine, first: None };
        behind.fetch(magazine.batch, &mut |entry| batch.add(entry))?;
        Ok(taken(batch.first))
    }

    /// Takes an object for which the thread had no room: its oldest ones go.
    pub(crate) fn flush(&self, number: Number, entry: Entry, behind: &impl Behind) {
        self.give_what_was_asked_for(number, behind);
        if let Some(magazine) = self.own(number).or_else(|| self.make(number)) {
            magazine.give(magazine.batch, behind, |entries| entries.len() >= magazine.limit);
        }
        if !self.push(number, entry) {
            behind.put(&[entry]);
        }
    }

    /// Gives all back that the thread keeps.
    pub(crate) fn drain(&self, number: Number, behind: &impl Behind) {
        if let Some(magazine) = self.own(number) {
            magazine.give(usize::MAX, behind, |_| true);
        }
    }

    /// Asks all threads to give back what they keep, when they next come by.
    pub(crate) fn ask(&self) {
        self.all().for_each(|magazine| magazine.asked.store(true, Relaxed));
    }

    fn give_what_was_asked_for(&self, number: Number, behind: &impl Behind) {
        if let Some(magazine) = self.own(number).filter(|own| own.asked.load(Relaxed)) {
            magazine.asked.store(false, Relaxed);
            magazine.give(usize::MAX, behind, |_| true);
        }
    }

    /// Gives all back that is kept for any thread.
    ///
    /// # Safety
    /// No other thread uses the magazines.
    pub(crate) unsafe fn drain_all(&self, behind: &impl Behind) {
        self.all().for_each(|magazine| magazine.give(usize::MAX, behind, |_| true));
    }

    /// Objects in all magazines; while threads are at work it may be off by what they are doing.
    pub(crate) fn count(&self) -> usize {
        self.all().map(|magazine| magazine.count.load(Relaxed) as usize).sum()
    }

    /// Bytes that the magazines take.
    pub(crate) fn bytes(&self) -> usize {
        let each = size_of::<Magazine>() + self.tunables.limit as usize * size_of::<Entry>();
        size_of_val(&*self.slots) + self.all().count() * each
    }

    fn all(&self) -> impl Iterator<Item = &Magazine> {
        // SAFETY: as for `own`; made before the pointer was stored, by release.
        self.slots.iter().filter_map(|slot| unsafe { slot.load(Acquire).as_ref() })
    }

    /// The thread's first magazine; none where it may have none, or there is no memory.
    fn make(&self, number: Number) -> Option<&Magazine> {
        let slot = self.slots.get(number.place()?)?;
        let Tunables { limit, batchcount, .. } = self.tunables;
        let mut entries = Vec::new();
        entries.try_reserve_exact(limit as usize).ok()?;
        let magazine = Magazine {
            count: AtomicU32::new(0),
            asked: AtomicBool::new(false),
            limit: limit as usize,
            batch: batchcount as usize,
            entries: UnsafeCell::new(entries),
        };
        slot.store(Box::into_raw(Box::new(magazine)), Release);
        self.own(number)
    }
}

impl Drop for Magazines {
    fn drop(&mut self) {
        for slot in &self.slots {
            if let Some(magazine) = NonNull::new(slot.load(Relaxed)) {
                // SAFETY: `make` leaked it, and `&mut self` excludes all others.
                drop(unsafe { Box::from_raw(magazine.as_ptr()) });
            }
        }
    }
}

impl Magazine {
    /// Gives the `most` oldest entries back, if `is_time`.
    fn give(&self, most: usize, behind: &impl Behind, is_time: impl Fn(&[Entry]) -> bool) {
        self.entries.with_mut(|entries| {
            // SAFETY: M1; or no other thread is left (`drain_all`). What is behind does not come back here.
            let entries = unsafe { &mut *entries };
            if is_time(entries) {
                let most = most.min(entries.len());
                behind.put(&entries[..most]);
                entries.drain(..most);
                self.count.store(entries.len() as u32, Relaxed);
            }
        });
    }
}

/// What comes from behind: the first is taken at once, the others go to the magazine.
struct Batch<'m> {
    magazine: &'m Magazine,
    first: Option<Entry>,
}

impl Batch<'_> {
    fn add(&mut self, entry: Entry) {
        if self.first.is_none() {
            self.first = Some(entry);
            return;
        }
        self.magazine.entries.with_mut(|entries| {
            // SAFETY: M1.
            let entries = unsafe { &mut *entries };
            entries.push(entry);
            self.magazine.count.store(entries.len() as u32, Relaxed);
        });
    }
}

fn taken(entry: Option<Entry>) -> Entry {
    match entry {
        Some(entry) => entry,
        None => unreachable!("fetch gives an object or an error"),
    }
}
