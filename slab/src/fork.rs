//! Fork handling: all locks of caches are held across a fork, and the child repairs the caches.
//!
//! With all locks held, a fork can interrupt another thread only in these states:
//! - An object was taken or freed in a slab of the thread's own. The slab's bits are right, while
//!   other records may not be.
//! - A remote bit was set, but the thread has not looked for the owner yet.
//! - A slab is new or being given back, and in no list.
//! - A block has no slab yet, or no longer. It stays lost, though counted.
//!
//! The child has none of those threads, so it gives their slabs up at once. That visits every slab,
//! but the fork itself has already copied the page table entries of all of them.
//!
//! Lock order: the locks of the packages above that register themselves, then the registry of
//! threads, the caches, the arenas, the threads' numbers.
//!
//! # Safety
//! Only `page::fork` calls `in_child`.
#![allow(unsafe_code)]

use crate::sync::Mutex;
use crate::thread::{self, ThreadHooks};
use page::fork::AtFork;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

static ARENAS: Mutex<Vec<Weak<dyn Member>>> = Mutex::new(Vec::new());
/// The structures that are locked for the current fork; one thread forks at a time.
static LOCKED: Mutex<Locked> = Mutex::new(Locked { caches: Vec::new(), arenas: Vec::new() });

struct Locked {
    caches: Vec<Arc<dyn ThreadHooks>>,
    arenas: Vec<Arc<dyn Member>>,
}

struct All;

/// An arena, whose locks are held during every fork after those of all caches.
pub(crate) trait Member: Send + Sync {
    /// Takes the arena's locks.
    fn lock_for_fork(&self);

    /// Releases the locks that `lock_for_fork` took.
    fn unlock_after_fork(&self);

    /// Recounts the committed pages in a child, before its caches are repaired.
    fn recount(&self);
}

/// Registers an arena, so that its locks and those of all caches are held during every fork.
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
        // The last reference to a cache may be dropped here, without a lock held.
    }

    fn in_child(&self) {
        let (caches, arenas) = {
            let locked = LOCKED.lock();
            (locked.caches.clone(), locked.arenas.clone())
        };
        self.in_parent();
        let number = thread::forget_lost();
        // Recounted first, because the repair gives pages back.
        arenas.iter().for_each(|arena| arena.recount());
        // SAFETY: this is called in a child that has no other thread yet.
        caches.iter().for_each(|cache| unsafe { cache.repair(number) });
    }
}
