//! The end of a region. Memory of the program is brought back completely before it is let go.

use super::Region;
use crate::backend::Heir;
use crate::pager::Contents;
use crate::registry;

impl Drop for Region {
    fn drop(&mut self) {
        let pager = &self.calls.pager;
        self.calls.worker.stop(pager);
        if self.contents == Contents::InUse && pager.heir() == Heir::Copy {
            let _none_is_too_low = pager.limit.set(None);
            let _someone_is_here = self.calls.bring(0..pager.units());
            let _system_forgets = pager.backend.end(&pager.memory);
        }
        registry::remove(pager);
        self.threads.stop(pager);
    }
}
