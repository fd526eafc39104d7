//! The exclusive lock of an entry, under which an object or a payload of the user is stored in the
//! entry.
//!
//! A store first writes a new object, then changes the entry under the lock, and frees the old
//! object last. So an entry never refers to an incomplete or freed object.
#![allow(unsafe_code)]

use crate::class::Class;
use crate::class_guard::NewSlot;
use crate::entry::{Location, Value};
use crate::fork::RepairedPool;
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

/// Allocates a slot for an object of `len` bytes that entry `index` will refer to. Returns the
/// slot's offset.
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

/// Asks the prefault thread to commit the page of the class's next object.
fn request_page(inner: &PoolInner, class: &Class) {
    if inner.prefaulter.is_enabled() && policy::prefaults(inner.used()) {
        inner.retained.want(class);
        inner.prefaulter.notify();
    }
}

/// Allocates a slot of `class` for entry `index`. At the limit, tries slots on committed pages,
/// then releases retained pages, or waits for another thread that is releasing pages.
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
                    // Memory for metadata was refused. The supply may grant it after a release of
                    // retained pages, so retained pages are released before the next attempt.
                    Err(refused) => refused,
                }
            }
            Err(refused) => {
                let few = Search::Committed(SCAN_FEW);
                if let Some(new) = search::alloc_slot(&mut locked, index, few)? {
                    return Ok(new);
                }
                drop(locked);
                refused
            }
        };
        refusals += 1;
        let has_purged = purge::purge(inner, PURGE_AT_LIMIT) > 0;
        // This check must follow the purge. Another thread may have taken the retained pages before
        // the purge. The other thread is still releasing the pages, or has released them after the
        // slot was refused.
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

/// Frees an object of `len` bytes at `offset` in a zspage of `class`. No entry refers to the object
/// any more.
///
/// # Safety
/// The object exists, and only the caller is allowed to free it.
unsafe fn free(inner: &PoolInner, class: &Class, zspage: ExtentId, offset: u64, len: usize) {
    inner.count_len(Some(len), None);
    let mut locked = inner.lock(class);
    let slot = locked.slot_at(zspage, offset);
    // SAFETY: guaranteed by the caller.
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

/// A stored object to which no entry refers yet. The object is freed on drop.
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
        // SAFETY: the slot was just allocated for `bytes.len()` bytes, and no entry refers to it
        // yet (zs-M2).
        unsafe { inner.memory.write(offset, bytes) };
        Ok(StagedObject { inner, index, offset, len: bytes.len(), stamp: ForkStamp::now() })
    }
}

impl Drop for StagedObject<'_> {
    fn drop(&mut self) {
        // In a child of fork, the repair frees objects to which no entry refers.
        if !self.stamp.is_stale() {
            let (class, zspage) = self.inner.locate(self.offset);
            // SAFETY: `new` stored the object. When an entry is changed to refer to the object,
            // this value is forgotten. So no entry refers to the object now.
            unsafe { free(self.inner, class, zspage, self.offset, self.len) };
        }
    }
}

/// The object of a locked entry. The object is not moved while the entry is locked.
#[derive(Clone, Copy, Debug)]
struct Object<'p> {
    location: Location,
    class: &'p Class,
    zspage: ExtentId,
}

impl Object<'_> {
    /// Returns whether `bytes` fit into the object's slot.
    fn has_room_for(&self, bytes: &[u8]) -> bool {
        !bytes.is_empty() && bytes.len() <= self.class.capacity()
    }
}

/// A slot that is reserved for bytes of an entry. If the slot is new, it is freed on drop.
#[derive(Debug)]
pub struct Reservation<'p> {
    held: Option<Object<'p>>,
    /// The object staged for the bytes, or `None` if the bytes replace the entry's object in place.
    staged: Option<StagedObject<'p>>,
}

/// An exclusively locked entry. Dropping the guard leaves the entry unchanged.
#[derive(Debug)]
pub struct EntryWriteGuard<'p> {
    inner: &'p PoolInner,
    index: u32,
    lock: WriteLock<'p>,
}

impl<'p> EntryWriteGuard<'p> {
    /// Locks entry `index`, and creates the entry if it does not exist.
    #[inline]
    pub(crate) fn lock(pool: RepairedPool<'p>, index: u32) -> Result<Self, Error> {
        pool.check_index(index)?;
        Ok(EntryWriteGuard { inner: pool.inner(), index, lock: pool.entries().lock(index)? })
    }

    /// Locks entry `index` if it exists and `admits` returns true for its row.
    pub(crate) fn lock_existing(
        pool: RepairedPool<'p>,
        index: u32,
        admits: impl Fn(Row<'_>) -> bool,
    ) -> Option<Self> {
        // A node may have entries beyond the pool's last entry.
        pool.check_index(index).ok()?;
        let lock = pool.entries().lock_existing(index, admits)?;
        Some(EntryWriteGuard { inner: pool.inner(), index, lock })
    }

    /// Locks the entry of a free handle slot, which is empty. Returns the slot's number and the
    /// guard.
    pub(crate) fn claim(pool: RepairedPool<'p>, slots: &HandleSlots) -> Result<(u32, Self), Error> {
        let (index, lock) = slots.claim(pool.entries())?;
        Ok((index, EntryWriteGuard { inner: pool.inner(), index, lock }))
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
                // SAFETY: the entry refers to the object and is locked while this guard is
                // borrowed. Functions that change the bytes take the guard by value.
                let bytes = unsafe { self.inner.memory.read(offset, len) };
                Content::Object { bytes, flags }
            }
            Err(payload) => Content::Inline(payload),
        }
    }

    fn object(&self) -> Option<Object<'p>> {
        let location = self.lock.value().decode().ok()?;
        let (class, zspage) = self.inner.locate(location.offset);
        Some(Object { location, class, zspage })
    }

    /// Stores `bytes` in a new object for this entry. The entry does not refer to the object yet.
    pub fn stage(&self, bytes: &[u8]) -> Result<StagedObject<'p>, Error> {
        self.lock.assert_same_process();
        StagedObject::new(self.inner, self.index, bytes)
    }

    /// Stores `bytes` in the entry, and unlocks the entry. Combines [`reserve`](Self::reserve) and
    /// [`store_in`](Self::store_in). On an error the entry is unlocked unchanged.
    pub fn store(self, bytes: &[u8], flags: u8) -> Result<Old, Error> {
        let room = self.reserve(bytes)?;
        Ok(self.store_in(room, bytes, flags))
    }

    /// Reserves a slot for `bytes`. The slot of the entry's object is reused if `bytes` belong in
    /// the class of this object. The slot is also reused if `bytes` fit in the slot and the pool
    /// has no room for a second object (I6).
    pub fn reserve(&self, bytes: &[u8]) -> Result<Reservation<'p>, Error> {
        let held = self.object();
        let in_place = Reservation { held, staged: None };
        if held.is_some_and(|object| object.class.takes(bytes.len())) {
            return Ok(in_place);
        }
        match self.stage(bytes) {
            Err(_) if held.is_some_and(|object| object.has_room_for(bytes)) => Ok(in_place),
            staged => Ok(Reservation { held, staged: Some(staged?) }),
        }
    }

    /// Stores `bytes` in `room`, which was reserved under this lock, and unlocks the entry.
    ///
    /// # Panics
    /// Panics if `room` was reserved for another entry or for another number of bytes.
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

    /// Changes the entry to refer to `staged`, unlocks it, and frees the entry's previous object.
    ///
    /// # Panics
    /// Panics if `staged` belongs to another entry or pool.
    pub fn replace(self, staged: StagedObject<'p>, flags: u8) -> Old {
        let held = self.object();
        self.name_staged(staged, flags, held)
    }

    fn name_staged(self, staged: StagedObject<'p>, flags: u8, held: Option<Object<'p>>) -> Old {
        let (of, index) = (staged.index, self.index);
        let is_ours = std::ptr::eq(staged.inner, self.inner) && of == index;
        assert!(is_ours, "an object staged for entry {of} is given to entry {index}");
        staged.stamp.assert_same_process();
        let value = Value::object(Location { offset: staged.offset, len: staged.len, flags });
        std::mem::forget(staged);
        // SAFETY: the object was staged for this entry in this pool, it is complete, and no other
        // entry refers to it.
        unsafe { self.finish(value, held) }
    }

    /// Stores `payload` (59 bits) in the entry, unlocks it, and frees the entry's previous object.
    ///
    /// # Panics
    /// Panics if `payload` has more than 59 bits.
    pub fn set_payload(self, payload: u64) -> Old {
        let (value, held) = (Value::inline(payload), self.object());
        // SAFETY: `value` refers to no object.
        unsafe { self.finish(value, held) }
    }

    /// Overwrites the entry's object with `bytes`, and unlocks the entry. If `bytes` do not fit in
    /// the object's slot, changes nothing and returns the guard. Callers use this function if the
    /// pool has no room for a second object (I6).
    pub fn overwrite(self, bytes: &[u8], flags: u8) -> Result<Old, Self> {
        match self.object() {
            Some(object) if object.has_room_for(bytes) => {
                Ok(self.store_in_place(object, bytes, flags))
            }
            _ => Err(self),
        }
    }

    /// Writes `bytes`, which must fit, in the slot of the entry's object, and unlocks the entry.
    fn store_in_place(self, object: Object<'p>, bytes: &[u8], flags: u8) -> Old {
        let Object { location: Location { offset, len, flags: old_flags }, class, .. } = object;
        let value = Value::object(Location { offset, len: bytes.len(), flags });
        self.inner.count_len(Some(len), Some(bytes.len()));
        // The class's lock is held so that a mover copies only complete objects. A fork takes this
        // lock too, so in a child the length in the entry matches the object's bytes.
        let _locked = self.inner.lock(class);
        // SAFETY: the object's slot has space for `bytes`. The object's entry is locked
        // exclusively, and its class is locked (zs-M2). The entry still refers to the same place.
        unsafe {
            self.inner.memory.write(offset, bytes);
            self.lock.unlock(value);
        }
        Old::Object { bytes: len, flags: old_flags }
    }

    /// Overwrites the first bytes of the entry's object with `bytes`, and unlocks the entry. The
    /// object keeps its length.
    pub fn patch(self, bytes: &[u8]) -> Result<(), Error> {
        let held = self.object();
        let len = held.map_or(0, |object| object.location.len);
        match held {
            Some(object) if bytes.len() <= len => {
                let _locked = self.inner.lock(object.class);
                // SAFETY: the bytes lie in the object. The object's entry is locked exclusively,
                // and its class is locked (zs-M2).
                unsafe { self.inner.memory.write(object.location.offset, bytes) };
                Ok(())
            }
            _ => Err(Error::Length { len: bytes.len(), object: len }),
        }
    }

    /// Sets the flags of the entry's object, if the entry holds an object, and unlocks the entry.
    pub fn set_flags(self, flags: u8) {
        if let Ok(place) = self.lock.value().decode() {
            // SAFETY: the entry still refers to the same object.
            unsafe { self.lock.unlock(Value::object(place.with_flags(flags))) };
        }
    }

    /// Sets the entry's value, unlocks the entry, and frees its previous object.
    ///
    /// # Safety
    /// If `value` refers to an object, the object is in this pool and complete, and no other entry
    /// refers to it. `held` is the object that the entry holds.
    unsafe fn finish(self, value: Value, held: Option<Object<'p>>) -> Old {
        let (inner, old) = (self.inner, self.lock.value());
        // SAFETY: guaranteed by the caller.
        unsafe { self.lock.unlock(value) };
        if let Some(Object { location, class, zspage }) = held {
            // SAFETY: only this entry referred to the object, and no longer does.
            unsafe { free(inner, class, zspage, location.offset, location.len) };
        }
        old.into()
    }
}
