//! The memory of a pool: its pages, the bodies of its zspages, and the only door to raw bytes.
//!
//! # Safety
//! Everything here rests on three facts, which the rest of the crate establishes:
//! - M1: a slot is given to one taker at a time (`Locked::take`, under the class's lock), and its pages
//!   are committed before it is given out and until it is given back.
//! - M2: bytes are written only by the taker of a slot before its owner's word names it (`Staged`, or a
//!   move), or by the holder of that word's exclusive lock and its class's (`Exclusive`).
//! - M3: bytes are read only under the word's shared or exclusive lock, and a slot is given back only
//!   after the word was made to say something else, under its exclusive lock or, by a mover, in one step
//!   from its unlocked state: when no one had it locked, and no one reads the old place after.
#![allow(unsafe_code)]

use crate::Error;
use crate::body::Body;
use crate::class::Class;
use crate::locked::Locked;
use crate::parts::table_of;
use crate::sync::Ordering::Relaxed;
use crate::zspage::Zspage;
use page::{ExtentId, PageSet, Space};
use slab::{Arena, RawCache};
use std::ptr::NonNull;
use std::sync::Arc;

/// Pages and bodies.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) space: Space<Zspage>,
    /// What manages the pool lies here: bodies, slot tables, cells.
    pub(crate) arena: Arc<Arena>,
    /// Caches of bodies, by size.
    bodies: Box<[RawCache]>,
}

impl Memory {
    pub(crate) fn new(pages: page::Config, arena: Arc<Arena>) -> Result<Self, Error> {
        let caches = (0..).take_while(|&nth| body_size(nth) < 2 * Body::bytes(1024)).count() as u32;
        let bodies = (0..caches).map(|nth| Ok(RawCache::new(&arena, body_size(nth), 8)?));
        let bodies = table_of(pages.supply.as_deref(), bodies)?;
        Ok(Memory { space: Space::new(pages)?, arena, bodies })
    }

    /// The cache for bodies of `objects` slots: the smallest that is large enough.
    fn body_cache(&self, objects: usize) -> &RawCache {
        let fit =
            self.bodies.partition_point(|cache| cache.geometry().stride < Body::bytes(objects));
        &self.bodies[fit]
    }

    /// A zspage of `class` without objects or committed pages; no list has it yet.
    pub(crate) fn create(&self, class: &Class) -> Result<ExtentId, Error> {
        let objects = class.shape.objects;
        let body = self.body_cache(objects).alloc()?;
        // SAFETY: the cache's objects have at least Body::bytes(objects) bytes, this one is ours alone,
        // and zeros are valid for what lies in it.
        unsafe { body.write_bytes(0, Body::bytes(objects)) };
        match self.space.alloc(class.shape.pages as u32, class.position) {
            Ok(id) => {
                let zspage = &self.space.extent(id).data;
                zspage.reset();
                zspage.body.store(body.as_ptr(), Relaxed);
                Ok(id)
            }
            Err(error) => {
                self.free_body(class, body);
                Err(error.into())
            }
        }
    }

    /// Gives a zspage back that has no objects and no committed pages, and that no list has.
    pub(crate) fn destroy(&self, class: &Class, id: ExtentId) {
        let zspage = &self.space.extent(id).data;
        debug_assert!(zspage.inuse() == 0 && !zspage.releasing());
        let body = zspage.body.swap(std::ptr::null_mut(), Relaxed);
        if let Some(body) = NonNull::new(body) {
            self.free_body(class, body);
        }
        self.space.free(id);
    }

    fn free_body(&self, class: &Class, body: NonNull<u8>) {
        // SAFETY: the body came from this cache (same class, same size) and its zspage is out of reach
        // (`destroy`) or was never in a list (`create`), so no `Body` borrows it.
        let freed = unsafe { self.body_cache(class.shape.objects).free(body) };
        debug_assert_eq!(freed, Ok(()), "a body is freed once, to its own cache");
    }

    /// Holds the memory still over a fork: its locks are taken until [`let_go`](Self::let_go).
    pub(crate) fn hold(&self) {
        self.bodies.iter().for_each(RawCache::hold);
        self.arena.hold();
        self.space.hold();
    }

    pub(crate) fn let_go(&self) {
        self.space.let_go();
        self.arena.let_go();
        self.bodies.iter().for_each(RawCache::let_go);
    }

    /// Counts committed pages anew, in a child, before anything is mended: a lost thread may have died
    /// between its count and the budget's.
    pub(crate) fn recount(&self) {
        self.arena.recount();
        self.space.recount(self.committed());
    }

    /// Mends, in a child, what lost threads left of the memory.
    pub(crate) fn mend(&self) {
        self.bodies.iter().for_each(RawCache::mend);
    }

    /// Pages that are committed, over all zspages.
    fn committed(&self) -> usize {
        self.space.live().map(|id| self.space.extent(id).data.committed.len() as usize).sum()
    }

    /// The body of a zspage of the class whose lock is held.
    pub(crate) fn body<'a>(&'a self, locked: &'a Locked<'_>, id: ExtentId) -> Body<'a> {
        let extent = self.space.extent(id);
        let body = extent.data.body.load(Relaxed);
        assert!(
            extent.tag() == locked.class().position && !body.is_null(),
            "{id:?} is not a zspage"
        );
        let objects = locked.class().shape.objects;
        let words = Body::words(objects);
        // SAFETY: `create` made the body for this many slots and zeroed it; it is freed only by
        // `destroy`, after the zspage was unlinked under the lock that `locked` holds for 'a.
        unsafe {
            Body {
                taken: std::slice::from_raw_parts(body.cast(), words),
                owners: std::slice::from_raw_parts(body.add(words * 8).cast(), objects),
            }
        }
    }

    /// Writes an object into a slot that its caller has taken and no word names yet, or whose word the
    /// caller holds exclusively (M2).
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) {
        // SAFETY: by M1 the slot is committed and the caller's alone, by M2 and M3 no one reads it.
        unsafe { self.space.write(offset, bytes) }
    }

    /// Copies an object to a slot that was taken for it. `locked` holds off the writers of both: an object
    /// is written again only under its class's lock (`Exclusive`), and no word names the new place yet.
    pub(crate) fn copy(&self, _locked: &Locked<'_>, from: u64, to: u64, len: usize) {
        // SAFETY: by M1 both slots are committed and stay so; `from` is whole, since a word names it
        // (M2), and not written meanwhile, as said above; `to` is read by no one.
        unsafe { self.space.write(to, self.space.bytes(from, len)) }
    }

    /// The object at `offset`. The caller holds the lock of the word that names it for as long as the
    /// slice lives (M3).
    pub(crate) fn read(&self, offset: u64, len: usize) -> &[u8] {
        // SAFETY: by M1 the slot is committed, by M2 it was written before the word named it, and by M3
        // it is neither written nor given back while the word is locked.
        unsafe { self.space.bytes(offset, len) }
    }

    /// Gives pages of a zspage back; those that went. Their slots are held (`Body::hold`), all of them.
    pub(crate) fn release(&self, id: ExtentId, pages: &PageSet) -> PageSet {
        // SAFETY: no slot on these pages is live, and held ones are given to no one, so no one reads,
        // writes or commits them until `Locked` frees them again, after this call.
        unsafe { self.space.release(id, pages) }
    }
}

/// Sizes of bodies: steps of an eighth to a sixteenth, so that rounding costs little and caches are few.
fn body_size(nth: u32) -> usize {
    let (octave, step) = (nth / 8, nth % 8);
    ((64 + 8 * step as usize) << octave).next_multiple_of(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_body_has_a_cache() {
        let arena = Arena::new(page::Config::default()).unwrap();
        let memory = Memory::new(page::Config::default(), arena).unwrap();
        for objects in 1..=1024 {
            let bytes = Body::bytes(objects);
            let stride = memory.body_cache(objects).geometry().stride;
            assert!(stride >= bytes && (stride <= 64 || stride * 8 <= bytes * 9 + 64), "{bytes}");
        }
    }
}
