//! When something was locked or staged. What comes over a fork on the stack of the thread that
//! forked, or wherever the child finds it, holds nothing there: the child repairs all entries as if
//! no one had them, and pages may be the parent's.

use page::fork::generation;

/// The process that locked it, as forks go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForkStamp(u32);

impl ForkStamp {
    #[inline]
    pub(crate) fn now() -> Self {
        ForkStamp(generation())
    }

    /// Returns whether this is a child of the process that it was locked in.
    #[inline]
    pub(crate) fn is_stale(self) -> bool {
        self.0 != generation()
    }

    /// # Panics
    /// When it is over.
    #[inline]
    pub(crate) fn assert_same_process(self) {
        if self.is_stale() {
            stale();
        }
    }
}

#[cold]
fn stale() -> ! {
    panic!("a guard, lock or staged object from before a fork can only be dropped in the child")
}
