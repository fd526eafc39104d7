//! Caches for Python.

mod ask;
mod kept;
mod methods;
mod same;

use crate::buffer::with_bytes;
use crate::error::{Answer, Failure, value_error};
use ask::Given;
use kept::Kept;
use pyo3::exceptions::PyKeyError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBool;
use uzram::{Dictionary, DictionarySource};

/// A mapping that compresses its values and keeps the most recently used ones, within a limit of
/// memory.
///
/// `limit` is the maximum number of bytes of memory that the cache uses in total: compressed
/// values, keys, tables, the dictionary, and the buffers for compression. To stay within the limit,
/// the cache evicts the least recently used values. For each evicted value the cache calls
/// `on_evict(key, value)`. An exception from that call, even `KeyboardInterrupt`, is reported as
/// unraisable. The cache does not call `on_evict` if the value can't be unpickled, or if the system
/// refuses memory for the value.
///
/// If a value does not fit even in an empty cache, the store fails with ENOSPC. An old value of the
/// key then stays and becomes the most recently used. The size of a key is the size that
/// `sys.getsizeof` returns, so the elements of a tuple do not count. During a store, the compressed
/// value uses memory beyond the limit. A copy of a value that is not `bytes` also uses memory
/// beyond the limit.
///
/// Values are bytes-like objects, and are returned as `bytes`. With `pickle`, values are any
/// objects that can be pickled. `algorithm` is one of `algorithms()`, with its `level` (None
/// selects its default).
///
/// `dictionary` is used to compress small values. True: when the cache holds enough values, it
/// trains a dictionary from these values. The cache uses the dictionary if the dictionary saves
/// more memory than it needs. Bytes: a dictionary that `train_dictionary` has returned. False: no
/// dictionary. The training uses up to 40 MB of memory. If the limit is 64 MiB or more, this memory
/// counts towards the limit.
///
/// `cache[key]` and `get` make a value the most recently used; `peek`, `in` and the views do not.
/// An iteration visits the keys that exist at its start, the least recently used first. An
/// iteration keeps a list of the keys until its end. Any thread can call any method. After a fork,
/// parent and child each have a copy. If many keys have the same hash, a cache is slower than a
/// dict.
#[pyclass(frozen, weakref, mapping, module = "uzram")]
pub(crate) struct Cache(Kept);

/// Returns the source of the dictionary that the argument `dictionary` selects.
fn training(dictionary: &Given<'_>) -> Answer<DictionarySource> {
    let Some(dictionary) = &dictionary.0 else { return Ok(DictionarySource::Trained) };
    match dictionary.cast::<PyBool>() {
        Ok(trains) if trains.is_true() => Ok(DictionarySource::Trained),
        Ok(_) => Ok(DictionarySource::None),
        Err(_) => {
            let given = with_bytes(dictionary, |bytes| Dictionary::new(bytes))??;
            Ok(DictionarySource::Given(given))
        }
    }
}

/// Returns the error for a missing key. Wraps the key, because Python would take the elements of a
/// tuple as the arguments of the exception.
fn missing(key: &Bound<'_, PyAny>) -> Failure {
    PyKeyError::new_err((key.clone().unbind(),)).into()
}

/// Stores the items of a mapping, or pairs.
fn put_all(kept: &Kept, other: &Bound<'_, PyAny>) -> Answer<()> {
    let py = other.py();
    if let Ok(cache) = other.cast::<Cache>() {
        let from = &cache.get().0;
        for key in from.all_keys(py)? {
            // The value may have been evicted after the key was listed.
            if let Some(value) = from.find(&key, false)? {
                kept.put(&key, &value, true)?;
            }
        }
    } else if other.hasattr(intern!(py, "keys"))? {
        for key in other.call_method0(intern!(py, "keys"))?.try_iter()? {
            let key = key?;
            kept.put(&key, &other.get_item(&key)?, true)?;
        }
    } else {
        for pair in other.try_iter()? {
            // A pair can be any iterable of two elements, as for a dict.
            let pair = pair?.try_iter()?.collect::<PyResult<Vec<_>>>()?;
            let Ok([key, value]) = <[_; 2]>::try_from(pair) else {
                return Err(value_error("a pair of key and value has two elements"));
            };
            kept.put(&key, &value, true)?;
        }
    }
    Ok(())
}
