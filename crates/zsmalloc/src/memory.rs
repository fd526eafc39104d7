//! The memory of a pool: its pages, the headers of its zspages, and the only door to raw bytes.
//!
//! # Safety
//! Everything here rests on three facts, which the rest of the crate establishes:
//! - zs-M1: a slot is given to one taker at a time (`ClassGuard::alloc_slot`, under the class's
//!   lock), and its pages are committed before it is given out and until it is given back.
//! - zs-M2: bytes are written only by the taker of a slot before its entry names it
//!   (`StagedObject`, or a move), or by the holder of that entry's exclusive lock and its class's
//!   (`EntryWriteGuard`).
//! - zs-M3: bytes are read only under the entry's shared or exclusive lock, and a slot is given
//!   back only after the entry was made to say something else, under its exclusive lock or, by a
//!   mover, in one step from its unlocked state: when no one had it locked, and no one reads the
//!   old place after.
#![allow(unsafe_code)]

use crate::Error;
use crate::class::Class;
use crate::class_guard::ClassGuard;
use crate::geometry::OBJECTS_MAX;
use crate::meta::{Arena, Cache};
use crate::zspage::{FixedHeader, Header, HeaderPtr};
use page::heap::try_boxed;
use page::{Extent, ExtentId, PageSet, Space, Zeroed};
use std::ptr::NonNull;
use std::sync::Arc;

/// Bytes of a line of the processor's cache.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;
/// Lines that are fetched of an object that is to be overwritten: all of a block's. The copy that
/// fills them is short, so it would be waited for at the next lock.
const OVERWRITTEN_LINES: usize = 64;

// SAFETY: an atomic pointer, of which null is valid.
unsafe impl Zeroed for HeaderPtr {}

/// A zspage that no one can find: one that is being made, or destroyed.
#[derive(Debug)]
pub(crate) struct Loose {
    id: ExtentId,
    header: NonNull<u8>,
}

/// The bytes of an object whose entry stays locked as long as this is looked at: no reference,
/// since it may outlive the lock for the moment in which both are dropped.
#[derive(Debug)]
pub(crate) struct Pinned(NonNull<[u8]>);

// SAFETY: it is looked at as a shared slice would be.
unsafe impl Send for Pinned {}
// SAFETY: as above.
unsafe impl Sync for Pinned {}

impl Pinned {
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `pinned` made it of such a slice, and its holder has the entry locked still
        // (zs-M3).
        unsafe { self.0.as_ref() }
    }

    /// Has the processor fetch the first `lines` lines of the bytes, which are to be read soon.
    #[inline]
    pub(crate) fn prefetch(&self, lines: usize) {
        prefetch(self.0, lines);
    }
}

/// Has the processor fetch something that is soon looked at.
#[inline]
pub(crate) fn prefetch_whole<T>(it: &T) {
    let bytes = NonNull::from(it).cast();
    prefetch(NonNull::slice_from_raw_parts(bytes, size_of::<T>()), usize::MAX);
}

/// Has the processor fetch `bytes`, the first `lines` lines of them at most.
#[inline]
fn prefetch(bytes: NonNull<[u8]>, lines: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = bytes.cast::<u8>();
        let all = (start.addr().get() % LINE + bytes.len()).div_ceil(LINE);
        for line in 0..all.min(lines) {
            let at = start.as_ptr().wrapping_add(line * LINE);
            // SAFETY: every processor of this kind has the instruction, which reads nothing for the
            // program, wherever it points.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, lines);
}

/// Pages and headers.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) space: Space<HeaderPtr>,
    /// What manages the pool lies here: headers, nodes of the table of entries.
    pub(crate) arena: Arc<Arena>,
    /// Caches of headers, by size.
    header_caches: Box<[Cache]>,
}

impl Memory {
    pub(crate) fn new(pages: page::Config, arena: Arc<Arena>) -> Result<Self, Error> {
        let header_cache = |slots| Ok::<_, Error>(Cache::new(&arena, Header::bytes(slots), 8)?);
        let header_caches = HEADER_SLOTS.iter().map(|&slots| header_cache(slots));
        let header_caches = try_boxed(pages.supply.as_deref(), header_caches)?;
        Ok(Memory { space: Space::new(pages)?, arena, header_caches })
    }

    /// The cache for headers of `objects` slots: the smallest that is large enough.
    fn header_cache(&self, objects: usize) -> &Cache {
        match HEADER_SLOTS.iter().position(|&slots| slots >= objects) {
            Some(nth) => &self.header_caches[nth],
            None => unreachable!("a zspage of {objects} objects; {OBJECTS_MAX} is the most"),
        }
    }

    /// A zspage of `class` without objects or committed pages, that no one else can find yet.
    pub(crate) fn create(&self, class: &Class) -> Result<Loose, Error> {
        let objects = class.objects() as usize;
        let header = self.header_cache(objects).alloc()?;
        // SAFETY: the cache's objects have at least Header::bytes(objects) bytes, this one is ours
        // alone, and zeros are valid for what lies in it.
        unsafe { header.write_bytes(0, Header::bytes(objects)) };
        match self.space.alloc(class.pages(), class.position) {
            Ok(id) => Ok(Loose { id, header }),
            Err(error) => {
                self.free_header(class, header);
                Err(error.into())
            }
        }
    }

    /// Has a zspage found by whoever has the class's lock.
    pub(crate) fn attach(&self, locked: &mut ClassGuard<'_>, zspage: Loose) -> ExtentId {
        self.space.extent(zspage.id).data.attach(locked.class().position, zspage.header);
        zspage.id
    }

    /// Takes a zspage, which no list has any more, out of reach.
    pub(crate) fn detach(&self, locked: &mut ClassGuard<'_>, id: ExtentId) -> Loose {
        let (extent, header) = self.header_of(locked, id);
        extent.data.detach();
        Loose { id, header }
    }

    /// Gives a zspage back that has no objects and no committed pages.
    pub(crate) fn destroy(&self, class: &Class, zspage: Loose) {
        self.free_header(class, zspage.header);
        self.space.free(zspage.id);
    }

    fn free_header(&self, class: &Class, header: NonNull<u8>) {
        // SAFETY: the header came from this cache (same class, same size), and no zspage points to
        // it: that of a `Loose` is out of reach, and `relocate_header` has put another in its
        // place, under the class's lock.
        let freed = unsafe { self.header_cache(class.objects() as usize).free(header) };
        debug_assert_eq!(freed, Ok(()), "a header is freed once, to its own cache");
    }

    /// Locks the memory over a fork, until [`unlock_after_fork`](Self::unlock_after_fork).
    pub(crate) fn lock_for_fork(&self) {
        self.header_caches.iter().for_each(Cache::lock_for_fork);
        self.arena.lock_for_fork();
        self.space.lock_for_fork();
    }

    pub(crate) fn unlock_after_fork(&self) {
        self.space.unlock_after_fork();
        self.arena.unlock_after_fork();
        self.header_caches.iter().for_each(Cache::unlock_after_fork);
    }

    /// Repairs, in a child, what lost threads left of what manages the pool. Counted first:
    /// repairing gives pages back.
    pub(crate) fn repair_arena(&self) {
        self.arena.recount();
        self.header_caches.iter().for_each(Cache::repair);
    }

    /// Gives back what the caches of headers retain.
    pub(crate) fn shrink(&self) {
        for cache in &self.header_caches {
            cache.shrink();
        }
    }

    /// A zspage of the class whose lock is held, and its header.
    fn header_of(
        &self,
        locked: &ClassGuard<'_>,
        id: ExtentId,
    ) -> (&Extent<HeaderPtr>, NonNull<u8>) {
        let extent = self.space.extent(id);
        match extent.data.header(locked.class().position) {
            Some(header) => (extent, header),
            None => panic!("{id:?} is not a zspage of {:?}", locked.class()),
        }
    }

    /// The fixed part of a zspage's header.
    pub(crate) fn fixed_header<'a>(
        &'a self,
        locked: &'a ClassGuard<'_>,
        id: ExtentId,
    ) -> &'a FixedHeader {
        // SAFETY: `create` made the header of zeros, which are a valid FixedHeader; it is freed
        // only after `detach` or `relocate_header` took it from the zspage, which borrow the lock
        // mutably that `locked` holds for 'a.
        unsafe { self.header_of(locked, id).1.cast().as_ref() }
    }

    pub(crate) fn header<'a>(&'a self, locked: &'a ClassGuard<'_>, id: ExtentId) -> Header<'a> {
        let (extent, header) = self.header_of(locked, id);
        let objects = locked.class().objects() as usize;
        let words = Header::words(objects);
        // SAFETY: as for `fixed_header`; `create` made the header for this many slots, and head,
        // bits and entries lie one behind the other in it (`Header::bytes`).
        unsafe {
            let taken = header.add(size_of::<FixedHeader>());
            let entries = taken.add(words * 8);
            Header {
                start: extent.start(),
                fixed: header.cast().as_ref(),
                taken: std::slice::from_raw_parts(taken.cast().as_ptr(), words),
                entries: std::slice::from_raw_parts(entries.cast().as_ptr(), objects),
            }
        }
    }

    /// Moves a zspage's header to a lower place, if there is one on pages that headers have anyway.
    pub(crate) fn relocate_header(&self, locked: &mut ClassGuard<'_>, id: ExtentId) {
        let class = locked.class();
        let (extent, old) = self.header_of(locked, id);
        let objects = class.objects() as usize;
        let Some(new) = self.header_cache(objects).alloc_before(old) else { return };
        // SAFETY: both are objects of the one cache, of at least so many bytes; the new one is ours
        // alone, and no `Header` or `FixedHeader` borrows the old, since `locked` is borrowed
        // mutably.
        unsafe { new.copy_from_nonoverlapping(old, Header::bytes(objects)) };
        extent.data.attach(class.position, new);
        self.free_header(class, old);
    }

    /// Writes an object into a slot that its caller has taken and no entry names yet, or whose
    /// entry the caller holds exclusively (zs-M2).
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) {
        // SAFETY: by zs-M1 the slot is committed and the caller's alone, by zs-M2 and zs-M3 no one
        // reads it.
        unsafe { self.space.write(offset, bytes) }
    }

    /// Copies an object to a slot that was taken for it. `locked` holds off the writers of both: an
    /// object is written again only under its class's lock (`EntryWriteGuard`), and no entry names
    /// the new place yet.
    pub(crate) fn copy(&self, _locked: &ClassGuard<'_>, from: u64, to: u64, len: usize) {
        // SAFETY: by zs-M1 both slots are committed and stay so; `from` is whole, since an entry
        // names it (zs-M2), and not written meanwhile, as said above; `to` is read by no one.
        unsafe { self.space.write(to, self.space.bytes(from, len)) }
    }

    /// The object at `offset`. The caller holds the lock of the entry that names it for as long as
    /// the slice lives (zs-M3).
    pub(crate) fn read(&self, offset: u64, len: usize) -> &[u8] {
        // SAFETY: by zs-M1 the slot is committed, by zs-M2 it was written before the entry named
        // it, and by zs-M3 it is neither written nor given back while the entry is locked.
        unsafe { self.space.bytes(offset, len) }
    }

    /// The same, for a guard that keeps the entry locked.
    pub(crate) fn pinned(&self, offset: u64, len: usize) -> Pinned {
        Pinned(NonNull::from(self.read(offset, len)))
    }

    /// Has the processor fetch an object, which is to be overwritten; it may be gone.
    pub(crate) fn prefetch(&self, offset: u64, len: usize) {
        let start = self.space.try_address(offset);
        let object = start.map(|start| NonNull::slice_from_raw_parts(start, len));
        object.iter().for_each(|&object| prefetch(object, OVERWRITTEN_LINES));
    }

    /// Gives pages of zspages back; each set is left with those that went. Their slots are held
    /// (`Header::withhold_slots`), all of them.
    pub(crate) fn release<'b>(&self, batch: impl Iterator<Item = (ExtentId, &'b PageSet)> + Clone) {
        // SAFETY: no slot on these pages is live, and held ones are given to no one, so no one
        // reads, writes or commits them until `ClassGuard` frees them again, after this call.
        unsafe { self.space.release_all(batch) }
    }
}

/// The slots that headers are for, a cache each. The last two serve pages of 64 KiB only.
const HEADER_SLOTS: [usize; 9] = [8, 16, 32, 64, 160, 256, 512, 1024, OBJECTS_MAX];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::tests::tables;

    #[test]
    fn every_header_has_a_cache() {
        let arena = Arena::new(page::Config::default()).unwrap();
        let memory = Memory::new(page::Config::default(), arena).unwrap();
        let has_room =
            |objects| memory.header_cache(objects).geometry().stride >= Header::bytes(objects);
        assert!((1..=OBJECTS_MAX).all(has_room));
        for (page, table) in tables() {
            for class in table.classes() {
                assert!(has_room(class.objects), "{class:?} with pages of {page}");
            }
        }
    }
}
