//! Objects move within a class, to pack the class, and to the class that the plan assigns to them.
//!
//! ```text
//!   entry's number -> entry names this place, and is unlocked? -> slot taken -> bytes copied
//!     -> entry retargeted by compare-and-swap -> old slot freed (or new, if entry changed)
//! ```
//! All steps of a move are done under the lock of the object's old class. An object is overwritten
//! only under the lock of its class, and a thread that frees an object waits for this lock. A mover
//! never waits for the lock of the target class.
#![allow(unsafe_code)]

use crate::Error;
use crate::class_guard::{ClassGuard, NewSlot};
use crate::entry::{Location, Value};
use crate::fork::RepairedPool;
use crate::policy::SCAN_MAX;
use crate::search::{Search, alloc_slot};
use crate::zspage::Header;
use page::ExtentId;

/// The results of one step: moves under one hold of the class's lock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moved {
    pub(crate) objects: usize,
    pub(crate) bytes: u64,
    /// The number of pages that had no object before objects moved to them.
    pub(crate) entered: usize,
    /// The number of pages whose last object was moved away.
    pub(crate) emptied: usize,
    /// The obstacle that ended the step early, if the caller can remove it.
    pub(crate) obstacle: Option<Obstacle>,
}

/// An obstacle that the caller can remove before the next step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Obstacle {
    /// The class at this position has no zspage with a free slot.
    NoRoom(usize),
    /// Another thread holds the lock of the target class.
    Busy,
}

/// A candidate for a move: an object, as its unlocked entry described it.
struct Movable {
    index: u32,
    location: Location,
}

/// Returns the object in a slot of a zspage if its entry refers to the object and is unlocked.
fn movable(pool: RepairedPool<'_>, header: Header<'_>, slot: u32) -> Option<Movable> {
    let index = header.entry(slot)?;
    let location = pool.entries().peek(index, |entry, _| entry.unlocked())??.decode().ok()?;
    (location.offset == header.offset(slot)).then_some(Movable { index, location })
}

/// Copies an object to the slot `to`, and retargets its entry to that slot. Returns false if the
/// entry is locked or no longer refers to the object.
///
/// # Safety
/// `movable` returned `from` under the lock of the object's class, which has been held since. `to`
/// was allocated for the object, in this pool.
unsafe fn move_object(pool: RepairedPool<'_>, from: &Movable, to: &NewSlot) -> bool {
    let Location { offset, len, .. } = from.location;
    // SAFETY: the entry referred to the object in a slot of this class, whose lock has been held
    // since. The caller allocated `to` for an object of this length.
    unsafe { pool.memory.copy(offset, to.offset(), len) };
    let retargeted = pool.entries().peek(from.index, |entry, _| {
        let value = entry.unlocked()?;
        // The new location has the entry's current flags, which may have changed.
        let location = value.decode().ok().filter(|location| location.offset == offset)?;
        let moved = Location { offset: to.offset(), ..location };
        // SAFETY: the copy is complete, and no other entry refers to the copy. The caller frees the
        // old slot.
        Some(unsafe { entry.retarget(value, Value::object(moved)) })
    });
    retargeted.flatten().unwrap_or(false)
}

/// Moves at most `most` objects of `source`, beginning with the highest slot, to the lowest free
/// slots of `target`. An object is not moved if its entry is locked or does not refer to the object
/// yet.
pub(crate) fn migrate(
    pool: RepairedPool<'_>,
    locked: &mut ClassGuard<'_>,
    (source, target): (ExtentId, ExtentId),
    most: usize,
) -> Moved {
    assert!(std::ptr::eq(locked.memory(), &pool.memory), "{locked:?} is of another pool");
    let mut moved = Moved::default();
    for slot in (0..locked.class().objects()).rev() {
        if moved.objects == most {
            break;
        }
        let Some(object) = movable(pool, locked.header(source), slot) else { continue };
        let is_below = |free: u32| source != target || free < slot;
        let lowest = locked.header(target).lowest_free();
        let Some(lowest) = lowest.filter(|&free| is_below(free)) else { break };
        let Some(to) = alloc_slot_in(locked, target, lowest, object.index, is_below) else { break };
        // SAFETY: the object and the slot were found while the class was locked. Only the slot to
        // which no entry refers is freed.
        unsafe {
            if move_object(pool, &object, &to) {
                moved.add(&object, &to, locked.free_slot(source, slot));
            } else {
                locked.free_slot(target, to.slot());
            }
        }
    }
    moved
}

/// Allocates slot `lowest` of a zspage. At the pool's limit, allocates instead the lowest slot on
/// committed pages, if `will_do` returns true for this slot.
fn alloc_slot_in(
    locked: &mut ClassGuard<'_>,
    target: ExtentId,
    lowest: u32,
    entry: u32,
    will_do: impl Fn(u32) -> bool,
) -> Option<NewSlot> {
    if let Ok(new) = locked.alloc_slot_at(target, lowest, entry) {
        return Some(new);
    }
    let free = locked.header(target).lowest_committed().filter(|&free| will_do(free))?;
    locked.alloc_slot_at(target, free, entry).ok()
}

/// Moves at most `most` objects of `source` to the classes that the plan assigns to them.
pub(crate) fn reclassify(
    pool: RepairedPool<'_>,
    locked: &mut ClassGuard<'_>,
    source: ExtentId,
    most: usize,
) -> Moved {
    assert!(std::ptr::eq(locked.memory(), &pool.memory), "{locked:?} is of another pool");
    let class = locked.class();
    let mut moved = Moved::default();
    let mut target: Option<ClassGuard<'_>> = None;
    for slot in (0..class.objects()).rev() {
        if moved.objects == most {
            break;
        }
        let Some(object) = movable(pool, locked.header(source), slot) else { continue };
        let Ok((_, wanted)) = pool.inner().classes_of(object.location.len) else { continue };
        if wanted.position == class.position {
            continue;
        }
        if target.as_ref().is_none_or(|held| held.class().position != wanted.position) {
            drop(target.take());
            target = pool.inner().try_lock(wanted);
        }
        let Some(other) = target.as_mut() else {
            moved.obstacle = Some(Obstacle::Busy);
            break;
        };
        let to = match alloc_for_move(other, object.index) {
            Ok(Some(to)) => to,
            Ok(None) => {
                moved.obstacle = Some(Obstacle::NoRoom(wanted.position as usize));
                break;
            }
            Err(_limit) => break,
        };
        // SAFETY: the object and the slot were found under the locks of their classes, which are
        // still held. Only the slot to which no entry refers is freed.
        unsafe {
            if move_object(pool, &object, &to) {
                moved.add(&object, &to, locked.free_slot(source, slot));
            } else {
                other.free_slot(to.id(), to.slot());
            }
        }
    }
    moved
}

/// Allocates a slot, or a slot on committed pages if the pool is at its limit. Returns `None` if no
/// zspage has a free slot.
fn alloc_for_move(locked: &mut ClassGuard<'_>, entry: u32) -> Result<Option<NewSlot>, Error> {
    alloc_slot(locked, entry, Search::Lowest).or_else(|limit| {
        let new = alloc_slot(locked, entry, Search::Committed(SCAN_MAX))?;
        new.map(Some).ok_or(limit)
    })
}

impl Moved {
    fn add(&mut self, object: &Movable, to: &NewSlot, emptied: u32) {
        self.objects += 1;
        self.bytes += object.location.len as u64;
        self.entered += to.entered() as usize;
        self.emptied += emptied as usize;
    }
}
