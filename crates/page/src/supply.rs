//! The point at which a test, or a limit beside the budget, may refuse pages.

use crate::sync::{AtomicUsize, Ordering::Relaxed};
use std::fmt::Debug;

/// What a [`Space`](crate::Space), or a table beside one, is about to ask the system for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A mapping of address space.
    Map {
        /// Bytes of the mapping.
        bytes: usize,
    },
    /// Pages to be committed, which the budget counts already.
    Commit {
        /// The number of pages.
        pages: usize,
    },
    /// Memory outside of any space, which is touched at once.
    Allocate {
        /// Bytes of the allocation.
        bytes: usize,
    },
}

/// Grants or refuses requests before they reach the system. A refusal is handled as the system's
/// own would be, which is how every failure path is tested.
///
/// [`grant`](Self::grant) is called with locks held, the space's and those of its users. It must
/// use none of these, and must not fork.
pub trait Supply: Debug + Send + Sync {
    /// Returns whether the request may go ahead.
    fn grant(&self, request: Request) -> bool;
}

/// A supply for tests, which refuses the n-th request, or every one from the n-th on.
#[derive(Debug)]
pub struct RefuseNth {
    nth: usize,
    from_then_on: bool,
    requests: AtomicUsize,
}

impl RefuseNth {
    /// Returns a supply that refuses request `nth`, counted from 1, and with `from_then_on` all
    /// that follow.
    pub fn new(nth: usize, from_then_on: bool) -> Self {
        RefuseNth { nth, from_then_on, requests: AtomicUsize::new(0) }
    }

    /// Returns the number of requests made so far.
    pub fn requests(&self) -> usize {
        self.requests.load(Relaxed)
    }
}

impl Supply for RefuseNth {
    fn grant(&self, _: Request) -> bool {
        let now = self.requests.fetch_add(1, Relaxed) + 1;
        now < self.nth || (now > self.nth && !self.from_then_on)
    }
}
