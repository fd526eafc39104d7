//! The memory of a pool: its pages, and the headers of its zspages. Raw bytes are accessed only in
//! this module. The descriptor of a zspage's extent never moves, and contains the pointer to the
//! zspage's header.
//!
//! # Safety
//! The safety of this module depends on three facts, which the rest of the crate establishes:
//! - zs-M1: a slot has one owner at a time (`ClassGuard::alloc_slot_at` or `search::alloc_slot`,
//!   under the class's lock). The pages of the slot are committed from its allocation until it is
//!   freed.
//! - zs-M2: bytes are written only by the owner of a slot before an entry refers to it
//!   (`StagedObject`, or a move), or under that entry's exclusive lock and the class's lock
//!   (`EntryWriteGuard`).
//! - zs-M3: bytes are read only under the entry's shared or exclusive lock. A slot is freed only
//!   after the entry no longer refers to it. The entry was changed under its exclusive lock or, by
//!   a mover, in one step from its unlocked state. So no other thread had locked the entry at the
//!   moment of the change, and no thread reads the old slot afterwards.
//!
//! A null pointer to a header means that the zspage has no header.
#![allow(unsafe_code)]

use crate::Error;
use crate::class::Class;
use crate::geometry::OBJECTS_MAX;
use crate::meta::{Cache, MetadataArena};
use crate::policy::HEADER_SLOTS;
use crate::sync::AtomicPtr;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::zspage::Header;
use page::fork::Step;
use page::heap::try_boxed;
use page::{ExtentId, PageSet, Space, Zeroed};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// The number of bits of a header's address. The higher bits encode the class. Addresses of nodes
/// in the table of entries have the same number of bits.
const ADDRESS_BITS: u32 = 48;
const ADDRESS: usize = (1 << ADDRESS_BITS) - 1;

/// A pointer to a zspage's header, and the zspage's class, in one word. Numbers of extents are
/// reused, so two separate reads could return the header and the class of different zspages. The
/// word is null if the extent is no zspage, or is a zspage that is being created or destroyed. The
/// word changes only under the class's lock.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct HeaderPtr(AtomicPtr<u8>);

// SAFETY: the field is an atomic pointer, for which null is valid.
unsafe impl Zeroed for HeaderPtr {}

impl HeaderPtr {
    /// Makes the extent a zspage of `class`, or replaces the zspage's header.
    ///
    /// # Safety
    /// The header was created for the objects of that class, and is not freed while it is attached
    /// to this zspage.
    pub(crate) unsafe fn attach(&self, class: u32, header: NonNull<u8>) {
        let raw = header.as_ptr();
        assert!(raw.addr() <= ADDRESS && class >> (usize::BITS - ADDRESS_BITS) == 0, "{raw:?}");
        let raw = raw.map_addr(|address| address | (class as usize) << ADDRESS_BITS);
        self.0.store(raw, Release);
    }

    /// Detaches the header, so that the extent is no zspage any more.
    ///
    /// # Safety
    /// The caller holds the class's lock and owns the header afterwards. The zspage has no object.
    pub(crate) unsafe fn detach(&self) {
        self.0.store(null_mut(), Relaxed);
    }

    /// Returns the header if this is a zspage of `class`. The result does not change while the
    /// caller holds that class's lock.
    #[inline]
    pub(crate) fn header(&self, class: u32) -> Option<NonNull<u8>> {
        let raw = self.0.load(Acquire);
        let header = NonNull::new(raw.map_addr(|address| address & ADDRESS));
        header.filter(|_| (raw.addr() >> ADDRESS_BITS) as u32 == class)
    }

    /// Returns whether this is a zspage, of any class.
    pub(crate) fn is_attached(&self) -> bool {
        !self.0.load(Acquire).is_null()
    }
}

/// A zspage that no other thread can find, because it is being created or destroyed. A loose zspage
/// has neither objects nor committed pages.
#[derive(Debug)]
pub(crate) struct Loose<'m> {
    memory: &'m Memory,
    class: &'m Class,
    id: ExtentId,
    header: NonNull<u8>,
}

impl<'m> Loose<'m> {
    /// Returns a `Loose` for a zspage of `class` that was detached.
    ///
    /// # Safety
    /// `id` is a detached zspage of `class` in this memory. The zspage is in no list, has neither
    /// objects nor committed pages, and `header` was its header.
    pub(crate) unsafe fn new(
        memory: &'m Memory,
        class: &'m Class,
        id: ExtentId,
        header: NonNull<u8>,
    ) -> Self {
        Loose { memory, class, id, header }
    }

    /// Publishes the zspage to holders of the lock of `class`.
    ///
    /// # Panics
    /// Panics if the zspage lies in another pool's memory, or was created for another class.
    pub(crate) fn attach(self, memory: &Memory, class: &Class) -> ExtentId {
        let is_its = std::ptr::eq(self.memory, memory) && std::ptr::eq(self.class, class);
        assert!(is_its, "{:?} was made for {:?}", self.id, self.class);
        // SAFETY: `Memory::create` created the header for this class, or the header was attached to
        // this zspage before (`new`). The header belongs to no other zspage.
        unsafe { memory.space.extent(self.id).data.attach(class.position, self.header) };
        self.id
    }

    pub(crate) fn destroy(self) {
        // SAFETY: this module created the header for this number of objects. No other thread can
        // find the header or the zspage, because this value is the only reference to them
        // (`create`, `new`). The zspage has no object.
        unsafe {
            self.memory.free_header(self.class.objects(), self.header);
            self.memory.space.free(self.id);
        }
    }
}

/// Prefetches into the processor's caches a value that will be read soon.
#[inline]
pub(crate) fn prefetch_whole<T>(it: &T) {
    let bytes = NonNull::from(it).cast();
    prefetch(NonNull::slice_from_raw_parts(bytes, size_of::<T>()), usize::MAX);
}

/// Prefetches at most the first `lines` cache lines of `bytes`.
#[inline]
pub(crate) fn prefetch(bytes: NonNull<[u8]>, lines: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = bytes.cast::<u8>();
        let all = (start.addr().get() % LINE + bytes.len()).div_ceil(LINE);
        for line in 0..all.min(lines) {
            let at = start.as_ptr().wrapping_add(line * LINE);
            // SAFETY: every x86-64 processor has the instruction, and any address is harmless.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, lines);
}

#[derive(Debug)]
pub(crate) struct Memory {
    /// The pages, and a descriptor of each zspage. Functions that access or free memory of the
    /// space are unsafe.
    pub(crate) space: Space<HeaderPtr>,
    /// The arena of the pool's metadata: headers, and nodes of the table of entries.
    arena: Arc<MetadataArena>,
    header_caches: Box<[Cache]>,
}

impl Memory {
    pub(crate) fn new(pages: page::Config, arena: Arc<MetadataArena>) -> Result<Self, Error> {
        let header_cache = |slots| Ok::<_, Error>(Cache::new(&arena, Header::bytes(slots), 8)?);
        let header_caches = HEADER_SLOTS.iter().map(|&slots| header_cache(slots));
        let header_caches = try_boxed(pages.supply.as_deref(), header_caches)?;
        Ok(Memory { space: Space::new(pages)?, arena, header_caches })
    }

    /// Returns the number of bytes of the page metadata and of the arena.
    pub(crate) fn metadata_bytes(&self) -> usize {
        self.space.metadata_bytes() + self.arena.bytes()
    }

    /// In a child of fork, frees zspages that a lost thread had created but not attached, or
    /// detached but not freed. Zspages without a header have no pages.
    ///
    /// # Safety
    /// The process is a child without the other threads of its parent.
    pub(crate) unsafe fn free_unattached(&self) {
        for id in self.space.live() {
            if !self.space.extent(id).data.is_attached() {
                // SAFETY: no object lies in the zspage, and the thread that was creating or
                // destroying it does not exist in this process.
                unsafe { self.space.free(id) };
            }
        }
    }

    pub(crate) fn check(&self) {
        self.space.check();
        self.arena.check();
    }

    /// Returns the smallest cache for headers of at least `objects` slots.
    fn header_cache(&self, objects: u32) -> &Cache {
        match HEADER_SLOTS.iter().position(|&slots| slots >= objects as usize) {
            Some(nth) => &self.header_caches[nth],
            None => unreachable!("a zspage has {objects} objects, and {OBJECTS_MAX} is the most"),
        }
    }

    /// Returns a zspage of `class` without objects or committed pages. No other thread can find it.
    pub(crate) fn create<'m>(&'m self, class: &'m Class) -> Result<Loose<'m>, Error> {
        let (position, objects) = (class.position, class.objects());
        let header = self.header_cache(objects).alloc()?;
        // SAFETY: the cache's objects have at least Header::bytes(objects) bytes, no other thread
        // uses this object, and zeros are valid for a header.
        unsafe { header.write_bytes(0, Header::bytes(objects as usize)) };
        match self.space.alloc(class.pages(), position) {
            Ok(id) => Ok(Loose { memory: self, class, id, header }),
            Err(error) => {
                // SAFETY: the header was just allocated for `objects`, and no other thread uses it.
                unsafe { self.free_header(objects, header) };
                Err(error.into())
            }
        }
    }

    /// Copies a header to a lower address, if a page that holds other headers has space there.
    /// Returns the copy.
    ///
    /// # Safety
    /// `header` is the header of a zspage with `objects` slots, and does not change during the
    /// call.
    pub(crate) unsafe fn copy_header(
        &self,
        objects: u32,
        header: NonNull<u8>,
    ) -> Option<NonNull<u8>> {
        let new = self.header_cache(objects).alloc_before(header)?;
        // SAFETY: both headers are objects of the same cache with at least this number of bytes,
        // and no other thread uses the new header.
        unsafe { new.copy_from_nonoverlapping(header, Header::bytes(objects as usize)) };
        Some(new)
    }

    /// Frees a header.
    ///
    /// # Safety
    /// This module created the header for `objects` objects. The header is attached to no zspage,
    /// and no thread reads it any more.
    pub(crate) unsafe fn free_header(&self, objects: u32, header: NonNull<u8>) {
        // SAFETY: the caller guarantees that the header is for `objects`, so it belongs to this
        // cache.
        let freed = unsafe { self.header_cache(objects).free(header) };
        debug_assert_eq!(freed, Ok(()), "a header is freed once, to its own cache");
    }

    /// Locks the memory before a fork, or unlocks it after the fork.
    pub(crate) fn at_fork(&self, step: Step) {
        self.header_caches.iter().for_each(|cache| cache.at_fork(step));
        self.arena.at_fork(step);
        self.space.at_fork(step);
    }

    /// In a child of fork, repairs metadata that lost threads left unfinished. The committed pages
    /// are counted first, because the repair releases pages.
    ///
    /// # Safety
    /// The process is a child without the other threads of its parent.
    pub(crate) unsafe fn repair_arena(&self) {
        self.arena.recount();
        // SAFETY: the caller guarantees that the lost threads do not exist in this process.
        self.header_caches.iter().for_each(|cache| unsafe { cache.repair() });
    }

    /// Releases the pages that the caches of headers retain.
    pub(crate) fn shrink(&self) {
        for cache in &self.header_caches {
            cache.shrink();
        }
    }

    /// Writes an object, or the first bytes of an object.
    ///
    /// # Safety
    /// The slot at `offset` has space for `bytes`. If no entry refers to the slot yet, the caller
    /// has allocated the slot. Otherwise, the slot's class is locked, and the entry that refers to
    /// the slot is locked exclusively (zs-M2).
    pub(crate) unsafe fn write(&self, offset: u64, bytes: &[u8]) {
        // SAFETY: by zs-M1 the slot is committed and has no other owner. By zs-M2 and zs-M3 no
        // other thread reads the slot.
        unsafe { self.space.write(offset, bytes) }
    }

    /// Copies an object to a slot that was allocated for it.
    ///
    /// # Safety
    /// An object of `len` bytes lies at `from`. The class of the object is locked, so the object is
    /// neither written nor freed during the call. The caller allocated the slot at `to`, which has
    /// space for the object and to which no entry refers.
    pub(crate) unsafe fn copy(&self, from: u64, to: u64, len: usize) {
        // SAFETY: by zs-M1 both slots stay committed during the copy. The caller guarantees that
        // the object is not written during the copy, and that no other thread reads the new place.
        unsafe { self.space.write(to, self.space.bytes(from, len)) }
    }

    /// Returns the bytes of an object.
    ///
    /// # Safety
    /// An entry refers to `len` bytes at `offset`. While the slice exists, the caller keeps the
    /// entry locked, and no thread changes the bytes (zs-M3).
    pub(crate) unsafe fn read(&self, offset: u64, len: usize) -> &[u8] {
        // SAFETY: by zs-M1 the slot is committed. By zs-M2 it was written before the entry referred
        // to it. By zs-M3 it is neither written nor freed while the entry is locked.
        unsafe { self.space.bytes(offset, len) }
    }

    /// Returns the address of a locked entry's object.
    #[inline]
    pub(crate) fn locked(&self, offset: u64) -> NonNull<u8> {
        self.space.address(offset)
    }

    /// Prefetches the first `lines` cache lines of an object, which may have been freed already.
    #[inline]
    pub(crate) fn prefetch(&self, offset: u64, len: usize, lines: usize) {
        let start = self.space.try_address(offset);
        let object = start.map(|start| NonNull::slice_from_raw_parts(start, len));
        object.iter().for_each(|&object| prefetch(object, lines));
    }

    /// Releases pages of zspages. Each set in `batch` is reduced to the pages that were released.
    ///
    /// # Safety
    /// No object lies on the pages, and all slots on them are withheld
    /// (`ClassGuard::begin_release`).
    pub(crate) unsafe fn release<'b>(
        &self,
        batch: impl Iterator<Item = (ExtentId, &'b PageSet)> + Clone,
    ) {
        // SAFETY: no slot on these pages is live, and withheld slots are not allocated. So no
        // thread reads, writes or commits these pages until `ClassGuard` frees the slots, after
        // this call.
        unsafe { self.space.release_all(batch) }
    }
}

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
            // SAFETY: no thread reads the header.
            unsafe { zspage.attach(class, header) };
            assert_eq!((zspage.header(class), zspage.header(class ^ 1)), (Some(header), None));
            // SAFETY: no thread reads the header.
            unsafe { zspage.attach(class, other) };
            assert_eq!(zspage.header(class), Some(other));
            // SAFETY: no thread reads the header.
            unsafe { zspage.detach() };
            assert!(!zspage.is_attached() && zspage.header(class).is_none());
        }
    }

    #[test]
    #[should_panic(expected = "was made for")]
    fn a_zspage_goes_to_no_other_pool() {
        let memory = || {
            let arena = MetadataArena::new(page::Config::default()).unwrap();
            Memory::new(page::Config::default(), arena).unwrap()
        };
        let (one, other) = (memory(), memory());
        let shape = crate::Geometry::default().table().unwrap().classes()[0];
        let class = Class::new(0, shape, false);
        one.create(&class).unwrap().attach(&other, &class);
    }

    #[test]
    fn every_header_has_a_cache() {
        let arena = MetadataArena::new(page::Config::default()).unwrap();
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
