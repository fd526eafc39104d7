//! The memory of a pool: its pages, the headers of its zspages, and the only door to raw bytes.
//! The extent's descriptor of a zspage, which stays where it is, has the pointer to its header.
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
//!
//! Null is a valid pointer to a header: there is none.
#![allow(unsafe_code)]

use crate::Error;
use crate::class::Class;
use crate::geometry::OBJECTS_MAX;
use crate::meta::{Arena, Cache};
use crate::sync::AtomicPtr;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::zspage::Header;
use page::fork::Step;
use page::heap::try_boxed;
use page::{ExtentId, PageSet, Space, Zeroed};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

/// Bytes of a line of the processor's cache.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// Bits of a header's address, as of a node's of the table of words; above them is the class.
const ADDRESS_BITS: u32 = 48;
const ADDRESS: usize = (1 << ADDRESS_BITS) - 1;

/// Where a zspage's header is, and the zspage's class, in one word. An extent's number is used
/// again: read one after the other, header and class could be of two lives of it. Null where there
/// is no zspage, or one that is being made or destroyed. It changes under the class's lock only.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct HeaderPtr(AtomicPtr<u8>);

// SAFETY: an atomic pointer, of which null is valid.
unsafe impl Zeroed for HeaderPtr {}

impl HeaderPtr {
    /// Makes it a zspage of `class`, or gives it another header.
    ///
    /// # Safety
    /// The header is one for that class's objects, and stays as long as it is this zspage's.
    pub(crate) unsafe fn attach(&self, class: u32, header: NonNull<u8>) {
        let raw = header.as_ptr();
        assert!(raw.addr() <= ADDRESS && class >> (usize::BITS - ADDRESS_BITS) == 0, "{raw:?}");
        let raw = raw.map_addr(|address| address | (class as usize) << ADDRESS_BITS);
        self.0.store(raw, Release);
    }

    /// Makes it none.
    ///
    /// # Safety
    /// The caller has the class's lock, and the header from then on; no object lies in the zspage.
    pub(crate) unsafe fn detach(&self) {
        self.0.store(null_mut(), Relaxed);
    }

    /// Returns the header, if it is a zspage of `class`. While a caller holds that class's lock the
    /// answer does not change.
    #[inline]
    pub(crate) fn header(&self, class: u32) -> Option<NonNull<u8>> {
        let raw = self.0.load(Acquire);
        let header = NonNull::new(raw.map_addr(|address| address & ADDRESS));
        header.filter(|_| (raw.addr() >> ADDRESS_BITS) as u32 == class)
    }

    /// Returns whether it is a zspage, of whichever class.
    pub(crate) fn is_attached(&self) -> bool {
        !self.0.load(Acquire).is_null()
    }
}

/// A zspage that no one can find: one that is being made, or destroyed. It has neither objects nor
/// committed pages.
#[derive(Debug)]
pub(crate) struct Loose<'m> {
    memory: &'m Memory,
    class: &'m Class,
    id: ExtentId,
    header: NonNull<u8>,
}

impl<'m> Loose<'m> {
    /// Returns a zspage of `class` that was detached from its header.
    ///
    /// # Safety
    /// It is that, in this memory, in no list and without objects and pages.
    pub(crate) unsafe fn new(
        memory: &'m Memory,
        class: &'m Class,
        id: ExtentId,
        header: NonNull<u8>,
    ) -> Self {
        Loose { memory, class, id, header }
    }

    /// Publishes the zspage for holders of the lock of `class`.
    ///
    /// # Panics
    /// If it is in another pool's memory, or was made for another class.
    pub(crate) fn attach(self, memory: &Memory, class: &Class) -> ExtentId {
        let is_its = std::ptr::eq(self.memory, memory) && std::ptr::eq(self.class, class);
        assert!(is_its, "{:?} was made for {:?}", self.id, self.class);
        // SAFETY: `Memory::create` made the header for this class, or it was this zspage's before
        // (`new`); it is no other's.
        unsafe { memory.space.extent(self.id).data.attach(class.position, self.header) };
        self.id
    }

    /// Gives the zspage back.
    pub(crate) fn destroy(self) {
        // SAFETY: the header was made there for so many objects; it and the zspage are out of
        // reach, as this is the only one (`create`, `new`), and nothing lies there.
        unsafe {
            self.memory.free_header(self.class.objects(), self.header);
            self.memory.space.free(self.id);
        }
    }
}

/// Makes the processor fetch something that is soon looked at.
#[inline]
pub(crate) fn prefetch_whole<T>(it: &T) {
    let bytes = NonNull::from(it).cast();
    prefetch(NonNull::slice_from_raw_parts(bytes, size_of::<T>()), usize::MAX);
}

/// Makes the processor fetch `bytes`, the first `lines` lines of them at most.
#[inline]
pub(crate) fn prefetch(bytes: NonNull<[u8]>, lines: usize) {
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
    /// The pages, and a descriptor of each zspage. What opens or frees memory there is unsafe.
    pub(crate) space: Space<HeaderPtr>,
    /// What manages the pool lies here: headers, nodes of the table of entries.
    arena: Arc<Arena>,
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

    /// Bytes of what manages the pages, and of the arena.
    pub(crate) fn metadata_bytes(&self) -> usize {
        self.space.metadata_bytes() + self.arena.bytes()
    }

    /// Gives zspages back, in a child, that a lost thread had made or destroyed but for one step:
    /// these have no pages.
    ///
    /// # Safety
    /// It is a child that lost all other threads.
    pub(crate) unsafe fn free_unattached(&self) {
        for id in self.space.live() {
            if !self.space.extent(id).data.is_attached() {
                // SAFETY: no object lies there, and no thread that made or destroyed it is left.
                unsafe { self.space.free(id) };
            }
        }
    }

    /// Asserts the state of space and arena.
    pub(crate) fn check(&self) {
        self.space.check();
        self.arena.check();
    }

    /// Returns the cache for headers of `objects` slots: the smallest that is large enough.
    fn header_cache(&self, objects: u32) -> &Cache {
        match HEADER_SLOTS.iter().position(|&slots| slots >= objects as usize) {
            Some(nth) => &self.header_caches[nth],
            None => unreachable!("a zspage has {objects} objects, and {OBJECTS_MAX} is the most"),
        }
    }

    /// Returns a zspage of `class` without objects or committed pages, that no one else can find
    /// yet.
    pub(crate) fn create<'m>(&'m self, class: &'m Class) -> Result<Loose<'m>, Error> {
        let (position, objects) = (class.position, class.objects());
        let header = self.header_cache(objects).alloc()?;
        // SAFETY: the cache's objects have at least Header::bytes(objects) bytes, this one is ours
        // alone, and zeros are valid for what lies in it.
        unsafe { header.write_bytes(0, Header::bytes(objects as usize)) };
        match self.space.alloc(class.pages(), position) {
            Ok(id) => Ok(Loose { memory: self, class, id, header }),
            Err(error) => {
                // SAFETY: it was allocated for as many objects just now, and no one has it.
                unsafe { self.free_header(objects, header) };
                Err(error.into())
            }
        }
    }

    /// Returns a copy of a header at a lower place, if there is one on pages that headers have
    /// anyway.
    ///
    /// # Safety
    /// `header` is that of a zspage for `objects` objects, and does not change meanwhile.
    pub(crate) unsafe fn copy_header(
        &self,
        objects: u32,
        header: NonNull<u8>,
    ) -> Option<NonNull<u8>> {
        let new = self.header_cache(objects).alloc_before(header)?;
        // SAFETY: both are objects of the one cache, of at least so many bytes; the new one is ours
        // alone.
        unsafe { new.copy_from_nonoverlapping(header, Header::bytes(objects as usize)) };
        Some(new)
    }

    /// Gives a header back.
    ///
    /// # Safety
    /// It was made here for so many objects, no zspage has it and no one looks at it any more.
    pub(crate) unsafe fn free_header(&self, objects: u32, header: NonNull<u8>) {
        // SAFETY: it is of this cache, as the caller vouches.
        let freed = unsafe { self.header_cache(objects).free(header) };
        debug_assert_eq!(freed, Ok(()), "a header is freed once, to its own cache");
    }

    /// Locks the memory over a fork, and unlocks it.
    pub(crate) fn at_fork(&self, step: Step) {
        self.header_caches.iter().for_each(|cache| cache.at_fork(step));
        self.arena.at_fork(step);
        self.space.at_fork(step);
    }

    /// Repairs, in a child, what lost threads left of what manages the pool. Counted first:
    /// repairing gives pages back.
    ///
    /// # Safety
    /// It is a child that lost all other threads.
    pub(crate) unsafe fn repair_arena(&self) {
        self.arena.recount();
        // SAFETY: as the caller says.
        self.header_caches.iter().for_each(|cache| unsafe { cache.repair() });
    }

    /// Gives back what the caches of headers retain.
    pub(crate) fn shrink(&self) {
        for cache in &self.header_caches {
            cache.shrink();
        }
    }

    /// Writes an object, or the first bytes of one.
    ///
    /// # Safety
    /// The slot at `offset` has room for them. Either the caller has taken it and no entry names it
    /// yet, or the caller holds the entry that names it exclusively, and its class's lock (zs-M2).
    pub(crate) unsafe fn write(&self, offset: u64, bytes: &[u8]) {
        // SAFETY: by zs-M1 the slot is committed and the caller's alone, by zs-M2 and zs-M3 no one
        // reads it.
        unsafe { self.space.write(offset, bytes) }
    }

    /// Copies an object to a slot that was taken for it.
    ///
    /// # Safety
    /// An object of `len` bytes lies at `from`, and its class is locked: it is written again, or
    /// freed, only under that. The caller took `to`, which has room for it and no entry names.
    pub(crate) unsafe fn copy(&self, from: u64, to: u64, len: usize) {
        // SAFETY: by zs-M1 both slots are committed and stay so; the object is not written
        // meanwhile, and the other place is read by no one, as the caller vouches.
        unsafe { self.space.write(to, self.space.bytes(from, len)) }
    }

    /// Returns an object.
    ///
    /// # Safety
    /// The caller has locked the entry that names so many bytes at `offset`, and has it locked and
    /// lets no one change them as long as the slice lives (zs-M3).
    pub(crate) unsafe fn read(&self, offset: u64, len: usize) -> &[u8] {
        // SAFETY: by zs-M1 the slot is committed, by zs-M2 it was written before the entry named
        // it, and by zs-M3 it is neither written nor given back while the entry is locked.
        unsafe { self.space.bytes(offset, len) }
    }

    /// Where the object of an entry begins that is locked.
    #[inline]
    pub(crate) fn locked(&self, offset: u64) -> NonNull<u8> {
        self.space.address(offset)
    }

    /// Makes the processor fetch the first `lines` lines of an object; it may be gone.
    #[inline]
    pub(crate) fn prefetch(&self, offset: u64, len: usize, lines: usize) {
        let start = self.space.try_address(offset);
        let object = start.map(|start| NonNull::slice_from_raw_parts(start, len));
        object.iter().for_each(|&object| prefetch(object, lines));
    }

    /// Gives pages of zspages back; each set is left with those that went.
    ///
    /// # Safety
    /// No object lies on them, and all slots on them are withheld (`ClassGuard::begin_release`).
    pub(crate) unsafe fn release<'b>(
        &self,
        batch: impl Iterator<Item = (ExtentId, &'b PageSet)> + Clone,
    ) {
        // SAFETY: no slot on these pages is live, and withheld ones are given to no one, so no one
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
    fn a_header_is_found_by_its_class_alone() {
        let zspage = HeaderPtr(AtomicPtr::default());
        let [header, other] = [0x7fff_ffff_fff8, 8]
            .map(|address| NonNull::new(std::ptr::without_provenance_mut(address)).unwrap());
        assert!(!zspage.is_attached() && zspage.header(0).is_none());
        for class in [0, 1, 700, 0xffff] {
            // SAFETY: no one looks at it.
            unsafe { zspage.attach(class, header) };
            assert_eq!((zspage.header(class), zspage.header(class ^ 1)), (Some(header), None));
            // SAFETY: as above.
            unsafe { zspage.attach(class, other) };
            assert_eq!(zspage.header(class), Some(other));
            // SAFETY: as above.
            unsafe { zspage.detach() };
            assert!(!zspage.is_attached() && zspage.header(class).is_none());
        }
    }

    #[test]
    #[should_panic(expected = "was made for")]
    fn a_zspage_goes_to_no_other_pool() {
        let memory = || {
            let arena = Arena::new(page::Config::default()).unwrap();
            Memory::new(page::Config::default(), arena).unwrap()
        };
        let (one, other) = (memory(), memory());
        let shape = crate::Geometry::default().table().unwrap().classes()[0];
        let class = Class::new(0, shape, false);
        one.create(&class).unwrap().attach(&other, &class);
    }

    #[test]
    fn every_header_has_a_cache() {
        let arena = Arena::new(page::Config::default()).unwrap();
        let memory = Memory::new(page::Config::default(), arena).unwrap();
        let has_room = |objects| {
            memory.header_cache(objects as u32).geometry().stride >= Header::bytes(objects)
        };
        assert!((1..=OBJECTS_MAX).all(has_room));
        for (page, table) in tables() {
            for class in table.classes() {
                assert!(has_room(class.objects), "{class:?} with pages of {page}");
            }
        }
    }
}
