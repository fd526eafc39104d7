//! Locks the core, the streams and the pool during a fork, so that the child has a consistent copy.

use super::{Held, RawLruCache};
use page::fork::{AtFork, Step};
use zsmalloc::EntryPool;

/// Unlocks the pool and the streams, and then the core.
fn after_fork<K: Send>(cache: &RawLruCache<K>, of_pool: impl FnOnce(&EntryPool)) {
    let held = std::mem::take(&mut *cache.held_for_fork.lock());
    if let Some(pool) = &held.pool {
        of_pool(pool);
    }
    held.coders.iter().for_each(|coder| coder.at_fork(Step::Unlock));
    cache.core.unlock_after_fork();
}

impl<K: Send + 'static> AtFork for RawLruCache<K> {
    fn prepare(&self) {
        self.core.lock_for_fork_with(|core| {
            let coders = core.values.coders.live();
            coders.iter().for_each(|coder| coder.at_fork(Step::Lock));
            let pool = core.values.pieces.pool.clone();
            pool.prepare();
            *self.held_for_fork.lock() = Held { coders, pool: Some(pool) };
        });
    }

    fn in_parent(&self) {
        after_fork(self, |pool| pool.in_parent());
    }

    fn in_child(&self) {
        after_fork(self, |pool| pool.in_child());
        // A child lacks the thread that was packing values again.
        self.core.lock().repacks = false;
    }
}
