//! When something was locked or staged. What comes over a fork on the stack of the thread that forked, or wherever the
//! child finds it, holds nothing there: the child mends all words as if no one had them, and pages may be the parent's.

use page::fork::generation;

/// The process that locked it, as forks go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Since(u32);

impl Since {
    #[inline]
    pub(crate) fn now() -> Self {
        Since(generation())
    }

    /// Whether this is a child of the process that it was locked in.
    #[inline]
    pub(crate) fn is_over(self) -> bool {
        self.0 != generation()
    }

    /// # Panics
    /// When it is over.
    #[inline]
    pub(crate) fn expect_here(self) {
        if self.is_over() {
            over();
        }
    }
}

#[cold]
fn over() -> ! {
    panic!(
        "a guard, lock or staged object from before a fork is used in the child: there it can only be dropped"
    )
}
