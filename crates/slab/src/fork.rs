//! Fork: caches are held still before it, and mended in the child.
//!
//! With all locks held, what other threads were about can only be: an object taken or freed in a slab of their own, of
//! which the bits are right and what else is noted may not be; a remote bit set, which no one looked for yet; a slab
//! that is new or on its way out, and in no list; a block that no slab has yet, or any more, which stays lost. The
//! child has none of those threads, so their slabs are given up there, at once: that takes a look at every slab, and
//! the fork itself copied each of its pages' entries.
//!
//! Locks: those of the packages above that register themselves, then threads' registry, caches with their blocks,
//! arenas, threads' numbers.

use crate::Arena;
use crate::sync::Mutex;
use crate::thread::{self, Keeper};
use page::fork::Forks;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

static ARENAS: Mutex<Vec<Weak<Arena>>> = Mutex::new(Vec::new());
/// What is held at the moment; one thread forks at a time.
static HELD: Mutex<Held> = Mutex::new(Held { keepers: Vec::new(), arenas: Vec::new() });

struct Held {
    keepers: Vec<Arc<dyn Keeper>>,
    arenas: Vec<Arc<Arena>>,
}

struct All;

/// Has an arena, and all caches, held over every fork.
pub(crate) fn register(arena: &Arc<Arena>) {
    static IS_REGISTERED: AtomicBool = AtomicBool::new(false);
    page::fork::register_once(&IS_REGISTERED, All);
    let mut arenas = ARENAS.lock();
    arenas.retain(|arena| arena.strong_count() > 0);
    arenas.push(Arc::downgrade(arena));
}

impl Forks for All {
    fn hold(&self) {
        let held = &mut *HELD.lock();
        thread::hold(&mut held.keepers);
        held.keepers.iter().for_each(|keeper| keeper.hold());
        ARENAS.hold_with(|arenas| held.arenas = arenas.iter().filter_map(Weak::upgrade).collect());
        held.arenas.iter().for_each(|arena| arena.hold());
        thread::hold_numbers();
    }

    fn let_go(&self) {
        let held = std::mem::replace(&mut *HELD.lock(), Held { keepers: vec![], arenas: vec![] });
        thread::let_go_numbers();
        held.arenas.iter().for_each(|arena| arena.let_go());
        ARENAS.let_go();
        held.keepers.iter().for_each(|keeper| keeper.let_go());
        thread::let_go();
        // Here a cache may end that was held last, with no lock held.
    }

    fn let_go_in_child(&self) {
        let (keepers, arenas) = {
            let held = HELD.lock();
            (held.keepers.clone(), held.arenas.clone())
        };
        self.let_go();
        let number = thread::forget_lost();
        // Counted first: mending gives pages back.
        arenas.iter().for_each(|arena| arena.recount());
        keepers.iter().for_each(|keeper| keeper.mend(number));
    }
}
