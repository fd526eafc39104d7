//! The untyped cache.
//!
//! # Safety
//! What is given out is memory of an object that is in no one else's hands: it came from a magazine or from behind,
//! which have each object once (M2, C2), and is marked as a user's before he has it.
#![allow(unsafe_code)]

use crate::depot::Depot;
use crate::magazine::Entry;
use crate::options::Options;
use crate::slabinfo::SlabInfo;
use crate::stat::CacheStat;
use crate::thread::{self, number, number_if_known};
use crate::{Arena, Error, Leak, Shape};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

/// A cache of objects of one size and alignment.
///
/// Each thread keeps some free objects for itself; what is freed by another thread than took it goes to that one's.
/// Objects that are still out when the cache is dropped stay readable as long as the arena lives.
#[derive(Debug)]
pub struct RawCache {
    depot: Arc<Depot>,
}

impl RawCache {
    /// A cache of objects of `size` bytes, aligned to `align`, a power of two up to a page.
    pub fn new(arena: &Arc<Arena>, size: usize, align: usize) -> Result<Self, Error> {
        Self::with_options(arena, size, align, Options::default())
    }

    /// As [`new`](Self::new), with a choice.
    pub fn with_options(
        arena: &Arc<Arena>,
        size: usize,
        align: usize,
        options: Options,
    ) -> Result<Self, Error> {
        let depot = Depot::new(arena, size, align, options)?;
        let keeper: Weak<Depot> = Arc::downgrade(&depot);
        thread::register(keeper);
        Ok(RawCache { depot })
    }

    /// An object. Its bytes are those it had when it was last freed, the constructor's, or zero.
    #[inline]
    pub fn alloc(&self) -> Result<NonNull<u8>, Error> {
        match self.depot.magazines.pop(number_if_known()) {
            Some(entry) => {
                entry.set_live();
                Ok(entry.object)
            }
            None => self.alloc_slowly(),
        }
    }

    #[cold]
    fn alloc_slowly(&self) -> Result<NonNull<u8>, Error> {
        let entry = self.depot.magazines.refill(number(), &*self.depot)?;
        self.give(entry)
    }

    fn give(&self, entry: Entry) -> Result<NonNull<u8>, Error> {
        if let Some(guard) = &self.depot.guard {
            // SAFETY: an object of the cache that no one has.
            unsafe { guard.on_alloc(entry.object) }
                .inspect_err(|_| self.depot.state().lost += 1)?;
        }
        entry.set_live();
        Ok(entry.object)
    }

    /// As [`alloc`](Self::alloc); where there is no memory, an object of the reserve. For those who must go on so
    /// that others can free.
    pub fn alloc_reserved(&self) -> Result<NonNull<u8>, Error> {
        self.alloc().or_else(|error| {
            let reserved = self.depot.state().reserve.pop();
            reserved.map_or(Err(error), |entry| self.give(entry))
        })
    }

    /// Gives an object back. A foreign address and a double free are errors and change nothing. (Two threads that
    /// free one object again, while its slab is being given back, may meet the next owner of its memory.)
    ///
    /// # Safety
    /// No one uses the object again.
    #[inline]
    pub unsafe fn free(&self, object: NonNull<u8>) -> Result<(), Error> {
        let (_, slab, index) = self.depot.locate(object)?;
        let entry = self.depot.entry(slab, index);
        if !entry.set_free() {
            return Err(Error::DoubleFree { address: object.addr().get() });
        }
        if self.depot.magazines.push(number_if_known(), entry) {
            return Ok(());
        }
        self.free_slowly(entry)
    }

    #[cold]
    fn free_slowly(&self, entry: Entry) -> Result<(), Error> {
        if let Some(guard) = &self.depot.guard {
            // SAFETY: it was an object of the cache, which its user gave back.
            unsafe { guard.on_free(entry.object) }.inspect_err(|_| self.depot.state().lost += 1)?;
        }
        self.depot.magazines.flush(number(), entry, &*self.depot);
        Ok(())
    }

    /// Gives back all empty slabs and what is kept for threads; what other threads keep they give when they next
    /// come by. How many slabs went, or wait for a grace period.
    pub fn shrink(&self) -> usize {
        self.depot.shrink()
    }

    /// Ends the cache. Objects that users still have are an error, which names them; they stay readable.
    pub fn destroy(self) -> Result<(), Leak> {
        self.leak()
    }

    /// An error that names the objects which users have, if there are any.
    pub(crate) fn leak(&self) -> Result<(), Leak> {
        let objects = self.depot.live();
        let name = self.depot.options.name.clone();
        if objects.is_empty() { Ok(()) } else { Err(Leak { name, objects }) }
    }

    /// The arena the cache's slabs lie in.
    pub fn arena(&self) -> &Arc<Arena> {
        &self.depot.arena
    }

    /// The shape of the cache's slabs.
    pub fn shape(&self) -> Shape {
        self.depot.shape
    }

    /// Objects and slabs there are now.
    pub fn stat(&self) -> CacheStat {
        CacheStat::of(&self.depot)
    }

    /// The same as the kernel tells it.
    pub fn slabinfo(&self) -> SlabInfo {
        SlabInfo::of(&self.depot)
    }

    /// Asserts the whole state of the cache, in which no thread is at work.
    pub fn check(&self) {
        self.depot.check();
    }
}

impl Drop for RawCache {
    fn drop(&mut self) {
        // SAFETY: `&mut self`, and the depot is no one else's but those who reclaim slabs.
        unsafe { self.depot.close() }
    }
}
