//! Algorithms and dictionaries.

use crate::buffer::with_bytes;
use crate::error::Answer;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::TryReserveError;
use uzram::{Dictionary, Params, codecs};

/// Returns the parameters for a level and a dictionary from Python.
pub(crate) fn params(level: Option<i32>, dictionary: Option<&Bound<'_, PyAny>>) -> Answer<Params> {
    let dictionary = match dictionary {
        Some(object) => Some(with_bytes(object, |bytes| {
            // Copies at most one byte beyond the maximum, which suffices to refuse a dictionary
            // that is too large.
            Dictionary::new(&bytes[..bytes.len().min(Dictionary::BYTES_MAX + 1)])
        })??),
        None => None,
    };
    Ok(Params { level, dictionary })
}

fn no_memory(error: &TryReserveError) -> PyErr {
    PyMemoryError::new_err(format!("there is no memory for so many samples: {error}"))
}

/// Returns the names of the compression algorithms, the default first.
#[pyfunction]
pub(crate) fn algorithms() -> Vec<&'static str> {
    codecs().iter().map(|codec| codec.name()).collect()
}

/// Returns a dictionary of at most `size` bytes, for the `dictionary` argument of a `Device`.
///
/// `samples` are bytes-like objects, each similar to the data that will be compressed as one unit.
/// At least eight samples are required. Together they must have at least `size` bytes. A hundred
/// times `size` is better. The same samples always result in the same dictionary.
#[pyfunction]
pub(crate) fn train_dictionary<'py>(
    py: Python<'py>,
    samples: &Bound<'py, PyAny>,
    size: usize,
) -> Answer<Bound<'py, PyBytes>> {
    let (mut content, mut lengths) = (Vec::new(), Vec::new());
    for sample in samples.try_iter()? {
        with_bytes(&sample?, |bytes| {
            content.try_reserve(bytes.len()).map_err(|error| no_memory(&error))?;
            content.extend_from_slice(bytes);
            lengths.try_reserve(1).map_err(|error| no_memory(&error))?;
            lengths.push(bytes.len());
            Ok::<_, PyErr>(())
        })??;
    }
    let dictionary = py.detach(|| uzram::zcomp::train_lengths(&content, &lengths, size))?;
    Ok(PyBytes::new(py, dictionary.bytes()))
}
