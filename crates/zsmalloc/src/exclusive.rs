//! A word locked for a change, and what it is given: an object that lies somewhere, or bits of its owner's.
//!
//! Storing builds before, swaps under the lock, frees after: a new object is whole before the word names it, the old one
//! is freed after it no longer does.

use crate::Error;
use crate::class::Class;
use crate::core::{Content, Old};
use crate::locked::Locked;
use crate::parts::Parts;
use crate::since::Since;
use crate::word::{PAYLOAD_BITS, Place, Value};
use crate::words::{Beside, Held};

/// An object that is stored though no word names it yet; freed on drop.
#[derive(Debug)]
pub struct Staged<'p> {
    parts: &'p Parts,
    index: u32,
    offset: u64,
    len: usize,
    since: Since,
}

impl<'p> Staged<'p> {
    pub(crate) fn new(parts: &'p Parts, index: u32, bytes: &[u8]) -> Result<Self, Error> {
        let offset = parts.alloc(bytes.len(), index)?;
        parts.memory.write(offset, bytes);
        Ok(Staged { parts, index, offset, len: bytes.len(), since: Since::now() })
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        // A child frees what no word names.
        if !self.since.is_over() {
            self.parts.free(self.offset, self.len);
        }
    }
}

/// Room for bytes that a word is to hold; given back on drop.
#[derive(Debug)]
pub struct Room<'p>(Where<'p>);

#[derive(Debug)]
enum Where<'p> {
    /// In the place of what the word holds.
    There(Place, &'p Class),
    Beside(Staged<'p>),
}

/// A word locked for a change; unchanged if dropped.
#[derive(Debug)]
pub struct Exclusive<'p, E: Beside = ()> {
    parts: &'p Parts,
    index: u32,
    word: Held<'p, E>,
}

impl<'p, E: Beside> Exclusive<'p, E> {
    pub(crate) fn new(parts: &'p Parts, index: u32, word: Held<'p, E>) -> Self {
        Exclusive { parts, index, word }
    }

    /// What lies beside the word.
    pub fn beside(&self) -> &E {
        self.word.beside()
    }

    /// What the word holds.
    pub fn content(&self) -> Content<'_> {
        match self.word.value().decode() {
            Ok(Place { offset, len, mark }) => {
                Content::Object { bytes: self.parts.memory.read(offset, len), mark }
            }
            Err(payload) => Content::Inline(payload),
        }
    }

    /// Stores `bytes` for this word, which does not name them yet.
    pub fn stage(&self, bytes: &[u8]) -> Result<Staged<'p>, Error> {
        self.word.expect_here();
        Staged::new(self.parts, self.index, bytes)
    }

    /// Makes the word hold `bytes`, and unlocks it: [`reserve`](Self::reserve) and [`commit`](Self::commit). On an error
    /// nothing has changed.
    pub fn store(self, bytes: &[u8], mark: u8) -> Result<Old, Error> {
        let room = self.reserve(bytes)?;
        Ok(self.commit(room, bytes, mark))
    }

    /// Finds room for `bytes`, which the word does not hold yet: the place of what it holds where a new object would
    /// lie in the same class, which moves nothing else; and where the pool has no room for both (I6).
    pub fn reserve(&self, bytes: &[u8]) -> Result<Room<'p>, Error> {
        let held = self.held();
        if let Some((place, class)) = held
            && class.is_for(bytes.len())
        {
            return Ok(Room(Where::There(place, class)));
        }
        match (self.stage(bytes), held) {
            (Ok(staged), _) => Ok(Room(Where::Beside(staged))),
            (Err(_), Some((place, class))) if fits(bytes, class) => {
                Ok(Room(Where::There(place, class)))
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Makes the word hold `bytes`, for which `room` was found with this lock, and unlocks it.
    ///
    /// # Panics
    /// When `room` is another word's, or for other bytes.
    pub fn commit(self, room: Room<'p>, bytes: &[u8], mark: u8) -> Old {
        match room.0 {
            Where::Beside(staged) => self.replace(staged, mark),
            Where::There(place, class) => {
                let is_ours = self.word.value().decode() == Ok(place) && fits(bytes, class);
                assert!(is_ours, "room at {place:?} is not for word {}", self.index);
                self.put(place, class, bytes, mark)
            }
        }
    }

    /// Makes the word name `staged`, which was staged for it, unlocks it and frees what it held.
    ///
    /// # Panics
    /// When `staged` is of another word or pool.
    pub fn replace(self, staged: Staged<'p>, mark: u8) -> Old {
        let ours = std::ptr::eq(staged.parts, self.parts) && staged.index == self.index;
        assert!(ours, "an object staged for word {} is given to word {}", staged.index, self.index);
        staged.since.expect_here();
        self.word.expect_here();
        let place = Place { offset: staged.offset, len: staged.len, mark };
        std::mem::forget(staged);
        self.finish(Value::object(place))
    }

    /// Makes the word hold `payload` (59 bits), unlocks it and frees what it held.
    ///
    /// # Panics
    /// When `payload` has more than 59 bits.
    pub fn set_inline(self, payload: u64) -> Old {
        assert!(payload >> PAYLOAD_BITS == 0, "payload {payload:#x} has more than 59 bits");
        self.finish(Value::inline(payload))
    }

    /// Puts `bytes` in the place of the object the word holds, if they fit in its slot: what an
    /// overwrite does when the pool has no room for both (I6). Else the lock comes back, nothing changed.
    pub fn overwrite(self, bytes: &[u8], mark: u8) -> Result<Old, Self> {
        match self.held() {
            Some((place, class)) if fits(bytes, class) => Ok(self.put(place, class, bytes, mark)),
            _ => Err(self),
        }
    }

    /// The object the word holds, if it does, and its class.
    fn held(&self) -> Option<(Place, &'p Class)> {
        let place = self.word.value().decode().ok()?;
        Some((place, self.parts.class_at(place.offset)))
    }

    /// Puts `bytes`, which fit there, in the place of the object the word holds, and unlocks it.
    fn put(self, place: Place, class: &Class, bytes: &[u8], mark: u8) -> Old {
        self.parts.changed_len(Some(place.len), Some(bytes.len()));
        // A mover copies under the class's lock what it found whole. A fork takes it too: in the child the word says
        // how long the bytes are that are there.
        let locked = Locked::new(self.parts, class);
        self.parts.memory.write(place.offset, bytes);
        let new = Place { offset: place.offset, len: bytes.len(), mark };
        self.word.unlock(Value::object(new));
        drop(locked);
        Old::Object { len: place.len, mark: place.mark }
    }

    /// Writes `bytes` over the first of the object the word holds, which keeps its length, and unlocks it.
    pub fn patch(self, bytes: &[u8]) -> Result<(), Error> {
        let value = self.word.value().decode();
        let object = value.map_or(0, |place| place.len);
        match value {
            Ok(place) if bytes.len() <= object => {
                let locked = Locked::new(self.parts, self.parts.class_at(place.offset));
                self.parts.memory.write(place.offset, bytes);
                drop(locked);
                Ok(())
            }
            _ => Err(Error::Length { len: bytes.len(), object }),
        }
    }

    /// Gives the object the word holds another mark, and unlocks it; nothing else where it holds none.
    pub fn remark(self, mark: u8) {
        if let Ok(place) = self.word.value().decode() {
            self.word.unlock(Value::object(place.marked(mark)));
        }
    }

    fn finish(self, value: Value) -> Old {
        let (parts, old) = (self.parts, self.word.value());
        self.word.unlock(value);
        if let Ok(place) = old.decode() {
            parts.free(place.offset, place.len);
        }
        old.into()
    }
}

/// Whether an object of `bytes` may lie in a slot of the class.
fn fits(bytes: &[u8], class: &Class) -> bool {
    !bytes.is_empty() && bytes.len() <= class.capacity()
}
