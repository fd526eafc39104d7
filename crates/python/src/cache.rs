//! Caches: Python's keys and values on top of [`RawLruCache`].
//!
//! Keys may run Python code when they are compared, hashed or dropped: this code may call the cache
//! again, and lets other threads run. So keys are not compared, hashed or dropped under the cache's
//! lock, and no thread waits for the interpreter while it holds the lock. A thread that holds the
//! lock, or waits for it, may be attached or detached.

mod ask;
mod methods;
mod put;
mod same;

use crate::buffer::with_bytes;
use crate::error::{Answer, Failure};
use crate::shared::lock;
use ask::{Asked, Given, judge};
use pyo3::exceptions::PyKeyError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyList};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use uzram::lru::raw::{Compare, Departed, Found, Packed, RawLruCache, Verdicts};
use uzram::{Dictionary, DictionarySource};

/// The minimum length in bytes of a value during whose compression or decompression other Python
/// threads can run.
const DETACHED_FROM: usize = 16 << 10;

type Key = Py<PyAny>;

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
pub(crate) struct Cache {
    kept: Arc<RawLruCache<Key>>,
    pickles: bool,
    on_evict: Mutex<Option<Py<PyAny>>>,
    /// Whether a key may be part of a reference cycle. Keys of the types `str`, `bytes`, `int` and
    /// `float` never are.
    has_containers: AtomicBool,
}

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

impl Cache {
    /// Repeats `call` until the key has been compared with all keys that have its hash.
    fn ask<T>(
        key: &Bound<'_, PyAny>,
        mut call: impl FnMut(u32, Compare<'_, Key>, &Verdicts) -> Found<T, Key>,
    ) -> PyResult<Option<T>> {
        let (asked, mut verdicts) = (Asked::new(key)?, Verdicts::default());
        loop {
            match call(asked.hash, &|kept| asked.compare(kept), &verdicts) {
                Found::Yes(value) => return Ok(Some(value)),
                Found::No => return Ok(None),
                Found::Ask(unknown) => judge(key, unknown, &mut verdicts)?,
            }
        }
    }

    /// Returns a value in the form in which it was stored, unpickled if it was pickled.
    fn value<'py>(&self, py: Python<'py>, packed: &Packed) -> Answer<Bound<'py, PyAny>> {
        let unpack = |out: &mut [u8]| match packed.len < DETACHED_FROM {
            true => packed.unpack(out),
            false => py.detach(|| packed.unpack(out)),
        };
        let bytes = PyBytes::new_with(py, packed.len, |out| {
            unpack(out).map_err(|error| Failure::from(error).into())
        })?;
        if !self.pickles {
            return Ok(bytes.into_any());
        }
        Ok(py.import(intern!(py, "pickle"))?.call_method1(intern!(py, "loads"), (bytes,))?)
    }

    fn find<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        touches: bool,
    ) -> Answer<Option<Bound<'py, PyAny>>> {
        let found = Self::ask(key, |hash, compare, verdicts| {
            self.kept.get(hash, compare, verdicts, touches)
        })?;
        found.map(|(_, packed)| self.value(key.py(), &packed?)).transpose()
    }

    /// Removes the value of a key after the value was converted to its Python form.
    fn take<'py>(&self, key: &Bound<'py, PyAny>) -> Answer<Option<Bound<'py, PyAny>>> {
        loop {
            let call = |hash, compare: Compare<'_, Key>, verdicts: &Verdicts| {
                self.kept.get(hash, compare, verdicts, false)
            };
            let Some((id, packed)) = Self::ask(key, call)? else { return Ok(None) };
            let value = self.value(key.py(), &packed?)?;
            // Another thread may have changed the cache since the value was found.
            if self.kept.remove_same(id, &mut Departed::default()) {
                return Ok(Some(value));
            }
        }
    }

    /// Calls `on_evict` for evicted values, and drops all keys and values that were removed from
    /// the cache.
    fn depart(&self, py: Python<'_>, out: Departed<Key>) {
        if out.evicted.is_empty() {
            return;
        }
        let on_evict = lock(&self.on_evict).as_ref().map(|call| call.clone_ref(py));
        let Some(on_evict) = on_evict else { return };
        for (key, packed) in out.evicted {
            let told = self.value(py, &packed).map_err(PyErr::from);
            let told = told.and_then(|value| on_evict.call1(py, (key, value)));
            if let Err(error) = told {
                error.write_unraisable(py, Some(on_evict.bind(py)));
            }
        }
    }

    /// Returns the keys, the least recently used first.
    fn all_keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut keys = Vec::with_capacity(self.kept.len());
        self.kept.for_each_key(|key| keys.push(key.clone_ref(py)));
        PyList::new(py, keys)
    }
}
