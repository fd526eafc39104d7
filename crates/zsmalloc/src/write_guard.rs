//! An entry locked for a change, and what it is given: an object that lies somewhere, or bits of
//! its user's.
//!
//! Storing builds before, swaps under the lock, frees after: a new object is whole before the entry
//! names it, the old one is freed after it no longer does.

use crate::Error;
use crate::class::Class;
use crate::entry::{Location, PAYLOAD_BITS, Value};
use crate::entry_pool::{Content, Old};
use crate::fork_stamp::ForkStamp;
use crate::inner::PoolInner;
use crate::table::{Row, WriteLock};

/// An object that is stored though no entry names it yet; freed on drop.
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
        let offset = inner.alloc(bytes.len(), index)?;
        inner.memory.write(offset, bytes);
        Ok(StagedObject { inner, index, offset, len: bytes.len(), stamp: ForkStamp::now() })
    }
}

impl Drop for StagedObject<'_> {
    fn drop(&mut self) {
        // A child frees what no entry names.
        if !self.stamp.is_stale() {
            self.inner.free(self.offset, self.len);
        }
    }
}

/// Room for bytes that an entry is to hold; given back on drop.
#[derive(Debug)]
pub struct Reservation<'p>(Room<'p>);

#[derive(Debug)]
enum Room<'p> {
    /// In the place of what the entry holds.
    InPlace(Location, &'p Class),
    Staged(StagedObject<'p>),
}

/// An entry locked for a change; unchanged if dropped.
#[derive(Debug)]
pub struct EntryWriteGuard<'p> {
    inner: &'p PoolInner,
    index: u32,
    lock: WriteLock<'p>,
}

impl<'p> EntryWriteGuard<'p> {
    pub(crate) fn new(inner: &'p PoolInner, index: u32, lock: WriteLock<'p>) -> Self {
        EntryWriteGuard { inner, index, lock }
    }

    /// What lies beside the entry.
    pub fn row(&self) -> Row<'_> {
        self.lock.row()
    }

    /// What the entry holds.
    pub fn content(&self) -> Content<'_> {
        match self.lock.value().decode() {
            Ok(Location { offset, len, flags }) => {
                Content::Object { bytes: self.inner.memory.read(offset, len), flags }
            }
            Err(payload) => Content::Inline(payload),
        }
    }

    /// Stores `bytes` for this entry, which does not name them yet.
    pub fn stage(&self, bytes: &[u8]) -> Result<StagedObject<'p>, Error> {
        self.lock.assert_same_process();
        StagedObject::new(self.inner, self.index, bytes)
    }

    /// Makes the entry hold `bytes`, and unlocks it: [`reserve`](Self::reserve) and
    /// [`store_in`](Self::store_in). On an error nothing has changed.
    pub fn store(self, bytes: &[u8], flags: u8) -> Result<Old, Error> {
        let room = self.reserve(bytes)?;
        Ok(self.store_in(room, bytes, flags))
    }

    /// Finds room for `bytes`, which the entry does not hold yet: the place of what it holds where
    /// a new object would lie in the same class, which moves nothing else; and where the pool has
    /// no room for both (I6).
    pub fn reserve(&self, bytes: &[u8]) -> Result<Reservation<'p>, Error> {
        let held = self.object();
        if let Some((place, class)) = held
            && class.takes(bytes.len())
        {
            return Ok(Reservation(Room::InPlace(place, class)));
        }
        match (self.stage(bytes), held) {
            (Ok(staged), _) => Ok(Reservation(Room::Staged(staged))),
            (Err(_), Some((place, class))) if fits(bytes, class) => {
                Ok(Reservation(Room::InPlace(place, class)))
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Makes the entry hold `bytes`, for which `room` was found with this lock, and unlocks it.
    ///
    /// # Panics
    /// When `room` is another entry's, or for other bytes.
    pub fn store_in(self, room: Reservation<'p>, bytes: &[u8], flags: u8) -> Old {
        match room.0 {
            Room::Staged(staged) => self.replace(staged, flags),
            Room::InPlace(place, class) => {
                let is_ours = self.lock.value().decode() == Ok(place) && fits(bytes, class);
                assert!(is_ours, "room at {place:?} is not for entry {}", self.index);
                self.store_in_place(place, class, bytes, flags)
            }
        }
    }

    /// Makes the entry name `staged`, which was staged for it, unlocks it and frees what it held.
    ///
    /// # Panics
    /// When `staged` is of another entry or pool.
    pub fn replace(self, staged: StagedObject<'p>, flags: u8) -> Old {
        let ours = std::ptr::eq(staged.inner, self.inner) && staged.index == self.index;
        assert!(
            ours,
            "an object staged for entry {} is given to entry {}",
            staged.index, self.index
        );
        staged.stamp.assert_same_process();
        self.lock.assert_same_process();
        let place = Location { offset: staged.offset, len: staged.len, flags };
        std::mem::forget(staged);
        self.finish(Value::object(place))
    }

    /// Makes the entry hold `payload` (59 bits), unlocks it and frees what it held.
    ///
    /// # Panics
    /// When `payload` has more than 59 bits.
    pub fn set_payload(self, payload: u64) -> Old {
        assert!(payload >> PAYLOAD_BITS == 0, "payload {payload:#x} has more than 59 bits");
        self.finish(Value::inline(payload))
    }

    /// Puts `bytes` in the place of the object the entry holds, if they fit in its slot: what an
    /// overwrite does when the pool has no room for both (I6). Else the lock comes back, nothing
    /// changed.
    pub fn overwrite(self, bytes: &[u8], flags: u8) -> Result<Old, Self> {
        match self.object() {
            Some((place, class)) if fits(bytes, class) => {
                Ok(self.store_in_place(place, class, bytes, flags))
            }
            _ => Err(self),
        }
    }

    /// The object the entry holds, if it does, and its class.
    fn object(&self) -> Option<(Location, &'p Class)> {
        let place = self.lock.value().decode().ok()?;
        Some((place, self.inner.locate(place.offset).0))
    }

    /// Puts `bytes`, which fit there, in the place of the object the entry holds, and unlocks it.
    fn store_in_place(self, place: Location, class: &Class, bytes: &[u8], flags: u8) -> Old {
        self.inner.count_len(Some(place.len), Some(bytes.len()));
        // A mover copies under the class's lock what it found whole. A fork takes it too: in the
        // child the entry says how long the bytes are that are there.
        let locked = self.inner.lock(class);
        self.inner.memory.write(place.offset, bytes);
        let new = Location { offset: place.offset, len: bytes.len(), flags };
        self.lock.unlock(Value::object(new));
        drop(locked);
        Old::Object { len: place.len, flags: place.flags }
    }

    /// Writes `bytes` over the first of the object the entry holds, which keeps its length, and
    /// unlocks it.
    pub fn patch(self, bytes: &[u8]) -> Result<(), Error> {
        let value = self.lock.value().decode();
        let object = value.map_or(0, |place| place.len);
        match value {
            Ok(place) if bytes.len() <= object => {
                let locked = self.inner.lock(self.inner.locate(place.offset).0);
                self.inner.memory.write(place.offset, bytes);
                drop(locked);
                Ok(())
            }
            _ => Err(Error::Length { len: bytes.len(), object }),
        }
    }

    /// Gives the object the entry holds other flags, and unlocks it; nothing else where it holds
    /// none.
    pub fn set_flags(self, flags: u8) {
        if let Ok(place) = self.lock.value().decode() {
            self.lock.unlock(Value::object(place.with_flags(flags)));
        }
    }

    fn finish(self, value: Value) -> Old {
        let (inner, old) = (self.inner, self.lock.value());
        self.lock.unlock(value);
        if let Ok(place) = old.decode() {
            inner.free(place.offset, place.len);
        }
        old.into()
    }
}

/// Whether an object of `bytes` may lie in a slot of the class.
fn fits(bytes: &[u8], class: &Class) -> bool {
    !bytes.is_empty() && bytes.len() <= class.capacity()
}
