//! Fork: the lock, the streams and the pool are held over it, so that all is whole in a child.

use super::Kept;
use uzram::page::fork::{AtFork, Step};
use uzram::zsmalloc::EntryPool;

impl<K: Send + 'static> Kept<K> {
    /// Takes or releases all that is locked within, under the core's lock.
    fn after_fork(&self, of_pool: impl FnOnce(&EntryPool)) {
        of_pool(&self.pool);
        let held = std::mem::take(&mut *self.held_for_fork.lock());
        held.iter().for_each(|coder| coder.at_fork(Step::Unlock));
        self.core.unlock_after_fork();
    }
}

impl<K: Send + 'static> AtFork for Kept<K> {
    fn prepare(&self) {
        self.core.lock_for_fork_with(|core| {
            let coders: Vec<_> = core.coders().cloned().collect();
            coders.iter().for_each(|coder| coder.at_fork(Step::Lock));
            *self.held_for_fork.lock() = coders;
        });
        self.pool.prepare();
    }

    fn in_parent(&self) {
        self.after_fork(|pool| pool.in_parent());
    }

    fn in_child(&self) {
        self.after_fork(|pool| pool.in_child());
    }
}
