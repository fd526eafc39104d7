//! Typed caches, and boxes that free their object on drop.
//!
//! # Safety
//! - sl-T1: a `CacheBox` exclusively owns its object, from `alloc` to the drop of the box. The box
//!   holds a reference to the cache, so the object's memory outlives the box. The object contains a
//!   T.
//! - sl-T2: in a constructed cache every object contains a T while its slab exists. The reason is
//!   that only the `ConstructedCache` can access its untyped cache.
#![allow(unsafe_code)]

use crate::{Arena, CacheStat, Error, Leak, Options, RawCache, SlabInfo};
use std::fmt;
use std::marker::PhantomData;
use std::mem::needs_drop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

/// A cache of `T`s. A `T` is created when it is allocated, and dropped when it is freed.
pub struct Cache<T> {
    raw: Arc<RawCache>,
    objects: PhantomData<fn() -> T>,
}

impl<T> Cache<T> {
    /// Returns an empty cache of `arena` with the default options.
    pub fn new(arena: &Arc<Arena>, name: &str) -> Result<Self, Error> {
        Self::with_options(arena, Options::named(name))
    }

    /// Returns a cache with these options. Ignores the constructor and the destructor in `options`.
    pub fn with_options(arena: &Arc<Arena>, options: Options) -> Result<Self, Error> {
        let options = Options { constructor: None, destructor: None, ..options };
        let raw = RawCache::with_options(arena, size_of::<T>(), align_of::<T>(), options)?;
        Ok(Cache { raw: Arc::new(raw), objects: PhantomData })
    }

    /// Moves `value` into an object of the cache.
    #[inline]
    pub fn alloc(&self, value: T) -> Result<CacheBox<T>, Error> {
        Ok(self.place(self.raw.alloc()?, value))
    }

    /// Does the same as [`alloc`](Self::alloc). If no memory is available, takes an object from the
    /// reserve.
    pub fn alloc_reserved(&self, value: T) -> Result<CacheBox<T>, Error> {
        Ok(self.place(self.raw.alloc_reserved()?, value))
    }

    fn place(&self, object: NonNull<u8>, value: T) -> CacheBox<T> {
        let object = object.cast::<T>();
        // SAFETY: the cache returned memory of T's size and alignment that no other code uses.
        unsafe { object.write(value) };
        CacheBox { object, cache: self.raw.clone() }
    }

    /// Returns the untyped cache that this cache uses.
    pub fn raw(&self) -> &RawCache {
        &self.raw
    }

    /// Returns the current numbers of objects and slabs.
    pub fn stat(&self) -> CacheStat {
        self.raw.stat()
    }

    /// Returns the counts of [`stat`](Self::stat) in the form of the kernel's `slabinfo`.
    pub fn slabinfo(&self) -> SlabInfo {
        self.raw.slabinfo()
    }

    /// Returns the pages of empty slabs to the arena; see [`RawCache::shrink`].
    pub fn shrink(&self) -> usize {
        self.raw.shrink()
    }

    /// Destroys the cache. If boxes still exist, their memory remains allocated, and the error
    /// lists their objects.
    pub fn destroy(self) -> Result<(), Leak> {
        destroy(self.raw)
    }
}

/// A cache for values that are expensive to create. The `T`s of a slab are created with the slab,
/// and dropped with the slab. A newly allocated `T` is in the state in which its previous user left
/// it.
pub struct ConstructedCache<T> {
    raw: Arc<RawCache>,
    objects: PhantomData<fn() -> T>,
}

/// A type whose values the cache can create itself.
pub trait Construct {
    /// Returns a new `T`.
    fn construct() -> Self;
}

impl<T: Construct + Send + 'static> ConstructedCache<T> {
    /// Returns an empty cache of `arena` with these options.
    pub fn new(arena: &Arc<Arena>, options: Options) -> Result<Self, Error> {
        let constructor = |object: NonNull<u8>| {
            // SAFETY: the cache calls this closure with memory of T's size and alignment that no
            // other code uses.
            unsafe { object.cast::<T>().write(T::construct()) }
        };
        let destructor = |object: NonNull<u8>| {
            // SAFETY: the object contains a T (sl-T2). No user has the T, and no code uses it after
            // this call.
            unsafe { object.cast::<T>().drop_in_place() }
        };
        let (constructor, destructor) = (Some(constructor as _), Some(destructor as _));
        let options = Options { constructor, destructor, ..options };
        let raw = RawCache::with_options(arena, size_of::<T>(), align_of::<T>(), options)?;
        Ok(ConstructedCache { raw: Arc::new(raw), objects: PhantomData })
    }

    /// Allocates a `T` that was created earlier, or creates a slab of new `T`s.
    pub fn alloc(&self) -> Result<CacheBox<T>, Error> {
        Ok(CacheBox { object: self.raw.alloc()?.cast(), cache: self.raw.clone() })
    }

    /// Returns the current numbers of objects and slabs.
    pub fn stat(&self) -> CacheStat {
        self.raw.stat()
    }

    /// Returns the pages of empty slabs to the arena; see [`RawCache::shrink`].
    pub fn shrink(&self) -> usize {
        self.raw.shrink()
    }

    /// Destroys the cache. If boxes still exist, their memory remains allocated, and the error
    /// lists their objects.
    pub fn destroy(self) -> Result<(), Leak> {
        destroy(self.raw)
    }
}

fn destroy(raw: Arc<RawCache>) -> Result<(), Leak> {
    Arc::try_unwrap(raw).map_or_else(|shared| shared.leak(), RawCache::destroy)
}

impl<T> fmt::Debug for Cache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cache").field(&self.raw).finish()
    }
}

impl<T> fmt::Debug for ConstructedCache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ConstructedCache").field(&self.raw).finish()
    }
}

/// An object of a cache, freed on drop.
///
/// # Panics
/// The drop panics if the cache rejects the object. A cache rejects an object if memory beyond the
/// object's end was written to ([`Debug::On`](crate::Debug::On)), or if the cache is faulty. The
/// object's memory is then never reused, and [`CacheStat::refused`] counts the object. If the
/// thread is already panicking, the object is only counted.
pub struct CacheBox<T> {
    object: NonNull<T>,
    /// The cache of the object. In a constructed cache, the box does not drop the T.
    cache: Arc<RawCache>,
}

// SAFETY: a box owns its T, as `Box` does, and the cache that the box refers to is Sync.
unsafe impl<T: Send> Send for CacheBox<T> {}
// SAFETY: a `&CacheBox` gives access only to a `&T`.
unsafe impl<T: Sync> Sync for CacheBox<T> {}

impl<T> Deref for CacheBox<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: sl-T1. The returned reference borrows the box, so the object is live while the
        // reference exists.
        unsafe { self.object.as_ref() }
    }
}

impl<T> DerefMut for CacheBox<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: sl-T1. The `&mut self` excludes every other borrow of the T.
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
        // SAFETY: sl-T1, and this is the drop of the box. No code uses the object afterwards.
        let freed = unsafe {
            if needs_drop::<T>() && !self.cache.is_constructed() {
                self.object.drop_in_place();
            }
            self.cache.free(self.object.cast())
        };
        if let Err(error) = freed
            && !std::thread::panicking()
        {
            panic!("an object of the cache {} can't be freed: {error}", self.cache.name());
        }
    }
}
