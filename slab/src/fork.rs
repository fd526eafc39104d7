//! Fork handling: the forking thread holds all locks of caches during the fork, and the child
//! repairs the caches.
//!
//! Because all locks are held, the fork can interrupt another thread only in these states:
//! - The thread was allocating or freeing an object in its own slab. The slab's bits are correct.
//!   Other records may be wrong.
//! - The thread has set a remote bit, but has not read the owner of the slab yet.
//! - A slab is being created or reclaimed, and is in no list.
//! - A block belongs to no slab yet, or its slab was just reclaimed. The child never frees this
//!   block, and still counts its bytes.
//!
//! The other threads do not exist in the child, so the child first removes them as owners of slabs.
//! The removal visits every slab. The cost of the removal is comparable to the cost of the fork,
//! which copies the page table entries of all slabs.
//!
//! Lock order: the registered locks of higher crates, the registry of threads, the caches, the
//! arenas, the threads' numbers.
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
/// The caches and arenas whose locks are held for the current fork. Only one thread forks at a
/// time.
static LOCKED: Mutex<Locked> = Mutex::new(Locked { caches: Vec::new(), arenas: Vec::new() });

struct Locked {
    caches: Vec<Arc<dyn ThreadHooks>>,
    arenas: Vec<Arc<dyn Member>>,
}

struct All;

/// An arena. The forking thread takes the arena's locks after the locks of all caches.
pub(crate) trait Member: Send + Sync {
    /// Takes the arena's locks.
    fn lock_for_fork(&self);

    /// Releases the locks that `lock_for_fork` took.
    fn unlock_after_fork(&self);

    /// Recounts the committed pages in a child, before its caches are repaired.
    fn recount(&self);
}

/// Registers an arena, so that during every fork its locks and the locks of all its caches are
/// held.
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
        // The last reference to a cache may be dropped at the end of the function, while no lock is
        // held.
    }

    fn in_child(&self) {
        let (caches, arenas) = {
            let locked = LOCKED.lock();
            (locked.caches.clone(), locked.arenas.clone())
        };
        self.in_parent();
        let number = thread::forget_lost();
        // Recounts the pages before the repair, because the repair releases pages.
        arenas.iter().for_each(|arena| arena.recount());
        // SAFETY: this function is called in a child that has no other thread yet.
        caches.iter().for_each(|cache| unsafe { cache.repair(number) });
    }
}
