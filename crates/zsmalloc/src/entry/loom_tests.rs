//! Loom models of an entry. The following command runs them:
//! `RUSTFLAGS="--cfg loom" cargo test --release -p uzram-zsmalloc --lib loom`.
//!
//! # Safety
//! All pointers refer to loom's cells, and loom checks each access. The entries are in no node.
#![allow(unsafe_code)]

use super::*;
use crate::geometry::GRAIN;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

struct Guarded {
    entry: Entry,
    cell: UnsafeCell<u64>,
}

fn guarded() -> Arc<Guarded> {
    Arc::new(Guarded { entry: Entry::new(Value::inline(1)), cell: UnsafeCell::new(1) })
}

/// Locks an entry as the table of entries does, but expects no frozen entry.
fn lock_shared(entry: &Entry) -> Value {
    loop {
        match entry.try_lock_shared() {
            Ok(value) => return value,
            Err(_) => thread::yield_now(),
        }
    }
}

fn lock_exclusive(entry: &Entry) -> Value {
    while entry.try_lock_exclusive().is_err() {
        thread::yield_now();
    }
    entry.wait_for_readers()
}

fn write(guarded: &Guarded, payload: u64) {
    lock_exclusive(&guarded.entry);
    // loom reports an access that races with this one.
    guarded.cell.with_mut(|_| ());
    // SAFETY: the entry was locked above.
    unsafe { guarded.entry.unlock_exclusive(Value::inline(payload)) };
}

fn read(guarded: &Guarded) -> u64 {
    let value = lock_shared(&guarded.entry);
    guarded.cell.with(|_| ());
    // SAFETY: the entry was locked above.
    unsafe { guarded.entry.unlock_shared() };
    value.decode().unwrap_err()
}

/// Explores interleavings with at most three preemptions.
fn model(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

#[test]
fn loom_two_writers_of_one_word() {
    model(|| {
        let shared = guarded();
        let other = shared.clone();
        let thread = thread::spawn(move || write(&other, 2));
        write(&shared, 3);
        thread.join().unwrap();
        assert!(matches!(shared.entry.peek().decode(), Err(2 | 3)));
    });
}

#[test]
fn loom_writer_against_reader() {
    model(|| {
        let shared = guarded();
        let other = shared.clone();
        let writer = thread::spawn(move || write(&other, 2));
        let first = read(&shared);
        let second = read(&shared);
        assert!(matches!((first, second), (1, 1) | (1, 2) | (2, 2)));
        writer.join().unwrap();
        assert_eq!(read(&shared), 2);
    });
}

#[test]
fn loom_readers_share_the_word() {
    model(|| {
        let shared = guarded();
        let other = shared.clone();
        let reader = thread::spawn(move || read(&other));
        let inside = lock_shared(&shared.entry);
        // The other reader can lock and unlock the entry while this thread holds a shared lock.
        assert_eq!(reader.join().unwrap(), 1);
        // SAFETY: the entry was locked above.
        unsafe { shared.entry.unlock_shared() };
        assert_eq!(inside, lock_exclusive(&shared.entry));
    });
}

/// Two places for one object. A freed place is overwritten immediately, as if the next object were
/// stored there.
struct Moving {
    entry: Entry,
    places: [UnsafeCell<u64>; 2],
}

fn place(offset: u64) -> Value {
    Value::object(Location { offset: offset * GRAIN as u64, len: 8, flags: 0 })
}

fn moving() -> Arc<Moving> {
    let places = [UnsafeCell::new(7), UnsafeCell::new(0)];
    Arc::new(Moving { entry: Entry::new(place(0)), places })
}

fn read_pinned(moving: &Moving) -> u64 {
    let at = lock_shared(&moving.entry).decode().unwrap().offset / GRAIN as u64;
    // SAFETY: the pointer comes from loom's cell, and loom checks the access.
    let value = moving.places[at as usize].with(|cell| unsafe { *cell });
    // SAFETY: the entry was locked above.
    unsafe { moving.entry.unlock_shared() };
    value
}

/// Acts as a mover: copies the object of an unlocked entry, retargets the entry, and frees the old
/// place.
fn move_object(moving: &Moving) -> bool {
    let Some(from) = moving.entry.unlocked().and_then(|value| value.decode().ok()) else {
        return false;
    };
    if from.offset != 0 {
        return false;
    }
    // SAFETY: the pointer comes from loom's cell, and loom checks the access.
    let copy = moving.places[0].with(|cell| unsafe { *cell });
    // SAFETY: the pointer comes from loom's cell, and loom checks the access.
    moving.places[1].with_mut(|cell| unsafe { *cell = copy });
    let to = Location { offset: GRAIN as u64, ..from };
    // SAFETY: the copy is complete, and no other entry refers to it.
    let retargeted = unsafe { moving.entry.retarget(Value::object(from), Value::object(to)) };
    let freed = if retargeted { 0 } else { 1 };
    // SAFETY: the pointer comes from loom's cell, and loom checks the access.
    moving.places[freed].with_mut(|cell| unsafe { *cell = 0xdead });
    retargeted
}

#[test]
fn loom_pin_against_move() {
    model(|| {
        let shared = moving();
        let other = shared.clone();
        let mover = thread::spawn(move || move_object(&other));
        assert_eq!(read_pinned(&shared), 7);
        assert_eq!(read_pinned(&shared), 7);
        mover.join().unwrap();
        assert_eq!(read_pinned(&shared), 7);
    });
}

#[test]
fn loom_two_readers_against_move() {
    model(|| {
        let shared = moving();
        let (first, second) = (shared.clone(), shared.clone());
        let first = thread::spawn(move || read_pinned(&first));
        let second = thread::spawn(move || read_pinned(&second));
        move_object(&shared);
        assert_eq!((first.join().unwrap(), second.join().unwrap()), (7, 7));
    });
}

#[test]
fn loom_writer_against_move() {
    model(|| {
        let shared = moving();
        let other = shared.clone();
        let mover = thread::spawn(move || move_object(&other));
        let old = lock_exclusive(&shared.entry);
        // SAFETY: the entry was locked above.
        unsafe { shared.entry.unlock_exclusive(Value::inline(5)) };
        // The writer frees the last place of the object, even if the mover moved the object. This
        // model omits the class's lock, which a mover holds during its copy.
        let moved = mover.join().unwrap();
        assert_eq!(old, if moved { place(1) } else { place(0) });
        assert_eq!(shared.entry.peek().decode(), Err(5));
    });
}

const IDLE: u8 = 0b0100;

fn mark(entry: &Entry) -> u8 {
    entry.peek().decode().unwrap().flags
}

/// Acts as a reader, which clears a flag that it finds set.
fn read_and_unmark(moving: &Moving) -> u64 {
    let place = lock_shared(&moving.entry).decode().unwrap();
    // SAFETY: the pointer comes from loom's cell, and loom checks the access.
    let value = moving.places[place.offset as usize / GRAIN].with(|cell| unsafe { *cell });
    if place.flags & IDLE != 0 {
        moving.entry.clear_flags(IDLE);
    }
    // SAFETY: the entry was locked above.
    unsafe { moving.entry.unlock_shared() };
    value
}

fn moving_idle() -> Arc<Moving> {
    let shared = moving();
    assert_eq!(shared.entry.set_flags_if_unlocked(|place| place.flags | IDLE), Ok(true));
    shared
}

#[test]
fn loom_two_readers_unmark_against_move() {
    model(|| {
        let shared = moving_idle();
        let (first, second) = (shared.clone(), shared.clone());
        let first = thread::spawn(move || read_and_unmark(&first));
        let second = thread::spawn(move || read_and_unmark(&second));
        move_object(&shared);
        assert_eq!((first.join().unwrap(), second.join().unwrap()), (7, 7));
        assert_eq!(mark(&shared.entry), 0);
        assert_eq!(read_pinned(&shared), 7);
    });
}

/// A reader that clears the idle flag does not clear the flag that the writer sets.
#[test]
fn loom_unmark_against_writer() {
    model(|| {
        let shared = moving_idle();
        let other = shared.clone();
        let reader = thread::spawn(move || read_and_unmark(&other));
        let old = lock_exclusive(&shared.entry).decode().unwrap();
        // The reader either cleared the idle flag and left, or will find the new flag.
        let new = old.with_flags(0b1000);
        // SAFETY: the entry was locked above.
        unsafe { shared.entry.unlock_exclusive(Value::object(new)) };
        assert_eq!(reader.join().unwrap(), 7);
        assert_eq!(shared.entry.peek().decode(), Ok(new));
    });
}

/// An object that was read is not marked as idle. Either the reader clears the flag, or the marking
/// thread sees that the entry was used.
#[test]
fn loom_remark_against_reader() {
    model(|| {
        let shared = moving();
        let used = Arc::new(AtomicU64::new(0));
        let (reader, noted) = (shared.clone(), used.clone());
        let reader = thread::spawn(move || {
            let place = lock_shared(&reader.entry).decode().unwrap();
            noted.store(1, Ordering::Relaxed);
            if place.flags & IDLE != 0 {
                reader.entry.clear_flags(IDLE);
            }
            // SAFETY: the entry was locked above.
            unsafe { reader.entry.unlock_shared() };
        });
        let is_old = || used.load(Ordering::Relaxed) == 0;
        let choose = |place: Location| if is_old() { place.flags | IDLE } else { 0 };
        let _ = shared.entry.set_flags_if_unlocked(choose);
        reader.join().unwrap();
        assert_eq!(mark(&shared.entry), 0);
    });
}
