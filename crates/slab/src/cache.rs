//! The typed cache, and boxes that free themselves.
//!
//! # Safety
//! A `CacheBox` alone owns its object, from `Cache::alloc` to its drop, and holds the cache, so the
//! object's memory outlives it.
#![allow(unsafe_code)]

use crate::{Arena, CacheStat, Error, RawCache};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

/// A cache of `T`s.
pub struct Cache<T> {
    raw: Arc<RawCache>,
    objects: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for Cache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cache").field(&self.raw).finish()
    }
}

impl<T> Cache<T> {
    /// A cache in `arena`.
    pub fn new(arena: &Arc<Arena>) -> Result<Self, Error> {
        let raw = RawCache::new(arena, size_of::<T>(), align_of::<T>())?;
        Ok(Cache { raw: Arc::new(raw), objects: PhantomData })
    }

    /// Moves `value` into an object of the cache.
    pub fn alloc(&self, value: T) -> Result<CacheBox<T>, Error> {
        let object = self.raw.alloc()?.cast::<T>();
        // SAFETY: `alloc` gives memory of T's size and alignment that no one else has.
        unsafe { object.write(value) };
        Ok(CacheBox { object, cache: self.raw.clone() })
    }

    /// Objects, slabs and pages there are now.
    pub fn stat(&self) -> CacheStat {
        self.raw.stat()
    }

    /// Gives all pages back that are kept ready; how many went.
    pub fn shrink(&self) -> usize {
        self.raw.shrink()
    }

    /// Holds the cache still over a fork; see [`RawCache::hold`].
    pub fn hold(&self) {
        self.raw.hold();
    }

    /// Releases what [`hold`](Self::hold) took.
    pub fn let_go(&self) {
        self.raw.let_go();
    }

    /// Mends what lost threads left, in a child; see [`RawCache::mend`].
    pub fn mend(&self) {
        self.raw.mend();
    }

    /// Asserts the cache's whole state.
    pub fn check(&self) {
        self.raw.check();
    }
}

/// An object of a [`Cache`], freed on drop.
pub struct CacheBox<T> {
    object: NonNull<T>,
    cache: Arc<RawCache>,
}

// SAFETY: a box owns its T, as Box does; the cache behind it is Sync.
unsafe impl<T: Send> Send for CacheBox<T> {}
// SAFETY: `&CacheBox` gives `&T` and nothing else.
unsafe impl<T: Sync> Sync for CacheBox<T> {}

impl<T> Deref for CacheBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: `Cache::alloc` wrote a T there; this box alone owns it, and lends it with itself.
        unsafe { self.object.as_ref() }
    }
}

impl<T> DerefMut for CacheBox<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as for `deref`; `&mut self` excludes every other borrow.
        unsafe { self.object.as_mut() }
    }
}

impl<T: fmt::Debug> fmt::Debug for CacheBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> Drop for CacheBox<T> {
    fn drop(&mut self) {
        // SAFETY: the box owns a valid T and is gone after this; no one uses the object again.
        let freed = unsafe {
            self.object.drop_in_place();
            self.cache.free(self.object.cast())
        };
        debug_assert_eq!(freed, Ok(()));
    }
}
