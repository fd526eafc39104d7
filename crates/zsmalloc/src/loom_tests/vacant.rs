//! Models of two entries. Each of two threads locks one entry, and then looks at the entry that the
//! other thread locks. At least one of the threads sees the lock of the other thread. A device
//! relies on this rule when it combines slots into a block. The writer of a slot looks at the
//! block's entry, and the thread that combines the slots locks the slot's entry.
#![allow(clippy::unwrap_used)]

use super::model_of;
use crate::sync::set_thread_number;
use crate::{Columns, Config, EntryPool, Geometry};
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed, Ordering::SeqCst, fence};

const SLOT: u32 = 0;
const BLOCK: u32 = 1;

struct Scene {
    core: EntryPool,
    /// The number of threads that use the slot. Accesses to this counter are relaxed, so they order
    /// no other accesses.
    inside: AtomicUsize,
}

impl Scene {
    fn new() -> Self {
        let config = Config { geometry: Geometry::Native { order: 0 }, ..Config::default() };
        let core = EntryPool::new(config, 2, Columns::default()).unwrap();
        Scene { core, inside: AtomicUsize::new(0) }
    }

    /// Performs the action that only one of the two threads is allowed to perform at a time.
    fn alone(&self) {
        assert_eq!(self.inside.fetch_add(1, Relaxed), 0, "both have the slot");
        self.inside.fetch_sub(1, Relaxed);
    }
}

fn make(scene: &Scene, index: u32) {
    drop(scene.core.lock(index).unwrap());
}

/// Locks entry `index` and checks whether entry `other` is vacant.
fn lock_and_look(scene: &Scene, index: u32, other: u32) {
    let entry = scene.core.lock(index).unwrap();
    fence(SeqCst);
    if scene.core.is_vacant(other) {
        scene.alone();
    }
    drop(entry);
}

fn write_slot(scene: &Scene) {
    lock_and_look(scene, SLOT, BLOCK);
}

/// Uses another stripe of counts than the other thread, because accesses to a shared counter would
/// order the two threads.
fn look_at_slot(scene: &Scene) {
    set_thread_number(1);
    lock_and_look(scene, BLOCK, SLOT);
}

/// Uses another stripe of counts, as `look_at_slot` does.
fn lock_slot(scene: &Scene) {
    set_thread_number(1);
    let block = scene.core.lock(BLOCK).unwrap();
    fence(SeqCst);
    let slot = scene.core.lock_existing(SLOT);
    scene.alone();
    drop((slot, block));
}

fn model(before: fn(&Scene), make_block: fn(&Scene)) {
    let after = |scene: &Scene| scene.core.check();
    model_of(5, Scene::new, before, [write_slot, make_block], |_| (), after);
}

#[test]
fn loom_core_vacant_against_lock() {
    let both: fn(&Scene) = |scene| [SLOT, BLOCK].into_iter().for_each(|index| make(scene, index));
    model(both, look_at_slot);
}

/// The entry of a slot that was never written does not exist, so it can't be locked.
#[test]
fn loom_core_vacant_against_lock_of_what_is_not_there() {
    model(|scene| make(scene, BLOCK), lock_slot);
}
