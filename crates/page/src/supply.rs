//! The point at which a test, or a policy, may refuse pages.

use crate::sync::{AtomicUsize, Ordering::Relaxed};
use std::fmt::Debug;

/// What a [`Space`](crate::Space), or a table beside one, is about to ask of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// To map this many bytes of address space.
    Map {
        /// Bytes of the mapping.
        bytes: usize,
    },
    /// To commit this many pages, which the budget counts already.
    Commit {
        /// Number of pages.
        pages: usize,
    },
    /// To allocate this many bytes outside of any space; they are touched at once.
    Allocate {
        /// Bytes of the allocation.
        bytes: usize,
    },
}

/// Grants or refuses requests before they reach the system. Refusals are answered as the system's
/// own would be, which is how every failure path is tested.
///
/// It is asked with locks held, of the space and of what is built on it: it uses neither, and does
/// not fork.
pub trait Supply: Debug + Send + Sync {
    /// Whether the request may go ahead.
    fn grant(&self, request: Request) -> bool;
}

/// A supply for tests: it refuses the n-th request, or every one from the n-th on.
#[derive(Debug)]
pub struct RefuseNth {
    nth: usize,
    from_then_on: bool,
    requests: AtomicUsize,
}

impl RefuseNth {
    /// Refuses request `nth`, counted from 1, and with `from_then_on` all that follow.
    pub fn new(nth: usize, from_then_on: bool) -> Self {
        RefuseNth { nth, from_then_on, requests: AtomicUsize::new(0) }
    }

    /// Requests made so far.
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
