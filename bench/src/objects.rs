//! Objects of one size, from uzram's cache and from the allocators.
//!
//! # Safety
//! The caches and the allocators return `size` bytes that nothing else uses until they are freed.
//! An [`Object`] is read and freed only by the [`Objects`] value that created it, which must still
//! exist. Any other value panics.
#![allow(unsafe_code)]

mod object;

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use object::{Owner, checked};
use serde::{Deserialize, Serialize};
use slab::{Arena, Layout, Options, RawCache, Tunables};

use crate::Error;
use crate::stores::{Allocator, Glibc, StoreKind};
#[cfg(feature = "rivals")]
use crate::stores::{Jemalloc, Mimalloc};

pub use object::Object;

/// An allocator of objects of one size.
pub trait Objects: Send + Sync {
    /// Returns the size of an object in bytes.
    fn size(&self) -> usize;

    /// Returns a new object, whose first `len` bytes are `stamp`.
    ///
    /// # Panics
    /// If `len` is 0 or above the size.
    fn alloc(&self, len: usize, stamp: u8) -> Result<Object, Error>;

    /// Returns the sum of the first and the last byte that `alloc` wrote.
    ///
    /// # Panics
    /// If the object was allocated by another value.
    fn look(&self, object: &Object) -> u64;

    /// Frees an object that this value allocated.
    ///
    /// # Panics
    /// If the object was allocated by another value.
    fn free(&self, object: Object) -> Result<(), Error>;

    /// Returns free memory to the system.
    fn purge(&self) -> Result<(), Error>;

    /// Returns all bytes that the allocator uses, if it counts them.
    fn counted(&self) -> Option<u64>;
}

/// A cache of uzram.
#[derive(Debug)]
pub struct OurObjects {
    arena: Arc<Arena>,
    cache: RawCache,
    size: usize,
    owner: Owner,
}

impl OurObjects {
    /// Creates a cache with the slabs of `layout`. Objects have the alignment of a C allocator, or
    /// that of the kernel if there are `tunables`.
    pub fn new(size: usize, layout: Layout, tunables: Option<Tunables>) -> Result<Self, Error> {
        let arena = Arena::new(page_config())?;
        let align = if tunables.is_some() { slab::line_align(size) } else { 16 };
        let options = Options { layout, tunables, ..Options::named("bench") };
        let cache = RawCache::with_options(&arena, size, align, options)?;
        Ok(OurObjects { arena, cache, size, owner: Owner::new() })
    }
}

fn page_config() -> page::Config {
    page::Config::default()
}

impl Objects for OurObjects {
    fn size(&self) -> usize {
        self.size
    }

    #[inline(always)]
    fn alloc(&self, len: usize, stamp: u8) -> Result<Object, Error> {
        let len = checked(len, self.size);
        let start = self.cache.alloc()?;
        // SAFETY: the cache's new object has `size` bytes, which no other code uses, and `len` is
        // between 1 and `size`.
        Ok(unsafe { Object::new(start, len, stamp, self.owner) })
    }

    #[inline(always)]
    fn look(&self, object: &Object) -> u64 {
        self.owner.check(object);
        // SAFETY: `check` compared the unique owner numbers, so this cache allocated the object.
        unsafe { object.sum() }
    }

    #[inline(always)]
    fn free(&self, object: Object) -> Result<(), Error> {
        self.owner.check(&object);
        // SAFETY: `check` compared the unique owner numbers, so this cache allocated the object;
        // the call consumes the object.
        Ok(unsafe { self.cache.free(object.into_start()) }?)
    }

    fn purge(&self) -> Result<(), Error> {
        self.cache.shrink();
        Ok(())
    }

    fn counted(&self) -> Option<u64> {
        Some((self.arena.bytes() + self.cache.stat().magazine_bytes) as u64)
    }
}

/// Objects of a C allocator.
#[derive(Debug)]
pub struct HeapObjects<A> {
    size: usize,
    owner: Owner,
    allocator: PhantomData<fn() -> A>,
}

impl<A: Allocator> HeapObjects<A> {
    /// Returns an allocator of objects of `size` bytes.
    pub fn new(size: usize) -> Self {
        HeapObjects { size, owner: Owner::new(), allocator: PhantomData }
    }
}

impl<A: Allocator> Objects for HeapObjects<A> {
    fn size(&self) -> usize {
        self.size
    }

    #[inline(always)]
    fn alloc(&self, len: usize, stamp: u8) -> Result<Object, Error> {
        let len = checked(len, self.size);
        let start = NonNull::new(A::malloc(self.size)).ok_or_else(|| Error::Setup {
            reason: format!("{} has no memory left", A::NAME),
            remedy: "give fewer --operations",
        })?;
        // SAFETY: A's malloc returned `size` bytes, which no other code uses, and `len` is between
        // 1 and `size`.
        Ok(unsafe { Object::new(start, len, stamp, self.owner) })
    }

    #[inline(always)]
    fn look(&self, object: &Object) -> u64 {
        self.owner.check(object);
        // SAFETY: `check` showed that A's malloc returned the block; `free` would have consumed the
        // object.
        unsafe { object.sum() }
    }

    #[inline(always)]
    fn free(&self, object: Object) -> Result<(), Error> {
        self.owner.check(&object);
        // SAFETY: `check` showed that A's malloc returned the block, and the call consumes the
        // object.
        unsafe { A::free(object.into_start().as_ptr()) };
        Ok(())
    }

    fn purge(&self) -> Result<(), Error> {
        A::purge()
    }

    fn counted(&self) -> Option<u64> {
        None
    }
}

/// Work on the objects of a kind. It is compiled for each kind separately, so that calls are as
/// direct as in a program.
pub trait Visit {
    /// The result.
    type Out;

    /// Executes the work on one kind.
    fn visit(self, objects: impl Objects + 'static) -> Result<Self::Out, Error>;
}

/// The compared allocators of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ObjectKind {
    /// A cache of uzram.
    Cache,
    /// The C library's malloc.
    Glibc,
    /// jemalloc.
    Jemalloc,
    /// mimalloc.
    Mimalloc,
}

impl ObjectKind {
    /// All kinds: uzram's first, then the rivals.
    pub const ALL: [ObjectKind; 4] =
        [ObjectKind::Cache, ObjectKind::Glibc, ObjectKind::Jemalloc, ObjectKind::Mimalloc];

    /// Returns the C allocator, or `None` for the cache.
    fn rival(self) -> Option<StoreKind> {
        match self {
            ObjectKind::Cache => None,
            ObjectKind::Glibc => Some(StoreKind::Glibc),
            ObjectKind::Jemalloc => Some(StoreKind::Jemalloc),
            ObjectKind::Mimalloc => Some(StoreKind::Mimalloc),
        }
    }

    /// Returns the kind's name in figures.
    pub fn name(self) -> &'static str {
        self.rival().map_or("our cache", StoreKind::name)
    }

    /// Returns true if the kind was built in.
    pub fn is_here(self) -> bool {
        self.rival().is_none_or(StoreKind::is_here)
    }

    /// Executes `visitor` on the kind's objects of `size` bytes.
    pub fn visit<V: Visit>(self, size: usize, visitor: V) -> Result<V::Out, Error> {
        match self {
            ObjectKind::Cache => visitor.visit(OurObjects::new(size, Layout::Native, None)?),
            ObjectKind::Glibc => visitor.visit(HeapObjects::<Glibc>::new(size)),
            #[cfg(feature = "rivals")]
            ObjectKind::Jemalloc => visitor.visit(HeapObjects::<Jemalloc>::new(size)),
            #[cfg(feature = "rivals")]
            ObjectKind::Mimalloc => visitor.visit(HeapObjects::<Mimalloc>::new(size)),
            #[cfg(not(feature = "rivals"))]
            ObjectKind::Jemalloc | ObjectKind::Mimalloc => Err(Error::Setup {
                reason: format!("{} is not here", self.name()),
                remedy: "build with --features rivals",
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(size: usize) -> OurObjects {
        OurObjects::new(size, Layout::Native, None).unwrap()
    }

    #[test]
    fn an_object_has_what_was_written() {
        let objects = cache(64);
        let object = objects.alloc(64, 9).unwrap();
        assert_eq!(objects.look(&object), 18);
        objects.free(object).unwrap();
    }

    #[test]
    #[should_panic(expected = "65 bytes of 64")]
    fn no_more_is_written_than_an_object_has() {
        let _ = cache(64).alloc(65, 0);
    }

    #[test]
    #[should_panic(expected = "another's object")]
    fn another_cache_does_not_free_an_object() {
        let object = cache(64).alloc(1, 0).unwrap();
        let _ = cache(64).free(object);
    }

    #[test]
    #[should_panic(expected = "another's object")]
    fn an_object_is_not_read_without_its_cache() {
        let object = cache(64).alloc(1, 0).unwrap();
        HeapObjects::<Glibc>::new(64).look(&object);
    }
}
