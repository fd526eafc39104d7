//! The reason why a value is not stored.

use crate::Error;
use std::collections::TryReserveError;

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

impl Refusal {
    /// Returns the error of a cache with this limit that did not store a value of `bytes` bytes.
    pub fn of_value(self, bytes: usize, limit: usize) -> Error {
        match self {
            Refusal::NoRoom => Error::NoRoom { bytes, limit },
            Refusal::NoMemory => Error::NoMemory { bytes },
            Refusal::Failed(error) => error,
        }
    }
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

impl From<zsmalloc::Error> for Refusal {
    fn from(error: zsmalloc::Error) -> Self {
        Refusal::Failed(error.into())
    }
}
