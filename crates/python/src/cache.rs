//! Caches: what Python's keys and values add to [`kept`].
//!
//! Keys run Python's code when they are compared, hashed or dropped: it may call the cache again,
//! and lets other threads in. So nothing of that is done under the cache's lock, and there is no
//! waiting for the interpreter there. Who holds the lock may be attached or not; who waits for it,
//! too.

mod ask;
mod kept;
mod methods;
mod put;
mod same;

use crate::buffer::with_bytes;
use crate::error::{Answer, Failure, value_error};
use crate::shared::lock;
use ask::{Asked, Given, judge};
use kept::{Departed, Found, Kept, NoCache, Packed, Probe, Training, Verdicts};
use pyo3::exceptions::{PyKeyError, PyMemoryError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyList};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use uzram::Dictionary;

/// From so many bytes on, Python's other threads run while a value is compressed or decompressed.
const DETACHED_FROM: usize = 16 << 10;

/// The number of "no space left", which is the same on all systems that uzram knows.
const ENOSPC: i32 = 28;

type Key = Py<PyAny>;

/// A mapping that compresses its values and keeps those that were used last, within a limit of
/// memory.
///
/// `limit` is the most bytes of memory that it takes, everything counted: compressed values, keys,
/// tables, dictionary, and what the compression works with. To make room, those values go that were
/// not used for the longest time; `on_evict(key, value)` is then called, and what it raises is
/// reported as unraisable, `KeyboardInterrupt` too. A value that can't be unpickled any more, or
/// that there is no memory for, goes without that call.
///
/// A value that finds no room at all is refused with ENOSPC; the one in its place stays, and is the
/// youngest. A key counts with what `sys.getsizeof` says of it, so a tuple does without what is in
/// it. While a value is stored, it is there packed, and as a copy if it is not `bytes`, beside the
/// limit.
///
/// Values are bytes-like objects, and come back as `bytes`; with `pickle` any objects, which are
/// pickled. `algorithm` is one of `algorithms()`, with its `level` (None: its default).
///
/// `dictionary` is what small values are compressed with. True trains one with the values, once
/// there are enough, and uses it if and when it saves more memory than it takes. Bytes are a
/// dictionary, as `train_dictionary` returns it; False is none. The training takes up to 40 MB for
/// a moment, within the limit if that is 64 MiB or more.
///
/// `cache[key]` and `get` make a value the youngest; `peek`, `in` and the views do not. Iteration
/// goes over the keys that there are when it begins, the oldest first. All calls may come from any
/// thread. After a fork parent and child have a copy each. To iterate takes a list of the keys for
/// that time. Many keys with one hash make a cache slower than a dict.
#[pyclass(frozen, weakref, mapping, module = "uzram")]
pub(crate) struct Cache {
    kept: Arc<Kept<Key>>,
    pickles: bool,
    on_evict: Mutex<Option<Py<PyAny>>>,
    /// Whether a key may be part of a cycle: none of `str`, `bytes`, `int` or `float` is.
    has_containers: AtomicBool,
}

impl From<NoCache> for Failure {
    fn from(error: NoCache) -> Self {
        match error {
            NoCache::Failed(error) => Failure::Uzram(error),
            NoCache::Limit(least) => value_error(format!(
                "the limit is too small; such a cache takes {least} bytes or more"
            )),
        }
    }
}

/// Says where a dictionary comes from.
fn training(dictionary: &Given<'_>) -> Answer<Training> {
    let Some(dictionary) = &dictionary.0 else { return Ok(Training::Itself) };
    match dictionary.cast::<PyBool>() {
        Ok(trains) if trains.is_true() => Ok(Training::Itself),
        Ok(_) => Ok(Training::Without),
        Err(_) => Ok(Training::Given(with_bytes(dictionary, |bytes| Dictionary::new(bytes))??)),
    }
}

/// Returns the error of a key that is not there: a tuple would be taken for all its arguments.
fn missing(key: &Bound<'_, PyAny>) -> Failure {
    PyKeyError::new_err((key.clone().unbind(),)).into()
}

/// Returns the error of what there is no memory for, in the system.
fn no_memory(what: impl std::fmt::Display) -> Failure {
    let message = format!("the system has no memory for a copy of a value: {what}");
    Failure::Python(PyMemoryError::new_err(message))
}

impl Cache {
    /// Asks until the key has been compared with all that have its hash.
    fn ask<T>(
        key: &Bound<'_, PyAny>,
        mut call: impl FnMut(u32, &dyn Probe<Key>, &Verdicts) -> Found<T, Key>,
    ) -> PyResult<Option<T>> {
        let (asked, mut verdicts) = (Asked::new(key)?, Verdicts::default());
        loop {
            match call(asked.hash, &asked, &verdicts) {
                Found::Yes(value) => return Ok(Some(value)),
                Found::No => return Ok(None),
                Found::Ask(unknown) => judge(key, unknown, &mut verdicts)?,
            }
        }
    }

    /// Returns a value as it was given, or as it was pickled.
    fn value<'py>(&self, py: Python<'py>, packed: &Packed) -> Answer<Bound<'py, PyAny>> {
        let unpack = |out: &mut [u8]| match packed.len < DETACHED_FROM {
            true => packed.unpack(out),
            false => py.detach(|| packed.unpack(out)),
        };
        let bytes = PyBytes::new_with(py, packed.len, |out| {
            unpack(out).map_err(|error| Failure::Uzram(error).into())
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
        let found =
            Self::ask(key, |hash, probe, verdicts| self.kept.get(hash, probe, verdicts, touches))?;
        found.map(|(_, packed)| self.value(key.py(), &packed.map_err(no_memory)?)).transpose()
    }

    /// Removes the value of a key once it has been returned as it was given.
    fn take<'py>(&self, key: &Bound<'py, PyAny>) -> Answer<Option<Bound<'py, PyAny>>> {
        loop {
            let call = |hash, probe: &dyn Probe<Key>, verdicts: &Verdicts| {
                self.kept.get(hash, probe, verdicts, false)
            };
            let Some((id, packed)) = Self::ask(key, call)? else { return Ok(None) };
            let value = self.value(key.py(), &packed.map_err(no_memory)?)?;
            // Another thread may have been here meanwhile.
            if self.kept.remove_same(id, &mut Departed::default()) {
                return Ok(Some(value));
            }
        }
    }

    /// Tells of values that had to make room, and drops what left.
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

    /// Returns the keys, the oldest first.
    fn all_keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut keys = Vec::with_capacity(self.kept.len());
        self.kept.for_each_key(|key| keys.push(key.clone_ref(py)));
        PyList::new(py, keys)
    }
}
