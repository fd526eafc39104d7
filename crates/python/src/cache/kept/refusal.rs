//! The reason why a value is not stored.

use std::collections::TryReserveError;
use uzram::Error;

/// The reason why a value is not stored.
#[derive(Debug)]
pub enum Refusal {
    /// The value does not fit within the limit, even without all other values.
    NoRoom,
    /// The system refused memory for a copy of the value.
    NoMemory,
    /// The pool, or a codec, failed.
    Failed(Error),
}

impl From<TryReserveError> for Refusal {
    fn from(_: TryReserveError) -> Self {
        Refusal::NoMemory
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal::Failed(error)
    }
}

impl From<uzram::zsmalloc::Error> for Refusal {
    fn from(error: uzram::zsmalloc::Error) -> Self {
        Refusal::Failed(error.into())
    }
}
