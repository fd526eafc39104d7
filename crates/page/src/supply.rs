//! The interface through which a test, or another limit than the budget, may refuse memory.

use crate::sync::{AtomicUsize, Ordering::Relaxed};
use std::fmt::Debug;

/// A request that a [`Space`](crate::Space), or a table outside of a space, is about to make to the
/// system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A mapping of address space.
    Map {
        /// The bytes of the mapping.
        bytes: usize,
    },
    /// Pages to be committed, which the budget already counts.
    Commit {
        /// The number of pages.
        pages: usize,
    },
    /// Memory outside of any space, which is touched immediately.
    Allocate {
        /// The bytes of the allocation.
        bytes: usize,
    },
}

/// Grants or refuses requests before they reach the system. A refusal is handled like a refusal by
/// the system, so tests can reach every failure path.
///
/// [`grant`](Self::grant) is called while the locks of the space and of its owners are held. The
/// function must take none of these locks, and must not fork.
pub trait Supply: Debug + Send + Sync {
    /// Returns whether the request is granted.
    fn grant(&self, request: Request) -> bool;
}

/// A supply for tests, which refuses the n-th request, or every request from the n-th on.
#[derive(Debug)]
pub struct RefuseNth {
    nth: usize,
    from_then_on: bool,
    requests: AtomicUsize,
}

impl RefuseNth {
    /// Returns a supply that refuses request `nth`, counted from 1, and also all later ones if
    /// `from_then_on` is set.
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
