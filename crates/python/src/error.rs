//! Errors of uzram as Python's exceptions.

use pyo3::exceptions::{PyMemoryError, PyOSError, PyValueError};
use pyo3::prelude::*;

pyo3::create_exception!(
    uzram,
    Error,
    PyOSError,
    "Why a call of uzram failed.\n\n\
     `errno` is the number that a C function would answer with (ENOSPC where a limit is reached), \
     and `strerror` says what is wrong and what helps."
);

/// The reason why a call from Python failed.
pub(crate) enum Failure {
    /// An error of uzram.
    Uzram(uzram::Error),
    /// A Python exception.
    Python(PyErr),
}

/// The result of a call from Python.
pub(crate) type Answer<T> = Result<T, Failure>;

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        match failure {
            Failure::Uzram(error) => Error::new_err((error.errno(), error.to_string())),
            Failure::Python(error) => error,
        }
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Failure::Python(error)
    }
}

macro_rules! from_errors {
    ($($error:ty),*) => { $(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Failure::Uzram(error.into())
            }
        }
    )* };
}

from_errors!(
    uzram::zram::Error,
    uzram::zsmalloc::Error,
    uzram::zcomp::Error,
    uzram::page::Error,
    uzram::slab::Error,
    uzram::zmem::Error
);

impl From<uzram::lru::Error> for Failure {
    fn from(error: uzram::lru::Error) -> Self {
        use uzram::lru::Error::*;
        match error {
            LimitTooSmall { .. } => value_error(error.to_string()),
            NoMemory { .. } => Failure::Python(PyMemoryError::new_err(error.to_string())),
            error => Failure::Uzram(error.into()),
        }
    }
}

/// Returns the error of a call on a closed object.
pub(crate) fn closed(what: &str) -> Failure {
    value_error(format!("the {what} is closed; make a new one"))
}

/// Returns a `ValueError`.
pub(crate) fn value_error(message: impl Into<String>) -> Failure {
    Failure::Python(PyValueError::new_err(message.into()))
}
