//! Objects of one size, from our cache and from the allocators.
//!
//! # Safety
//! What `alloc` gives is `size` bytes that no one else has until they are freed: the caches and the
//! allocators say so.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use slab::{Arena, Layout, Options, RawCache, Tunables};

use crate::Error;
use crate::stores::{Allocator, Glibc, StoreKind};
#[cfg(feature = "rivals")]
use crate::stores::{Jemalloc, Mimalloc};

/// Gives objects of one size.
pub trait Objects: Send + Sync {
    /// Bytes of an object.
    fn size(&self) -> usize;

    /// An object.
    fn alloc(&self) -> Result<Object, Error>;

    /// Frees an object of its own.
    fn free(&self, object: Object) -> Result<(), Error>;

    /// Gives free memory back to the system.
    fn purge(&self) -> Result<(), Error>;

    /// All bytes it takes, where it counts them.
    fn counted(&self) -> Option<u64>;
}

/// An object that is not freed yet.
#[derive(Debug)]
pub struct Object(NonNull<u8>);

// SAFETY: whoever has it alone has its bytes.
unsafe impl Send for Object {}

impl Object {
    /// Fills its `size` bytes, which are those of the objects it came from.
    #[inline]
    pub fn fill(&mut self, size: usize, stamp: u8) {
        // SAFETY: an object has as many bytes, and whoever has it has them alone.
        unsafe { self.0.write_bytes(stamp, size) }
    }

    /// The sum of its first and its last byte, after it was filled.
    #[inline]
    pub fn look(&self, size: usize) -> u64 {
        // SAFETY: as above; `fill` wrote them.
        unsafe { u64::from(self.0.read()) + u64::from(self.0.add(size - 1).read()) }
    }
}

/// A cache of ours.
#[derive(Debug)]
pub struct OurObjects {
    arena: Arc<Arena>,
    cache: RawCache,
    size: usize,
}

impl OurObjects {
    /// With the layout's slabs, aligned as a C allocator's would be, or, with `tunables`, as the
    /// kernel's.
    pub fn new(size: usize, layout: Layout, tunables: Option<Tunables>) -> Result<Self, Error> {
        let arena = Arena::new(page_config())?;
        let align = if tunables.is_some() { slab::line_align(size) } else { 16 };
        let options = Options { layout, tunables, ..Options::named("bench") };
        let cache = RawCache::with_options(&arena, size, align, options)?;
        Ok(OurObjects { arena, cache, size })
    }
}

fn page_config() -> page::Config {
    page::Config::default()
}

impl Objects for OurObjects {
    fn size(&self) -> usize {
        self.size
    }

    #[inline]
    fn alloc(&self) -> Result<Object, Error> {
        Ok(Object(self.cache.alloc()?))
    }

    #[inline]
    fn free(&self, object: Object) -> Result<(), Error> {
        // SAFETY: the object is gone with this.
        Ok(unsafe { self.cache.free(object.0) }?)
    }

    fn purge(&self) -> Result<(), Error> {
        self.cache.shrink();
        Ok(())
    }

    fn counted(&self) -> Option<u64> {
        Some((self.arena.bytes() + self.cache.stat().magazine_bytes) as u64)
    }
}

/// A C allocator's.
#[derive(Debug)]
pub struct HeapObjects<A> {
    size: usize,
    allocator: PhantomData<fn() -> A>,
}

impl<A: Allocator> HeapObjects<A> {
    /// Objects of `size` bytes.
    pub fn new(size: usize) -> Self {
        HeapObjects { size, allocator: PhantomData }
    }
}

impl<A: Allocator> Objects for HeapObjects<A> {
    fn size(&self) -> usize {
        self.size
    }

    #[inline]
    fn alloc(&self) -> Result<Object, Error> {
        NonNull::new(A::malloc(self.size)).map(Object).ok_or_else(|| Error::Setup {
            reason: format!("{} has no memory left", A::NAME),
            remedy: "give fewer --operations",
        })
    }

    #[inline]
    fn free(&self, object: Object) -> Result<(), Error> {
        // SAFETY: it came from A's malloc, and is gone with this.
        unsafe { A::free(object.0.as_ptr()) };
        Ok(())
    }

    fn purge(&self) -> Result<(), Error> {
        A::purge()
    }

    fn counted(&self) -> Option<u64> {
        None
    }
}

/// What is done with the objects of a kind. (Each is compiled for itself, so that calls are as
/// direct as a user's.)
pub trait Visit {
    /// What comes out.
    type Out;

    /// Looks at one kind.
    fn visit(self, objects: impl Objects + 'static) -> Result<Self::Out, Error>;
}

/// Whose objects are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ObjectKind {
    /// A cache of ours.
    Cache,
    /// The C library's malloc.
    Glibc,
    /// jemalloc.
    Jemalloc,
    /// mimalloc.
    Mimalloc,
}

impl ObjectKind {
    /// Ours first, then the rivals.
    pub const ALL: [ObjectKind; 4] =
        [ObjectKind::Cache, ObjectKind::Glibc, ObjectKind::Jemalloc, ObjectKind::Mimalloc];

    /// The allocator, where it is one.
    fn rival(self) -> Option<StoreKind> {
        match self {
            ObjectKind::Cache => None,
            ObjectKind::Glibc => Some(StoreKind::Glibc),
            ObjectKind::Jemalloc => Some(StoreKind::Jemalloc),
            ObjectKind::Mimalloc => Some(StoreKind::Mimalloc),
        }
    }

    /// Its name in figures.
    pub fn name(self) -> &'static str {
        self.rival().map_or("our cache", StoreKind::name)
    }

    /// Whether it was built in.
    pub fn is_here(self) -> bool {
        self.rival().is_none_or(StoreKind::is_here)
    }

    /// Does `visitor` with its objects of `size` bytes.
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
