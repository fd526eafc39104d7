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
/// the cache evicts the least recently used values. It then calls `on_evict(key, value)`; an
/// exception from that call, even `KeyboardInterrupt`, is reported as unraisable. It does not call
/// `on_evict` for a value that can no longer be unpickled, or if memory for the value can't be
/// allocated.
///
/// If a value does not fit even in an empty cache, storing it fails with ENOSPC; the old value of
/// the key, if any, stays and becomes the most recently used. The size of a key is the size that
/// `sys.getsizeof` returns, so the elements of a tuple do not count. While a value is being stored,
/// its compressed form, and a copy of the value if it is not `bytes`, use memory in addition to the
/// limit.
///
/// Values are bytes-like objects, and are returned as `bytes`. With `pickle`, values are any
/// objects that can be pickled. `algorithm` is one of `algorithms()`, with its `level` (None
/// selects its default).
///
/// `dictionary` is used to compress small values. True: when the cache holds enough values, it
/// trains a dictionary from them, and uses the dictionary if that saves more memory than it needs.
/// Bytes: a dictionary that `train_dictionary` has returned. False: no dictionary. The training
/// uses up to 40 MB for a moment, within the limit if the limit is 64 MiB or more.
///
/// `cache[key]` and `get` make a value the most recently used; `peek`, `in` and the views do not.
/// An iteration visits the keys that exist when it begins, the least recently used first, and keeps
/// a list of these keys until it ends. Any thread may call any method. After a fork, parent and
/// child each have a copy. Many keys with the same hash make a cache slower than a dict.
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

/// Returns the error for a missing key. The key is wrapped, because Python would interpret a tuple
/// as all arguments of the exception.
fn missing(key: &Bound<'_, PyAny>) -> Failure {
    PyKeyError::new_err((key.clone().unbind(),)).into()
}

/// Stores the items of a mapping, or pairs.
fn put_all(kept: &Kept, other: &Bound<'_, PyAny>) -> Answer<()> {
    let py = other.py();
    if let Ok(cache) = other.cast::<Cache>() {
        let from = &cache.get().0;
        for key in from.all_keys(py)? {
            // The value may have been evicted since the key was listed.
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
            // A pair may be any iterable of two elements, as for a dict.
            let pair = pair?.try_iter()?.collect::<PyResult<Vec<_>>>()?;
            let Ok([key, value]) = <[_; 2]>::try_from(pair) else {
                return Err(value_error("a pair of key and value has two elements"));
            };
            kept.put(&key, &value, true)?;
        }
    }
    Ok(())
}
