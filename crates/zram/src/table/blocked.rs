//! Why work on entries ends before it is done.

use crate::Error;
use crate::backing::PlaceGuard;

/// Why a request stops before its end.
#[derive(Debug)]
pub(crate) enum Blocked {
    Failed(Error),
    /// A block was made of what it looked at, or is one no more. It goes on where it was.
    Changed,
    /// What it needs lies in the backing store. It gives up its locks and its stream, which it may
    /// have to wait long without, and goes on where it was with the object in hand.
    OnBacking(PlaceGuard),
}

impl From<Error> for Blocked {
    fn from(error: Error) -> Self {
        Blocked::Failed(error)
    }
}
