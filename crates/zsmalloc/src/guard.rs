//! The exclusive lock of an entry, and the changes made under it: the entry is given an object, or
//! a payload of the user's.
//!
//! A store builds first, swaps under the lock, and frees last: a new object is whole before the
//! entry names it, and the old one is freed after the entry no longer does.
#![allow(unsafe_code)]

use crate::class::Class;
use crate::class_guard::NewSlot;
use crate::entry::{Location, Value};
use crate::fork::Here;
use crate::handle_slots::HandleSlots;
use crate::inner::PoolInner;
use crate::plan::Purpose;
use crate::policy::{self, ASK_EVERY, ATTEMPTS, PURGE_AT_LIMIT, SCAN_FEW, SCAN_MAX};
use crate::read_guard::{Content, Old};
use crate::search::{self, Search};
use crate::sync::Backoff;
use crate::table::{ForkStamp, Row, WriteLock};
use crate::{Error, purge};
use page::ExtentId;

/// Takes a slot for `len` bytes of entry `index`; its offset.
fn alloc(inner: &PoolInner, len: usize, index: u32) -> Result<u64, Error> {
    let (own, class) = inner.classes_of(len)?;
    let new = alloc_slot(inner, class, index)?;
    own.grow_population();
    if new.wants_page {
        request_page(inner, class);
    }
    if new.committed() > 0 && inner.plan.is_outgrown(inner.used()) {
        inner.replan(Purpose::Growth);
        if inner.has_grown().is_some() {
            inner.compactor.notify();
        }
    }
    Ok(new.offset())
}

/// Takes note that the next object of a class will lie on a page that is not there yet, for the
/// thread that prefaults.
fn request_page(inner: &PoolInner, class: &Class) {
    if inner.prefaulter.is_enabled() && policy::prefaults(inner.used()) {
        inner.retained.want(class);
        inner.prefaulter.notify();
    }
}

/// At the limit, slots on committed pages are tried, then pages retained are given back, or those
/// waited for that another thread gives back.
fn alloc_slot(inner: &PoolInner, class: &Class, index: u32) -> Result<NewSlot, Error> {
    let mut backoff = Backoff::default();
    let mut refusals = 0;
    loop {
        let released = inner.retained.released();
        let mut locked = inner.lock(class);
        let refused = match search::alloc_slot(&mut locked, index, Search::Lowest) {
            Ok(Some(new)) => return Ok(new),
            Ok(None) => {
                drop(locked);
                match inner.memory.create(class) {
                    Ok(zspage) => {
                        inner.lock(class).insert(zspage);
                        continue;
                    }
                    // A supply that refuses memory for metadata may count retained pages too.
                    Err(refused) => refused,
                }
            }
            Err(refused) => {
                match search::alloc_slot(&mut locked, index, Search::Committed(SCAN_FEW))? {
                    Some(new) => return Ok(new),
                    None => {
                        drop(locked);
                        refused
                    }
                }
            }
        };
        refusals += 1;
        let has_purged = purge::purge(inner, PURGE_AT_LIMIT) > 0;
        // This comes after the look for pages: a thread that had some of them is still at it, or
        // they came since the slot was refused.
        let others_release = inner.retained.is_release_under_way(released);
        if refusals == ATTEMPTS || !(has_purged || others_release) {
            let mut locked = inner.lock(class);
            let last = search::alloc_slot(&mut locked, index, Search::Committed(SCAN_MAX))?;
            purge::destroy_one_unused(locked);
            return last.ok_or(refused);
        }
        if !has_purged {
            backoff.wait();
        }
    }
}

/// Frees an object of `len` bytes at `offset` in a zspage of `class`, that no entry names any more.
///
/// # Safety
/// There is one, and it is the caller's to free.
unsafe fn free(inner: &PoolInner, class: &Class, zspage: ExtentId, offset: u64, len: usize) {
    inner.count_len(Some(len), None);
    let mut locked = inner.lock(class);
    let slot = locked.slot_at(zspage, offset);
    // SAFETY: as the caller says.
    let emptied = unsafe { locked.free_slot(zspage, slot) };
    let is_worth_asking = locked.state.inuse.is_multiple_of(ASK_EVERY)
        && (policy::should_begin(locked.gain(), locked.state.committed)
            || inner.plan.is_too_large(inner.used()));
    if emptied > 0 {
        purge::retain(inner, locked, zspage);
    } else {
        drop(locked);
    }
    if is_worth_asking {
        inner.compactor.notify();
    }
}

/// A stored object that no entry names yet; it is freed on drop.
#[derive(Debug)]
pub struct StagedObject<'p> {
    inner: &'p PoolInner,
    index: u32,
    offset: u64,
    len: usize,
    stamp: ForkStamp,
}

impl<'p> StagedObject<'p> {
    pub(crate) fn new(inner: &'p PoolInner, index: u32, bytes: &[u8]) -> Result<Self, Error> {
        let offset = alloc(inner, bytes.len(), index)?;
        // SAFETY: it was taken just now for so many bytes, and no entry names it yet (zs-M2).
        unsafe { inner.memory.write(offset, bytes) };
        Ok(StagedObject { inner, index, offset, len: bytes.len(), stamp: ForkStamp::now() })
    }
}

impl Drop for StagedObject<'_> {
    fn drop(&mut self) {
        // A child frees what no entry names.
        if !self.stamp.is_stale() {
            let (class, zspage) = self.inner.locate(self.offset);
            // SAFETY: `new` stored it, and no entry was made to name it, or it would be forgotten.
            unsafe { free(self.inner, class, zspage, self.offset, self.len) };
        }
    }
}

/// An object that a locked entry names: it stays in its place as long as the entry is locked.
#[derive(Clone, Copy, Debug)]
struct Object<'p> {
    location: Location,
    class: &'p Class,
    zspage: ExtentId,
}

impl Object<'_> {
    /// Returns whether `bytes` may lie in its slot.
    fn has_room_for(&self, bytes: &[u8]) -> bool {
        !bytes.is_empty() && bytes.len() <= self.class.capacity()
    }
}

/// Room for bytes that an entry is to hold; it is released on drop.
#[derive(Debug)]
pub struct Reservation<'p> {
    /// What the entry holds.
    held: Option<Object<'p>>,
    /// The stored bytes; `None` if they go to the place of the object that the entry holds.
    staged: Option<StagedObject<'p>>,
}

/// An exclusively locked entry; it is unchanged if this is dropped.
#[derive(Debug)]
pub struct EntryWriteGuard<'p> {
    inner: &'p PoolInner,
    index: u32,
    lock: WriteLock<'p>,
}

impl<'p> EntryWriteGuard<'p> {
    /// Locks entry `index`, made if there is none.
    #[inline]
    pub(crate) fn lock(here: Here<'p>, index: u32) -> Result<Self, Error> {
        here.check_index(index)?;
        Ok(EntryWriteGuard { inner: here.inner(), index, lock: here.entries().lock(index)? })
    }

    /// The same, if there is one and `admits` says so of its row.
    pub(crate) fn lock_existing(
        here: Here<'p>,
        index: u32,
        admits: impl Fn(Row<'_>) -> bool,
    ) -> Option<Self> {
        // A node may have entries behind the last.
        here.check_index(index).ok()?;
        let lock = here.entries().lock_existing(index, admits)?;
        Some(EntryWriteGuard { inner: here.inner(), index, lock })
    }

    /// Locks the entry of a free handle slot, which is empty; and its number.
    pub(crate) fn claim(here: Here<'p>, handles: &HandleSlots) -> Result<(u32, Self), Error> {
        let (index, lock) = handles.claim(here.entries())?;
        Ok((index, EntryWriteGuard { inner: here.inner(), index, lock }))
    }

    /// Returns the row beside the entry.
    #[inline]
    pub fn row(&self) -> Row<'_> {
        self.lock.row()
    }

    /// Returns the entry's content.
    pub fn content(&self) -> Content<&[u8]> {
        match self.lock.value().decode() {
            Ok(Location { offset, len, flags }) => {
                // SAFETY: the entry names it and is locked as long as this guard is borrowed; what
                // changes the bytes takes the guard.
                let bytes = unsafe { self.inner.memory.read(offset, len) };
                Content::Object { bytes, flags }
            }
            Err(payload) => Content::Inline(payload),
        }
    }

    /// Returns the object the entry holds, if it does.
    fn object(&self) -> Option<Object<'p>> {
        let location = self.lock.value().decode().ok()?;
        let (class, zspage) = self.inner.locate(location.offset);
        Some(Object { location, class, zspage })
    }

    /// Stores `bytes` for this entry, which does not name them yet.
    pub fn stage(&self, bytes: &[u8]) -> Result<StagedObject<'p>, Error> {
        self.lock.assert_same_process();
        StagedObject::new(self.inner, self.index, bytes)
    }

    /// Makes the entry hold `bytes`, and unlocks it: [`reserve`](Self::reserve) and
    /// [`store_in`](Self::store_in) in one call. On an error nothing has changed.
    pub fn store(self, bytes: &[u8], flags: u8) -> Result<Old, Error> {
        let room = self.reserve(bytes)?;
        Ok(self.store_in(room, bytes, flags))
    }

    /// Finds room for `bytes`, which the entry does not hold yet. The room is the place of the
    /// object that the entry holds, if a new object would lie in the same class, or if it fits
    /// there and the pool has no room for both (I6).
    pub fn reserve(&self, bytes: &[u8]) -> Result<Reservation<'p>, Error> {
        let held = self.object();
        if held.is_some_and(|object| object.class.takes(bytes.len())) {
            return Ok(Reservation { held, staged: None });
        }
        match self.stage(bytes) {
            Ok(staged) => Ok(Reservation { held, staged: Some(staged) }),
            Err(_) if held.is_some_and(|object| object.has_room_for(bytes)) => {
                Ok(Reservation { held, staged: None })
            }
            Err(error) => Err(error),
        }
    }

    /// Makes the entry hold `bytes`, for which `room` was reserved under this lock, and unlocks it.
    ///
    /// # Panics
    /// If `room` is another entry's, or for other bytes.
    pub fn store_in(self, room: Reservation<'p>, bytes: &[u8], flags: u8) -> Old {
        let location = self.lock.value().decode().ok();
        let is_ours = room.held.map(|object| object.location) == location;
        assert!(is_ours, "{room:?} was not reserved with this lock of entry {}", self.index);
        match (room.staged, room.held) {
            (Some(staged), held) => self.name_staged(staged, flags, held),
            (None, Some(object)) if object.has_room_for(bytes) => {
                self.store_in_place(object, bytes, flags)
            }
            (None, held) => panic!("no room was reserved for {} bytes; {held:?}", bytes.len()),
        }
    }

    /// Makes the entry name `staged`, which was staged for it, unlocks it, and frees what it held.
    ///
    /// # Panics
    /// If `staged` is of another entry or pool.
    pub fn replace(self, staged: StagedObject<'p>, flags: u8) -> Old {
        let held = self.object();
        self.name_staged(staged, flags, held)
    }

    fn name_staged(self, staged: StagedObject<'p>, flags: u8, held: Option<Object<'p>>) -> Old {
        let is_ours = std::ptr::eq(staged.inner, self.inner) && staged.index == self.index;
        assert!(
            is_ours,
            "an object staged for entry {} is given to entry {}",
            staged.index, self.index
        );
        staged.stamp.assert_same_process();
        let value = Value::object(Location { offset: staged.offset, len: staged.len, flags });
        std::mem::forget(staged);
        // SAFETY: it was staged for this entry, in this pool, and is whole; it is named once.
        unsafe { self.finish(value, held) }
    }

    /// Makes the entry hold `payload` (59 bits), unlocks it, and frees what it held.
    ///
    /// # Panics
    /// If `payload` has more than 59 bits.
    pub fn set_payload(self, payload: u64) -> Old {
        let (value, held) = (Value::inline(payload), self.object());
        // SAFETY: it names no object.
        unsafe { self.finish(value, held) }
    }

    /// Puts `bytes` in the place of the entry's object, if they fit in its slot: an overwrite does
    /// this if the pool has no room for both (I6). Otherwise returns the lock, with nothing
    /// changed.
    pub fn overwrite(self, bytes: &[u8], flags: u8) -> Result<Old, Self> {
        match self.object() {
            Some(object) if object.has_room_for(bytes) => {
                Ok(self.store_in_place(object, bytes, flags))
            }
            _ => Err(self),
        }
    }

    /// Puts `bytes`, which fit there, in the place of the object the entry holds, and unlocks it.
    fn store_in_place(self, object: Object<'p>, bytes: &[u8], flags: u8) -> Old {
        let Object { location: Location { offset, len, flags: old_flags }, class, .. } = object;
        let value = Value::object(Location { offset, len: bytes.len(), flags });
        self.inner.count_len(Some(len), Some(bytes.len()));
        // A mover copies under the class's lock what it found whole. A fork takes it too: in the
        // child the entry says how long the bytes are that are there.
        let locked = self.inner.lock(class);
        // SAFETY: the object's slot has room for them; its entry is locked exclusively and its
        // class is locked (zs-M2). The entry goes on to name the same place.
        unsafe {
            self.inner.memory.write(offset, bytes);
            self.lock.unlock(value);
        }
        drop(locked);
        Old::Object { bytes: len, flags: old_flags }
    }

    /// Overwrites the first bytes of the entry's object with `bytes`; the object keeps its length.
    /// Unlocks the entry.
    pub fn patch(self, bytes: &[u8]) -> Result<(), Error> {
        let held = self.object();
        let len = held.map_or(0, |object| object.location.len);
        match held {
            Some(object) if bytes.len() <= len => {
                let locked = self.inner.lock(object.class);
                // SAFETY: as in `store_in_place`.
                unsafe { self.inner.memory.write(object.location.offset, bytes) };
                drop(locked);
                Ok(())
            }
            _ => Err(Error::Length { len: bytes.len(), object: len }),
        }
    }

    /// Sets the flags of the entry's object, if it holds one, and unlocks the entry.
    pub fn set_flags(self, flags: u8) {
        if let Ok(place) = self.lock.value().decode() {
            // SAFETY: it is the object that the entry names.
            unsafe { self.lock.unlock(Value::object(place.with_flags(flags))) };
        }
    }

    /// Unlocks the entry, which says `value` from then on, and frees what it held.
    ///
    /// # Safety
    /// An object that `value` names lies in this pool, whole, and no other entry names it; `held`
    /// is what the entry holds.
    unsafe fn finish(self, value: Value, held: Option<Object<'p>>) -> Old {
        let (inner, old) = (self.inner, self.lock.value());
        // SAFETY: as the caller says.
        unsafe { self.lock.unlock(value) };
        if let Some(Object { location, class, zspage }) = held {
            // SAFETY: the entry named it up to now, and no other does.
            unsafe { free(inner, class, zspage, location.offset, location.len) };
        }
        old.into()
    }
}
