//! Objects of one size, from a cache of uzram.
//!
//! # Safety
//! The cache returns `size` bytes that nothing else uses until they are freed. An [`Object`] is
//! read and freed only by the [`Objects`] that created it, which must still exist. Any other
//! [`Objects`] panics.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use slab::{Arena, Layout, Options, RawCache, Tunables, line_align};

use crate::Error;

/// A cache of objects.
#[derive(Debug)]
pub(super) struct Objects {
    cache: RawCache,
    size: usize,
    /// The unique number of this [`Objects`].
    number: u32,
}

/// An object that is not freed yet.
#[derive(Debug)]
pub(super) struct Object {
    start: NonNull<u8>,
    /// The number of bytes that were written, at least one.
    len: usize,
    /// The number of the [`Objects`] that allocated the object.
    owner: u32,
}

// SAFETY: the object has exclusive access to its bytes.
unsafe impl Send for Object {}

impl Objects {
    /// Creates a cache whose slabs have the layout `layout`. Objects are aligned as in the kernel.
    pub(super) fn new(size: usize, layout: Layout, tunables: Tunables) -> Result<Objects, Error> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_update(Relaxed, Relaxed, |number| number.checked_add(1));
        let number = number.expect("fewer than 4 billion caches are compared");
        let arena = Arena::new(page::Config::default())?;
        let options = Options { layout, tunables: Some(tunables), ..Options::named("bench") };
        let cache = RawCache::with_options(&arena, size, line_align(size), options)?;
        Ok(Objects { cache, size, number })
    }

    /// Returns a new object, whose first `len` bytes each have the value `stamp`.
    ///
    /// # Panics
    /// Panics if `len` is 0 or exceeds the size of an object.
    #[inline(always)]
    pub(super) fn alloc(&self, len: usize, stamp: u8) -> Result<Object, Error> {
        let size = self.size;
        assert!((1..=size).contains(&len), "{len} bytes of {size} are to be written");
        let start = self.cache.alloc()?;
        // SAFETY: the cache's new object has `size` bytes, which no other code uses, and `len` is
        // at least 1 and at most `size`.
        unsafe { start.write_bytes(stamp, len) };
        Ok(Object { start, len, owner: self.number })
    }

    /// Returns the sum of the first and the last byte that `alloc` wrote.
    ///
    /// # Panics
    /// Panics if another [`Objects`] allocated the object.
    #[inline(always)]
    pub(super) fn look(&self, object: &Object) -> u64 {
        assert!(object.owner == self.number, "another's object");
        // SAFETY: the unique numbers are equal, so this cache allocated the object, and `alloc`
        // wrote `len` bytes. The object is not freed, because `free` would have consumed it.
        unsafe {
            let last = object.start.add(object.len - 1).read();
            u64::from(object.start.read()) + u64::from(last)
        }
    }

    /// Frees an object that this [`Objects`] allocated.
    ///
    /// # Panics
    /// Panics if another [`Objects`] allocated the object.
    #[inline(always)]
    pub(super) fn free(&self, object: Object) -> Result<(), Error> {
        assert!(object.owner == self.number, "another's object");
        // SAFETY: the unique numbers are equal, so this cache allocated the object. The call
        // consumes it.
        Ok(unsafe { self.cache.free(object.start) }?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> Objects {
        let tunables = Tunables { limit: 54, batchcount: 27 };
        Objects::new(64, Layout::Native, tunables).unwrap()
    }

    #[test]
    fn an_object_has_what_was_written() {
        let objects = cache();
        let object = objects.alloc(64, 9).unwrap();
        assert_eq!(objects.look(&object), 18);
        objects.free(object).unwrap();
    }

    #[test]
    #[should_panic(expected = "65 bytes of 64")]
    fn no_more_is_written_than_an_object_has() {
        let _ = cache().alloc(65, 0);
    }

    #[test]
    #[should_panic(expected = "another's object")]
    fn another_cache_does_not_free_an_object() {
        let objects = cache();
        let object = objects.alloc(1, 0).unwrap();
        let _ = cache().free(object);
    }

    #[test]
    #[should_panic(expected = "another's object")]
    fn an_object_is_not_read_by_another_cache() {
        let objects = cache();
        let object = objects.alloc(1, 0).unwrap();
        cache().look(&object);
    }
}
