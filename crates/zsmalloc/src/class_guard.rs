//! A locked class. The lock guards the slots of the class's zspages, the lists of zspages by
//! fullness, and the list of zspages that offer retained pages.
//!
//! The lock order is entry, class, slab cache, space. Pages are released with no lock held
//! (`purge`). Only a mover locks two classes, and a mover never waits for the second lock.
//!
//! # Safety
//! This module borrows headers of zspages. Each header belongs to a class and changes only under
//! the lock of that class. A header is freed only after a thread that holds this lock has detached
//! the header from its zspage.
#![allow(unsafe_code)]

use crate::Error;
use crate::class::{Class, ClassState, FULL};
use crate::memory::{HeaderPtr, Loose, Memory};
use crate::retained::{InFlight, Retained};
use crate::sync::MutexGuard;
use crate::zspage::{FixedHeader, Header, release};
use page::{Extent, ExtentId, PageSet};
use std::ptr::NonNull;

#[derive(Debug)]
pub(crate) struct ClassGuard<'p> {
    class: &'p Class,
    memory: &'p Memory,
    retained: &'p Retained,
    pub(crate) state: MutexGuard<'p, ClassState>,
}

/// A slot that was just taken, and how this changed its zspage and pages.
#[derive(Debug)]
pub(crate) struct NewSlot {
    id: ExtentId,
    slot: u32,
    offset: u64,
    committed: u32,
    /// The number of the slot's pages that were retained until the slot was taken.
    reused: u32,
    /// The number of objects in the zspage, including the new object.
    inuse: u32,
    /// True if the next slot lies on a page that is not committed.
    pub(crate) wants_page: bool,
}

impl NewSlot {
    pub(crate) fn id(&self) -> ExtentId {
        self.id
    }

    pub(crate) fn slot(&self) -> u32 {
        self.slot
    }

    /// Returns the slot's offset in the pool's space.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the number of pages committed for the slot.
    pub(crate) fn committed(&self) -> u32 {
        self.committed
    }

    /// Returns the number of the slot's pages on which no object lay before the slot was taken.
    pub(crate) fn entered(&self) -> u32 {
        self.committed + self.reused
    }
}

impl<'p> ClassGuard<'p> {
    /// Returns the guard of a class whose lock `state` holds.
    ///
    /// # Safety
    /// The class, its locked state, the memory and the retained pages belong to one pool.
    pub(crate) unsafe fn new(
        class: &'p Class,
        memory: &'p Memory,
        retained: &'p Retained,
        state: MutexGuard<'p, ClassState>,
    ) -> Self {
        ClassGuard { class, memory, retained, state }
    }

    pub(crate) fn class(&self) -> &'p Class {
        self.class
    }

    pub(crate) fn memory(&self) -> &'p Memory {
        self.memory
    }

    pub(crate) fn gain(&self) -> u32 {
        self.class.gain(&self.state)
    }

    fn header_of(&self, id: ExtentId) -> (&'p Extent<HeaderPtr>, NonNull<u8>) {
        let extent = self.memory.space.extent(id);
        match extent.data.header(self.class.position) {
            Some(header) => (extent, header),
            None => panic!("{id:?} is not a zspage of {:?}", self.class),
        }
    }

    pub(crate) fn fixed_header(&self, id: ExtentId) -> &FixedHeader {
        // SAFETY: `Memory::create` filled the header with zeros, which are a valid FixedHeader. The
        // header is freed only after `remove_if_unused` or `relocate_header` detached it.
        // `remove_if_unused` and `relocate_header` borrow the class's lock mutably, and every
        // borrow of a header borrows the class's lock too.
        unsafe { self.header_of(id).1.cast().as_ref() }
    }

    pub(crate) fn header(&self, id: ExtentId) -> Header<'_> {
        let (extent, header) = self.header_of(id);
        // SAFETY: the header is valid for the reason that `fixed_header` states, and
        // `Loose::attach` checked that the header is for this class.
        unsafe { Header::new(self.class, extent.start(), header) }
    }

    /// Returns the zspages of a fullness group. Full zspages are in no list.
    pub(crate) fn group(&self, group: usize) -> impl Iterator<Item = ExtentId> {
        self.state.by_fullness[group].iter(|id| &self.fixed_header(id).by_fullness)
    }

    pub(crate) fn offering(&self) -> impl Iterator<Item = ExtentId> {
        self.state.offering.iter(|id| &self.fixed_header(id).offering)
    }

    /// Takes a free slot of a zspage.
    pub(crate) fn alloc_slot_at(
        &mut self,
        id: ExtentId,
        slot: u32,
        entry: u32,
    ) -> Result<NewSlot, Error> {
        let header = self.header(id);
        let is_free = slot < self.class.objects() && !header.is_taken(slot);
        assert!(is_free, "slot {slot} of {id:?} is taken");
        // SAFETY: the slot is free, as the assertion checked.
        let new = unsafe { self.take(id, header, slot, entry) }?;
        Ok(self.count(new))
    }

    /// Commits the pages of a free slot and takes the slot. The caller then passes the result to
    /// `count`.
    ///
    /// # Safety
    /// `header` is the header of the zspage, borrowed from this lock, and the slot is free.
    pub(crate) unsafe fn take(
        &self,
        id: ExtentId,
        header: Header<'_>,
        slot: u32,
        entry: u32,
    ) -> Result<NewSlot, Error> {
        let committed = header.missing(slot);
        self.memory.space.charge(committed)?;
        // SAFETY: the class is locked, and the caller guarantees that the slot is free.
        let (inuse, reused) = unsafe { header.take(slot, entry) };
        let next = self.class.next_page(slot);
        let wants_page = next.is_some_and(|page| !header.fixed().committed().contains(page));
        let offset = header.offset(slot);
        Ok(NewSlot { id, slot, offset, committed, reused, inuse, wants_page })
    }

    /// Updates the counts and lists after `take`.
    pub(crate) fn count(&mut self, new: NewSlot) -> NewSlot {
        self.state.inuse += 1;
        self.state.committed += new.committed;
        if new.reused > 0 {
            self.state.retained -= new.reused;
            self.retained.take(new.reused as usize);
            let had_offer = !self.fixed_header(new.id).is_busy();
            self.update_offer(new.id, had_offer);
        }
        self.update_group(new.id, new.inuse - 1, new.inuse);
        new
    }

    /// Frees a live slot. Returns the number of the slot's pages on which no object lies
    /// afterwards.
    ///
    /// # Safety
    /// The slot is live, and no entry refers to it any more.
    pub(crate) unsafe fn free_slot(&mut self, id: ExtentId, slot: u32) -> u32 {
        let header = self.header(id);
        // SAFETY: the class is locked, and the caller guarantees that the slot is live.
        let emptied = unsafe { header.free(slot) };
        let inuse = header.fixed().inuse();
        self.state.inuse -= 1;
        self.update_group(id, inuse + 1, inuse);
        if emptied > 0 {
            let fixed = self.fixed_header(id);
            let had_offer = !fixed.is_busy() && fixed.retained().len() > emptied;
            self.update_offer(id, had_offer);
            self.state.retained += emptied;
            self.retained.add(emptied as usize);
        }
        emptied
    }

    /// Returns the slot that lies at `offset` (of the pool's space) in zspage `id`.
    pub(crate) fn slot_at(&self, id: ExtentId, offset: u64) -> u32 {
        let at = (offset - self.memory.space.extent(id).start()) as u32;
        debug_assert!(at.is_multiple_of(self.class.grid().stride), "{at} bytes into {id:?}");
        self.class.grid().slot_at(at)
    }

    /// Adds a new zspage to the list of zspages without objects.
    pub(crate) fn insert(&mut self, zspage: Loose<'_>) {
        let id = zspage.attach(self.memory, self.class);
        self.link_group(id, 0);
        self.state.zspages += 1;
    }

    /// Adds a zspage to the lists and counts of the class, according to the zspage's header. A
    /// child of fork rebuilds lists and counts in this way.
    pub(crate) fn insert_repaired(&mut self, id: ExtentId) {
        let fixed = self.fixed_header(id);
        let (inuse, committed, retained) =
            (fixed.inuse(), fixed.committed().len(), fixed.retained().len());
        self.retained.add(retained as usize);
        self.state.zspages += 1;
        self.state.inuse += inuse;
        self.state.committed += committed;
        self.state.retained += retained;
        self.link_group(id, self.class.group(inuse));
        self.update_offer(id, false);
    }

    /// Unlinks and returns a zspage if it is unused, otherwise returns `None`.
    fn remove_if_unused(&mut self, id: ExtentId) -> Option<Loose<'p>> {
        if !self.is_unused(id) {
            return None;
        }
        self.unlink_group(id, 0);
        self.state.zspages -= 1;
        let (extent, header) = self.header_of(id);
        // SAFETY: the class is locked. The check above found the zspage unused, and no list
        // contains it any more.
        unsafe {
            extent.data.detach();
            Some(Loose::new(self.memory, self.class, id, header))
        }
    }

    /// Returns whether a zspage has neither objects nor committed pages, and is not busy.
    pub(crate) fn is_unused(&self, id: ExtentId) -> bool {
        let fixed = self.fixed_header(id);
        fixed.inuse() == 0 && !fixed.is_busy() && fixed.committed().is_empty()
    }

    pub(crate) fn destroy_if_unused(mut self, id: ExtentId) {
        let unused = self.remove_if_unused(id);
        drop(self);
        unused.into_iter().for_each(Loose::destroy);
    }

    /// Moves a zspage to the list of its new fullness group after its number of objects changed
    /// from `from` to `to`.
    fn update_group(&mut self, id: ExtentId, from: u32, to: u32) {
        let (from, to) = (self.class.group(from), self.class.group(to));
        if from != to {
            self.unlink_group(id, from);
            self.link_group(id, to);
        }
    }

    /// Links a zspage into the list of its group. Full zspages are in no list. No search needs full
    /// zspages, and linking a full zspage would access the headers of its neighbours.
    fn link_group(&mut self, id: ExtentId, group: usize) {
        if group == FULL {
            return;
        }
        let mut zspages = self.state.by_fullness[group];
        zspages.push_front(id, |id| &self.fixed_header(id).by_fullness);
        self.state.by_fullness[group] = zspages;
        self.state.groups |= 1 << group;
    }

    fn unlink_group(&mut self, id: ExtentId, group: usize) {
        if group == FULL {
            return;
        }
        let mut zspages = self.state.by_fullness[group];
        zspages.remove(id, |id| &self.fixed_header(id).by_fullness);
        self.state.by_fullness[group] = zspages;
        if zspages.is_empty() {
            self.state.groups &= !(1 << group);
        }
    }

    /// Updates the list of zspages that offer retained pages, after the header of zspage `id` has
    /// changed. `before` is true if the zspage is in the list.
    fn update_offer(&mut self, id: ExtentId, before: bool) {
        let mut offering = self.state.offering;
        let links = |id| &self.fixed_header(id).offering;
        match (before, self.fixed_header(id).has_offer()) {
            (false, true) => offering.push_front(id, links),
            (true, false) => offering.remove(id, links),
            _ => return,
        }
        let is_empty = offering.is_empty();
        if std::mem::replace(&mut self.state.offering, offering).is_empty() != is_empty {
            self.retained.set_offer(self.class, !is_empty);
        }
    }

    /// Begins to release the pages that a zspage offers, and withholds the slots on these pages.
    pub(crate) fn begin_release(&mut self, id: ExtentId) -> InFlight {
        // SAFETY: the class is locked.
        let going = unsafe { release::begin_release(self.header(id)) };
        self.update_offer(id, true);
        (id, going)
    }

    /// Ends a release. Marks the pages in `gone` as not committed, frees the withheld slots, and
    /// destroys the zspage if it is unused.
    ///
    /// # Safety
    /// `begin_release` returned `id` and the pages, and the caller has finished the release.
    pub(crate) unsafe fn end_release(mut self, id: ExtentId, gone: &PageSet) {
        // SAFETY: guaranteed by the caller.
        unsafe { release::end_release(self.header(id), gone) };
        self.retained.note_gone(gone.len() as usize);
        self.state.retained -= gone.len();
        self.state.committed -= gone.len();
        // SAFETY: guaranteed by the caller.
        unsafe { self.end_busy(id) };
    }

    /// Begins to prefault pages of a zspage that is not busy. The pages `coming` were already
    /// charged to the budget.
    pub(crate) fn begin_prefault(&mut self, id: ExtentId, coming: &PageSet) {
        assert!(coming.runs().all(|pages| pages.end <= self.class.pages()), "{coming:?} of {id:?}");
        let fixed = self.fixed_header(id);
        let had_offer = fixed.has_offer();
        // SAFETY: the class is locked, and the assertion checked that the zspage has these pages.
        let pages = unsafe { release::begin_prefault(fixed, coming) };
        self.update_offer(id, had_offer);
        self.state.committed += pages;
        self.state.retained += pages;
        self.retained.add_prefaulted(pages as usize);
    }

    /// Ends the release or the prefault of pages of a zspage. Destroys the zspage if it is unused.
    ///
    /// # Safety
    /// The caller marked the zspage as busy, and has finished its work on the pages.
    pub(crate) unsafe fn end_busy(mut self, id: ExtentId) {
        // SAFETY: guaranteed by the caller.
        unsafe { release::end_busy(self.fixed_header(id)) };
        self.update_offer(id, false);
        self.destroy_if_unused(id);
    }

    /// Returns all zspages of the class, including full ones. Checks the zspages of all classes.
    pub(crate) fn all(&self) -> impl Iterator<Item = ExtentId> {
        self.memory.space.live().filter(|&id| self.contains(id))
    }

    /// Returns whether `id` is a zspage of the class. After a thread reads `id`, and before it
    /// locks the class, the zspage may be freed, or join another class. A zspage that is being
    /// created or destroyed has no header, and belongs to no class.
    pub(crate) fn contains(&self, id: ExtentId) -> bool {
        self.memory.space.extent(id).data.header(self.class.position).is_some()
    }

    /// Moves the header of zspage `id` to a lower address, if a page that holds other headers has
    /// space there. Does nothing if `id` is no longer a zspage of the class.
    pub(crate) fn relocate_header(&mut self, id: ExtentId) {
        if !self.contains(id) {
            return;
        }
        let (extent, old) = self.header_of(id);
        let objects = self.class.objects();
        // SAFETY: `old` is the header of the zspage, and changes only under this lock.
        let Some(new) = (unsafe { self.memory.copy_header(objects, old) }) else { return };
        // SAFETY: `new` was just created for `objects` objects.
        unsafe { extent.data.attach(self.class.position, new) };
        // SAFETY: `old` was created for `objects` objects, and the zspage has another header now.
        // Every borrow of `old` borrowed this lock, which is borrowed mutably here, so no borrow is
        // left.
        unsafe { self.memory.free_header(objects, old) };
    }
}
