//! Fork: caches are held still before it, and repaired in the child.
//!
//! With all locks held, what other threads were about can only be: an object taken or freed in a
//! slab of their own, of which the bits are right and what else is noted may not be; a remote bit
//! set, which no one looked for yet; a slab that is new or on its way out, and in no list; a block
//! that no slab has yet, or any more, which stays lost, though counted. The child has none of those
//! threads, so their slabs are given up there, at once: that takes a look at every slab, and the
//! fork itself copied each of its pages' entries.
//!
//! Locks: those of the packages above that register themselves, then threads' registry, caches,
//! arenas, threads' numbers.
//!
//! # Safety
//! `in_child` is called by `page::fork` alone.
#![allow(unsafe_code)]

use crate::sync::Mutex;
use crate::thread::{self, ThreadHooks};
use page::fork::AtFork;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

static ARENAS: Mutex<Vec<Weak<dyn Member>>> = Mutex::new(Vec::new());
/// What is locked at the moment; one thread forks at a time.
static LOCKED: Mutex<Locked> = Mutex::new(Locked { caches: Vec::new(), arenas: Vec::new() });

struct Locked {
    caches: Vec<Arc<dyn ThreadHooks>>,
    arenas: Vec<Arc<dyn Member>>,
}

struct All;

/// An arena, held over every fork after all caches.
pub(crate) trait Member: Send + Sync {
    /// Takes its locks.
    fn lock_for_fork(&self);

    /// Releases what `lock_for_fork` took.
    fn unlock_after_fork(&self);

    /// Counts the committed pages anew, in a child, before its caches are repaired.
    fn recount(&self);
}

/// Has an arena, and all caches, held over every fork.
pub(crate) fn register(arena: Weak<dyn Member>) {
    static IS_REGISTERED: AtomicBool = AtomicBool::new(false);
    page::fork::register_once(&IS_REGISTERED, All, page::fork::Turn::First);
    let mut arenas = ARENAS.lock();
    arenas.retain(|arena| arena.strong_count() > 0);
    arenas.push(arena);
}

impl AtFork for All {
    fn prepare(&self) {
        let locked = &mut *LOCKED.lock();
        thread::lock_for_fork(&mut locked.caches);
        locked.caches.iter().for_each(|cache| cache.lock_for_fork());
        ARENAS.lock_for_fork_with(|arenas| {
            locked.arenas = arenas.iter().filter_map(Weak::upgrade).collect()
        });
        locked.arenas.iter().for_each(|arena| arena.lock_for_fork());
        thread::lock_numbers_for_fork();
    }

    fn in_parent(&self) {
        let locked =
            std::mem::replace(&mut *LOCKED.lock(), Locked { caches: vec![], arenas: vec![] });
        thread::unlock_numbers_after_fork();
        locked.arenas.iter().for_each(|arena| arena.unlock_after_fork());
        ARENAS.unlock_after_fork();
        locked.caches.iter().for_each(|cache| cache.unlock_after_fork());
        thread::unlock_after_fork();
        // Here a cache may end that was held last, with no lock held.
    }

    fn in_child(&self) {
        let (caches, arenas) = {
            let locked = LOCKED.lock();
            (locked.caches.clone(), locked.arenas.clone())
        };
        self.in_parent();
        let number = thread::forget_lost();
        // Counted first: repairing gives pages back.
        arenas.iter().for_each(|arena| arena.recount());
        // SAFETY: this is called in a child that has no other thread yet.
        caches.iter().for_each(|cache| unsafe { cache.repair(number) });
    }
}
