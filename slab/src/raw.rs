//! The untyped cache.
//!
//! # Safety
//! What is given out is memory of an object that nobody else has: it was free, and is marked as
//! live by the only thread that may work in its slab (sl-K3).
#![allow(unsafe_code)]

use crate::depot::Depot;
use crate::options::Options;
use crate::slabinfo::SlabInfo;
use crate::stat::CacheStat;
use crate::sync::Relaxed;
use crate::thread::number_if_known;
use crate::{Arena, Error, Leak, Shape, alloc, check, life, own, shrink};
use std::ptr::NonNull;
use std::sync::Arc;

/// A cache of objects of one size and alignment.
///
/// Each thread has slabs of its own, in which it takes and frees without a lock.
/// Objects that are still out when the cache is dropped stay readable as long as the arena lives.
#[derive(Debug)]
pub struct RawCache {
    depot: Arc<Depot>,
}

impl RawCache {
    /// Returns a cache of objects of `size` bytes, aligned to `align`, a power of two up to a page.
    #[doc(alias = "kmem_cache_create")]
    pub fn new(arena: &Arc<Arena>, size: usize, align: usize) -> Result<Self, Error> {
        Self::with_options(arena, size, align, Options::default())
    }

    /// Returns a cache with these options.
    pub fn with_options(
        arena: &Arc<Arena>,
        size: usize,
        align: usize,
        options: Options,
    ) -> Result<Self, Error> {
        Ok(RawCache { depot: life::open(arena, size, align, options)? })
    }

    /// Takes an object. Its bytes are those it had when it was last freed, the constructor's, or
    /// zero.
    #[doc(alias = "kmem_cache_alloc")]
    #[inline]
    pub fn alloc(&self) -> Result<NonNull<u8>, Error> {
        match own::alloc_fast(&self.depot, number_if_known()) {
            Some(object) => Ok(object),
            None => self.alloc_slowly(),
        }
    }

    #[cold]
    fn alloc_slowly(&self) -> Result<NonNull<u8>, Error> {
        self.give(alloc::alloc(&self.depot)?)
    }

    fn give(&self, object: NonNull<u8>) -> Result<NonNull<u8>, Error> {
        if let Some(red_zones) = &self.depot.red_zones {
            // SAFETY: an object of the cache that no one has.
            unsafe { red_zones.on_alloc(object) }.inspect_err(|_| self.depot.quarantine(object))?;
        }
        Ok(object)
    }

    /// Allocates as [`alloc`](Self::alloc) does, and where there is no memory returns an object of
    /// the reserve. This is for callers that must go on so that others can free.
    pub fn alloc_reserved(&self) -> Result<NonNull<u8>, Error> {
        self.alloc().or_else(|error| self.give(alloc::alloc_reserved(&self.depot).ok_or(error)?))
    }

    /// Gives an object back. A foreign address and a double free are errors and change nothing, but
    /// are counted. (That holds as long as no one was given the object anew: then the free is of
    /// that one's.)
    ///
    /// # Safety
    /// No one uses the object again. Where it may be free already, no other thread frees or shrinks
    /// in the cache meanwhile: its slab could go while it is looked at.
    #[doc(alias = "kmem_cache_free")]
    #[inline]
    pub unsafe fn free(&self, object: NonNull<u8>) -> Result<(), Error> {
        // SAFETY: as the caller says.
        unsafe {
            if own::free_fast(&self.depot, number_if_known(), object) {
                Ok(())
            } else {
                self.free_slowly(object)
            }
        }
    }

    /// # Safety
    /// As for [`free`](Self::free).
    #[cold]
    unsafe fn free_slowly(&self, object: NonNull<u8>) -> Result<(), Error> {
        // SAFETY: as the caller says.
        let freed = unsafe { self.free_found(object) };
        freed.inspect_err(|_| _ = self.depot.refused.fetch_add(1, Relaxed))
    }

    /// # Safety
    /// As for [`free`](Self::free).
    unsafe fn free_found(&self, object: NonNull<u8>) -> Result<(), Error> {
        let location = self.depot.locate(object)?;
        let (_, extent, index) = location;
        if let Some(red_zones) = &self.depot.red_zones {
            // SAFETY: the object is live, so its slab stays; or no one ends it, says the caller.
            let bits = unsafe { extent.data.bits(self.depot.shape.bits_words) };
            if bits.is_live(index) {
                // SAFETY: it is an object of the cache, which its user gives back.
                let looked_at = unsafe { red_zones.on_free(object) };
                looked_at.inspect_err(|_| self.depot.quarantine(object))?;
            }
        }
        // SAFETY: as the caller says.
        unsafe { alloc::free(&self.depot, object, location) }
    }

    /// Gives back all empty slabs; other threads give up theirs when they next free. Returns how
    /// many slabs went, or wait for a grace period.
    #[doc(alias = "kmem_cache_shrink")]
    pub fn shrink(&self) -> usize {
        shrink::shrink(&self.depot)
    }

    /// Ends the cache. Objects that users still have are an error, which names them; they stay
    /// readable.
    #[doc(alias = "kmem_cache_destroy")]
    pub fn destroy(self) -> Result<(), Leak> {
        self.leak()
    }

    /// Returns how many objects users have, which [`stat`](Self::stat) tells but for what another
    /// thread than their slab's has freed: this looks at each. It is exact while no thread is at
    /// work in the cache.
    pub fn in_use(&self) -> usize {
        check::live_count(&self.depot)
    }

    /// Returns an error that names the objects which users have, if there are any.
    pub(crate) fn leak(&self) -> Result<(), Leak> {
        let objects = check::live(&self.depot);
        let name = self.depot.options.name.clone();
        if objects.is_empty() { Ok(()) } else { Err(Leak { name, objects }) }
    }

    /// Returns the name that the cache was given.
    pub fn name(&self) -> &str {
        &self.depot.options.name
    }

    /// Returns whether objects are made with their slab, and stay as users leave them.
    pub(crate) fn is_constructed(&self) -> bool {
        self.depot.options.constructor.is_some()
    }

    /// Returns the arena that the cache's slabs lie in.
    pub fn arena(&self) -> &Arc<Arena> {
        &self.depot.arena
    }

    /// Returns the bytes of an object, as they were asked for.
    #[doc(alias = "kmem_cache_size")]
    pub fn size(&self) -> usize {
        self.depot.size
    }

    /// Returns the shape of the cache's slabs.
    pub fn shape(&self) -> Shape {
        self.depot.shape
    }

    /// Returns the number of objects and slabs there are now.
    pub fn stat(&self) -> CacheStat {
        CacheStat::of(&self.depot)
    }

    /// Returns the same counts as the kernel tells them.
    pub fn slabinfo(&self) -> SlabInfo {
        SlabInfo::of(&self.depot)
    }

    /// Asserts the state of the cache, in which no thread is at work. Of the slabs of other threads
    /// only the number is looked at.
    pub fn check(&self) {
        check::check(&self.depot);
    }
}

impl Drop for RawCache {
    fn drop(&mut self) {
        // SAFETY: `&mut self`, and besides this only threads that reclaim slabs hold the depot.
        unsafe { life::close(&self.depot) }
    }
}
