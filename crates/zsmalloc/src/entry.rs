//! The entry: an object's place, its length and its lock, in 8 bytes.
//!
//! ```text
//!   bit 63    62 ........ 24   23 ... 8    7 .. 4   3           2 .. 0
//!   | 1     | offset / 8     | length - 1 | flags  | exclusive | readers |   an object
//!   | 0     | payload: 59 bits for the user        | exclusive | readers |   none; all 0 is empty
//!                                                     1           111         frozen: out of use
//! ```
//!
//! Lock rules:
//! 1. A reader excludes writers, but not other readers. Up to 6 readers share an entry.
//! 2. A writer first sets `exclusive`, which excludes new readers. The writer changes the entry
//!    after the present readers have left.
//! 3. Only the writer that has locked an entry changes the entry's value, except the flags.
//! 4. A mover retargets an unlocked entry by one compare-and-swap. So the mover waits for no
//!    thread, and no thread waits for the mover.
//! 5. A thread freezes only an unlocked entry. A thread that finds a frozen entry does not wait.
//!    The thread thaws the entry, or uses the entry's copy in another node (see [`crate::table`]).
//! 6. Readers can also change flags, without the exclusive lock. A reader clears flags in one
//!    atomic step while it holds its shared lock. A thread sets flags of an unlocked entry by a
//!    compare-and-swap, as a mover does. So a writer sees the final flags after the readers have
//!    left. If flags change while a mover copies the object, the mover's compare-and-swap fails.
//!
//! Only [`Entry::wait_for_readers`] waits. If any other function can't lock the entry at once, it
//! returns the reason ([`Busy`]).
//!
//! # Safety
//! Entries determine which memory is accessed and freed, and a node without a locked entry can be
//! freed. So functions that change an object's place, or unlock or thaw an entry, are unsafe, and
//! document their preconditions. Functions that lock an entry or change only flags are safe.
#![allow(unsafe_code)]

mod value;

use crate::sync::{AtomicU64, Backoff, Ordering};
use value::{FLAGS_SHIFT, OBJECT};

pub(crate) use value::{Location, Value};

const READERS: u64 = 0b111;
const EXCLUSIVE: u64 = 1 << 3;
const LOCK: u64 = READERS | EXCLUSIVE;
const READERS_MAX: u64 = 6;
/// The lock bits of a frozen entry. No combination of readers and a writer sets all these bits.
const FROZEN: u64 = LOCK;

/// The reason why an entry could not be locked without waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Busy {
    /// Another thread has locked the entry exclusively, or waits for the entry's readers to leave.
    Exclusive,
    /// The entry has the maximum number of readers.
    Readers,
    /// The entry is frozen, because a conversion of its leaf has begun or was abandoned.
    Frozen,
}

#[derive(Debug)]
pub(crate) struct Entry(AtomicU64);

impl Entry {
    pub(crate) fn new(value: Value) -> Self {
        Entry(AtomicU64::new(value.0))
    }

    /// Returns the entry's value, even if the entry is locked.
    pub(crate) fn peek(&self) -> Value {
        Value(self.0.load(Ordering::Acquire) & !LOCK)
    }

    pub(crate) fn unlocked(&self) -> Option<Value> {
        Some(self.0.load(Ordering::Acquire)).filter(|word| word & LOCK == 0).map(Value)
    }

    /// Changes the entry's value from `from` to `to`. Returns false if the value is not `from` or
    /// the entry is locked. Never waits.
    ///
    /// # Safety
    /// `from` was read from the entry. If `to` refers to an object, all bytes of the object are
    /// written, and no other entry refers to the object. If `to` does not refer to the object of
    /// `from`, the slot of the old object belongs to the caller afterwards.
    pub(crate) unsafe fn retarget(&self, from: Value, to: Value) -> bool {
        self.0.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Returns whether the entry is empty and not locked exclusively.
    pub(crate) fn is_vacant(&self) -> bool {
        self.0.load(Ordering::Acquire) & !READERS == 0
    }

    /// Unlocks the entry in a child of fork, which lacks the threads that locked the entry.
    ///
    /// # Safety
    /// The process is a child of fork, and no other thread of the process uses the entry.
    pub(crate) unsafe fn unlock_lost(&self) {
        if self.0.load(Ordering::Relaxed) & LOCK != 0 {
            self.0.fetch_and(!LOCK, Ordering::Relaxed);
        }
    }

    /// Returns whether the entry is locked or frozen.
    pub(crate) fn is_locked(&self) -> bool {
        self.unlocked().is_none()
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.0.load(Ordering::Acquire) & LOCK == FROZEN
    }

    /// Adds `lock` to the entry's lock bits. Fails if the entry has a writer or more than
    /// `readers_max` readers.
    fn enter(&self, lock: u64, readers_max: u64) -> Result<Value, Busy> {
        // If the entry is frozen, the acquiring load makes the begun conversion visible.
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            match word & LOCK {
                FROZEN => return Err(Busy::Frozen),
                held if held & EXCLUSIVE != 0 => return Err(Busy::Exclusive),
                readers if readers > readers_max => return Err(Busy::Readers),
                _ => {}
            }
            let to = word + lock;
            match self.0.compare_exchange_weak(word, to, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(Value(word & !LOCK)),
                Err(now) => word = now,
            }
        }
    }

    /// Pins the entry as a reader. The entry's object is not moved or freed until `unlock_shared`.
    pub(crate) fn try_lock_shared(&self) -> Result<Value, Busy> {
        self.enter(1, READERS_MAX - 1)
    }

    /// Unpins the entry.
    ///
    /// # Safety
    /// The caller pinned the entry with `try_lock_shared`, and no longer uses the entry's object.
    #[inline]
    pub(crate) unsafe fn unlock_shared(&self) {
        let word = self.0.fetch_sub(1, Ordering::Release);
        debug_assert!(word & READERS != 0, "a reader left that never entered");
    }

    /// Clears flags of the entry's object. The caller has pinned the entry.
    pub(crate) fn clear_flags(&self, bits: u8) {
        assert!(bits < 16, "flags {bits:#x} have more than 4 bits");
        debug_assert!(self.0.load(Ordering::Relaxed) & OBJECT != 0);
        self.0.fetch_and(!((bits as u64) << FLAGS_SHIFT), Ordering::Relaxed);
    }

    /// Sets the flags of the entry's object to the result of `choose`. Calls `choose` until it
    /// returns the flags that the object has, because a reader may change the data that `choose`
    /// reads. Returns false if the entry holds no object, and an error if the entry is locked.
    pub(crate) fn set_flags_if_unlocked(
        &self,
        choose: impl Fn(Location) -> u8,
    ) -> Result<bool, Busy> {
        loop {
            // If the entry is frozen, the acquiring load makes the begun conversion visible.
            let word = self.0.load(Ordering::Acquire);
            match word & LOCK {
                0 => {}
                FROZEN => return Err(Busy::Frozen),
                held if held & EXCLUSIVE != 0 => return Err(Busy::Exclusive),
                _ => return Err(Busy::Readers),
            }
            let Ok(place) = Value(word).decode() else { return Ok(false) };
            let flags = choose(place);
            if flags == place.flags {
                return Ok(true);
            }
            // SAFETY: only the flags change, and the entry still refers to the same object. If
            // another thread has changed the entry since the load, the call fails.
            unsafe { self.retarget(Value(word), Value::object(place.with_flags(flags))) };
        }
    }

    /// Locks the entry exclusively. The caller must then wait until the present readers have left.
    pub(crate) fn try_lock_exclusive(&self) -> Result<(), Busy> {
        self.enter(EXCLUSIVE, READERS_MAX).map(|_| ())
    }

    /// Waits until the readers have left the entry. The caller has locked the entry exclusively.
    pub(crate) fn wait_for_readers(&self) -> Value {
        let mut backoff = Backoff::default();
        loop {
            let word = self.0.load(Ordering::Acquire);
            if word & READERS == 0 {
                return Value(word & !LOCK);
            }
            backoff.wait();
        }
    }

    /// Locks the entry exclusively if it is empty and unlocked.
    pub(crate) fn try_claim(&self) -> bool {
        self.0.compare_exchange(0, EXCLUSIVE, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Freezes the entry. Returns false if the entry is locked.
    pub(crate) fn freeze(&self) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        while word & LOCK == 0 {
            let to = word | FROZEN;
            match self.0.compare_exchange_weak(word, to, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Unlocks the entry if it is frozen.
    ///
    /// # Safety
    /// The conversion that froze the entry was abandoned, or the entry belongs to a node that the
    /// directory links (zs-T3 of [`crate::table`]).
    pub(crate) unsafe fn thaw(&self) {
        let word = self.0.load(Ordering::Relaxed);
        if word & LOCK == FROZEN {
            // The exchange fails if another thread has thawed the entry since the load.
            let to = word & !LOCK;
            let _ = self.0.compare_exchange(word, to, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Empties the entry without unlocking it.
    ///
    /// # Safety
    /// The caller has locked the entry exclusively, no reader is left, and the caller will free the
    /// entry's object.
    pub(crate) unsafe fn empty(&self) {
        debug_assert!(self.0.load(Ordering::Relaxed) & LOCK == EXCLUSIVE);
        self.0.store(EXCLUSIVE, Ordering::Release);
    }

    /// Unlocks the entry with the value `value`.
    ///
    /// # Safety
    /// The caller has locked the entry exclusively, and no reader is left. If `value` refers to an
    /// object, all bytes of the object are written, and no other entry refers to the object.
    pub(crate) unsafe fn unlock_exclusive(&self, value: Value) {
        debug_assert!(self.0.load(Ordering::Relaxed) & LOCK == EXCLUSIVE);
        self.0.store(value.0, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_lock_leaves_the_value_alone() {
        let value = Value::object(Location { offset: 4096, len: 100, flags: 5 });
        let word = Entry::new(value);
        (0..READERS_MAX).for_each(|_| assert_eq!(word.try_lock_shared(), Ok(value)));
        assert_eq!(word.try_lock_shared(), Err(Busy::Readers));
        assert!(word.is_locked() && !word.freeze() && !word.try_claim());
        // SAFETY: `READERS_MAX` readers hold the entry's lock. The entries of these tests guard no
        // memory.
        (0..READERS_MAX).for_each(|_| unsafe { word.unlock_shared() });
        assert_eq!(word.try_lock_exclusive(), Ok(()));
        assert_eq!(word.try_lock_shared(), Err(Busy::Exclusive));
        assert_eq!(word.wait_for_readers(), value);
        // SAFETY: the entry was locked above, and holds no object.
        unsafe { word.unlock_exclusive(Value::inline(3)) };
        assert_eq!(word.peek().decode(), Err(3));
    }

    #[test]
    fn a_frozen_word_is_no_ones_until_it_is_thawed() {
        let word = Entry::new(Value::inline(3));
        assert!(word.freeze() && word.is_locked() && !word.freeze());
        assert_eq!(word.try_lock_shared(), Err(Busy::Frozen));
        assert_eq!(word.try_lock_exclusive(), Err(Busy::Frozen));
        // SAFETY: the entry holds no object, and is in no node.
        unsafe {
            assert!(!word.retarget(Value::inline(3), Value::EMPTY));
            word.thaw();
            assert_eq!(word.try_lock_shared(), Ok(Value::inline(3)));
            word.thaw();
        }
        assert!(word.is_locked());
    }

    #[test]
    fn marks_are_changed_on_objects_only() {
        let place = Location { offset: 8, len: 100, flags: 0b1111 };
        let word = Entry::new(Value::object(place));
        assert_eq!(word.try_lock_shared(), Ok(Value::object(place)));
        word.clear_flags(0b0101);
        assert_eq!(word.peek().decode(), Ok(place.with_flags(0b1010)));
        assert_eq!(word.set_flags_if_unlocked(|_| 0), Err(Busy::Readers));
        // SAFETY: the entry was locked for reading above.
        unsafe { word.unlock_shared() };
        assert_eq!(word.set_flags_if_unlocked(|place| place.flags), Ok(true));
        assert_eq!(word.set_flags_if_unlocked(|place| place.flags & 0b1000), Ok(true));
        assert_eq!(word.unlocked(), Some(Value::object(place.with_flags(0b1000))));
        assert!(word.freeze());
        assert_eq!(word.set_flags_if_unlocked(|_| 0), Err(Busy::Frozen));
        let inline = Entry::new(Value::inline(u64::MAX >> 5));
        assert_eq!(inline.set_flags_if_unlocked(|_| 0), Ok(false));
        assert_eq!(inline.try_lock_exclusive(), Ok(()));
        assert_eq!(inline.set_flags_if_unlocked(|_| 0), Err(Busy::Exclusive));
    }

    #[test]
    fn only_an_empty_word_is_claimed() {
        let word = Entry::new(Value::EMPTY);
        assert!(word.is_vacant() && word.try_claim() && !word.try_claim() && !word.is_vacant());
        // SAFETY: the entry was claimed above, and holds no object.
        unsafe { word.unlock_exclusive(Value::inline(1)) };
        assert!(!word.try_claim() && !word.is_vacant());
        let read = Entry::new(Value::EMPTY);
        assert!(read.try_lock_shared().is_ok() && read.is_vacant());
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
