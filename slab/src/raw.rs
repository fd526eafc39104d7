//! The untyped cache.
//!
//! # Safety
//! An allocated object has no other user. The object was free, and only the thread that is allowed
//! to access its slab marks the object as live (sl-K3).
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
/// Each thread owns slabs in which it allocates and frees objects without a lock. Objects that
/// users still have when the cache is dropped remain readable as long as the arena exists.
#[derive(Debug)]
pub struct RawCache {
    depot: Arc<Depot>,
}

impl RawCache {
    /// Returns a cache of objects of `size` bytes, aligned to `align`, which is a power of two of
    /// at most the page size.
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

    /// Allocates an object. The object contains the bytes that were in it at its last free, the
    /// bytes that the constructor wrote, or zeros.
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
            // SAFETY: this is an object of the cache, and no user has it yet.
            unsafe { red_zones.on_alloc(object) }.inspect_err(|_| self.depot.quarantine(object))?;
        }
        Ok(object)
    }

    /// Does the same as [`alloc`](Self::alloc). If no memory is available, takes an object from the
    /// reserve. The reserve is for callers whose progress leads to frees of other objects.
    pub fn alloc_reserved(&self) -> Result<NonNull<u8>, Error> {
        self.alloc().or_else(|error| self.give(alloc::alloc_reserved(&self.depot).ok_or(error)?))
    }

    /// Frees an object. A free of a foreign address, and a double free, change nothing, return an
    /// error and are counted. A double free is detected only until the object is allocated again.
    /// After that, the second free frees the object of the new user.
    ///
    /// # Safety
    /// No code uses the object again. If the object may be free already, no other thread frees
    /// objects of the cache or shrinks the cache during the call. (The other thread could reclaim
    /// the slab.)
    #[doc(alias = "kmem_cache_free")]
    #[inline]
    pub unsafe fn free(&self, object: NonNull<u8>) -> Result<(), Error> {
        // SAFETY: the caller of `free` guarantees that no code uses the object.
        unsafe {
            if own::free_fast(&self.depot, number_if_known(), object) {
                Ok(())
            } else {
                self.free_slowly(object)
            }
        }
    }

    /// # Safety
    /// The same requirements as for [`free`](Self::free).
    #[cold]
    unsafe fn free_slowly(&self, object: NonNull<u8>) -> Result<(), Error> {
        // SAFETY: the caller fulfills the requirements of `free`, which `free_found` also has.
        let freed = unsafe { self.free_found(object) };
        freed.inspect_err(|_| _ = self.depot.refused.fetch_add(1, Relaxed))
    }

    /// # Safety
    /// The same requirements as for [`free`](Self::free).
    unsafe fn free_found(&self, object: NonNull<u8>) -> Result<(), Error> {
        let location = self.depot.locate(object)?;
        let (_, extent, index) = location;
        if let Some(red_zones) = &self.depot.red_zones {
            // SAFETY: if the object is live, its slab is not reclaimed. Otherwise, the caller
            // guarantees that no thread reclaims the slab.
            let bits = unsafe { extent.data.bits(self.depot.shape.bits_words) };
            if bits.is_live(index) {
                // SAFETY: the address is that of an object of the cache, and its user no longer
                // uses the object.
                let looked_at = unsafe { red_zones.on_free(object) };
                looked_at.inspect_err(|_| self.depot.quarantine(object))?;
            }
        }
        // SAFETY: the requirements of `alloc::free` are those that the caller fulfills.
        unsafe { alloc::free(&self.depot, object, location) }
    }

    /// Reclaims all empty slabs. Other threads give up their free objects at their next free.
    /// Returns the number of slabs that were reclaimed or wait for a grace period.
    #[doc(alias = "kmem_cache_shrink")]
    pub fn shrink(&self) -> usize {
        shrink::shrink(&self.depot)
    }

    /// Destroys the cache. If users still have objects, returns an error that lists the objects,
    /// whose memory remains readable.
    #[doc(alias = "kmem_cache_destroy")]
    pub fn destroy(self) -> Result<(), Leak> {
        self.leak()
    }

    /// Returns the number of objects that users have. Reads every object's bits, so remotely freed
    /// objects are not counted (unlike in [`stat`](Self::stat)). The result is exact while no
    /// thread uses the cache.
    pub fn in_use(&self) -> usize {
        check::live_count(&self.depot)
    }

    /// If users have objects, returns an error that lists these objects.
    pub(crate) fn leak(&self) -> Result<(), Leak> {
        let objects = check::live(&self.depot);
        let name = self.depot.options.name.clone();
        if objects.is_empty() { Ok(()) } else { Err(Leak { name, objects }) }
    }

    /// Returns the name of the cache.
    pub fn name(&self) -> &str {
        &self.depot.options.name
    }

    /// Returns true if objects are constructed together with their slab, and keep their state when
    /// they are freed.
    pub(crate) fn is_constructed(&self) -> bool {
        self.depot.options.constructor.is_some()
    }

    /// Returns the arena that contains the cache's slabs.
    pub fn arena(&self) -> &Arc<Arena> {
        &self.depot.arena
    }

    /// Returns the size of an object in bytes, as requested.
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

    /// Returns the counts of [`stat`](Self::stat) in the form of the kernel's `slabinfo`.
    pub fn slabinfo(&self) -> SlabInfo {
        SlabInfo::of(&self.depot)
    }

    /// Asserts the invariants of the cache. No thread is allowed to use the cache at the same time.
    /// Slabs that other threads own are only counted.
    pub fn check(&self) {
        check::check(&self.depot);
    }
}

impl Drop for RawCache {
    fn drop(&mut self) {
        // SAFETY: `&mut self` excludes users of the cache. Besides, only threads that reclaim slabs
        // hold references to the depot.
        unsafe { life::close(&self.depot) }
    }
}
