//! The end of a region. If the region manages memory of the program, all blocks are filled before
//! the region ends.

use super::Region;
use crate::backend::ForkResult;
use crate::pager::Contents;
use crate::registry;

impl Drop for Region {
    fn drop(&mut self) {
        let pager = &self.calls.pager;
        self.calls.worker.stop(pager);
        if self.contents == Contents::InUse && pager.fork_result() == ForkResult::Copy {
            let _none_is_too_low = pager.limit.set(None);
            // Another thread may still be evicting in a fault, and the blocks that it evicts would
            // not be filled below.
            let _no_one_evicts =
                self.calls.inside(|pager| pager.eviction_lock.lock().has_ended = true);
            let _someone_is_here = self.calls.bring(0..pager.blocks());
            let _system_forgets = pager.backend.end(&pager.memory);
        }
        registry::remove(pager);
        self.threads.stop(pager);
    }
}
