//! Why work on entries ends before it is done.

use crate::Error;
use crate::backing::PlaceGuard;
use crate::stats::Counter;

/// Why a request stops before its end.
#[derive(Debug)]
pub(crate) enum Blocked {
    Failed(Error),
    /// What it needs lies in the backing store. It gives up its locks and its stream, which it may
    /// have to wait long without, and goes on where it was with the object in hand.
    OnBacking(PlaceGuard),
}

impl From<Error> for Blocked {
    fn from(error: Error) -> Self {
        Blocked::Failed(error)
    }
}

impl Blocked {
    /// Counts it, if it is a failure.
    pub(crate) fn count_failure(&self, failures: &Counter) {
        if let Blocked::Failed(_) = self {
            failures.add(1);
        }
    }
}
