//! The untyped cache.
//!
//! # Safety
//! Memory that is given out belongs to an object that no other user has: it was free, and is marked
//! as live by the only thread that may work in its slab (sl-K3).
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
/// Each thread has slabs of its own, in which it allocates and frees without a lock. Objects that
/// users still have when the cache is dropped stay readable as long as the arena lives.
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

    /// Allocates an object. Its bytes are those it had when it was last freed, the constructor's,
    /// or zero.
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
            // SAFETY: this is an object of the cache that no user has.
            unsafe { red_zones.on_alloc(object) }.inspect_err(|_| self.depot.quarantine(object))?;
        }
        Ok(object)
    }

    /// Allocates as [`alloc`](Self::alloc) does, and if there is no memory returns an object of the
    /// reserve. This is for callers that must make progress so that other objects can be freed.
    pub fn alloc_reserved(&self) -> Result<NonNull<u8>, Error> {
        self.alloc().or_else(|error| self.give(alloc::alloc_reserved(&self.depot).ok_or(error)?))
    }

    /// Frees an object. A foreign address and a double free are errors that change nothing, but are
    /// counted. (A double free is detected only until the object is allocated again: then the free
    /// applies to the new user's object.)
    ///
    /// # Safety
    /// No code uses the object again. If it may already be free, no other thread frees or shrinks
    /// in the cache during the call, because the slab could be given back while it is read.
    #[doc(alias = "kmem_cache_free")]
    #[inline]
    pub unsafe fn free(&self, object: NonNull<u8>) -> Result<(), Error> {
        // SAFETY: as the caller guarantees.
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
        // SAFETY: as the caller guarantees.
        let freed = unsafe { self.free_found(object) };
        freed.inspect_err(|_| _ = self.depot.refused.fetch_add(1, Relaxed))
    }

    /// # Safety
    /// As for [`free`](Self::free).
    unsafe fn free_found(&self, object: NonNull<u8>) -> Result<(), Error> {
        let location = self.depot.locate(object)?;
        let (_, extent, index) = location;
        if let Some(red_zones) = &self.depot.red_zones {
            // SAFETY: the object is live, so its slab stays; otherwise the caller guarantees that
            // no thread gives it back.
            let bits = unsafe { extent.data.bits(self.depot.shape.bits_words) };
            if bits.is_live(index) {
                // SAFETY: it is an object of the cache that its user frees.
                let looked_at = unsafe { red_zones.on_free(object) };
                looked_at.inspect_err(|_| self.depot.quarantine(object))?;
            }
        }
        // SAFETY: as the caller guarantees.
        unsafe { alloc::free(&self.depot, object, location) }
    }

    /// Gives back all empty slabs; other threads give up theirs when they next free. Returns the
    /// number of slabs that were given back, or wait for a grace period.
    #[doc(alias = "kmem_cache_shrink")]
    pub fn shrink(&self) -> usize {
        shrink::shrink(&self.depot)
    }

    /// Destroys the cache. If users still have objects, returns an error that lists them; they stay
    /// readable.
    #[doc(alias = "kmem_cache_destroy")]
    pub fn destroy(self) -> Result<(), Leak> {
        self.leak()
    }

    /// Returns the number of objects that users have, by reading every object's bits. Unlike
    /// [`stat`](Self::stat) it excludes objects that other threads have freed remotely. The result
    /// is exact while no thread uses the cache.
    pub fn in_use(&self) -> usize {
        check::live_count(&self.depot)
    }

    /// Returns an error that lists the objects that users have, if there are any.
    pub(crate) fn leak(&self) -> Result<(), Leak> {
        let objects = check::live(&self.depot);
        let name = self.depot.options.name.clone();
        if objects.is_empty() { Ok(()) } else { Err(Leak { name, objects }) }
    }

    /// Returns the name of the cache.
    pub fn name(&self) -> &str {
        &self.depot.options.name
    }

    /// Returns true if objects are constructed with their slab, and keep the state in which users
    /// leave them.
    pub(crate) fn is_constructed(&self) -> bool {
        self.depot.options.constructor.is_some()
    }

    /// Returns the arena that the cache's slabs lie in.
    pub fn arena(&self) -> &Arc<Arena> {
        &self.depot.arena
    }

    /// Returns the bytes of an object, as requested.
    #[doc(alias = "kmem_cache_size")]
    pub fn size(&self) -> usize {
        self.depot.size
    }

    /// Returns the shape of the cache's slabs.
    pub fn shape(&self) -> Shape {
        self.depot.shape
    }

    /// Returns the current numbers of objects and slabs.
    pub fn stat(&self) -> CacheStat {
        CacheStat::of(&self.depot)
    }

    /// Returns the same counts in the form of the kernel's `slabinfo`.
    pub fn slabinfo(&self) -> SlabInfo {
        SlabInfo::of(&self.depot)
    }

    /// Asserts the state of the cache, which no thread may be using. Only the number of other
    /// threads' slabs is checked.
    pub fn check(&self) {
        check::check(&self.depot);
    }
}

impl Drop for RawCache {
    fn drop(&mut self) {
        // SAFETY: `&mut self` excludes users; besides it only threads that reclaim slabs hold the
        // depot.
        unsafe { life::close(&self.depot) }
    }
}
