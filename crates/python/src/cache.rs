//! Caches: what Python's keys and values add to [`kept`].
//!
//! Keys run Python's code when they are compared, hashed or dropped: it may call the cache again,
//! and lets other threads in. So nothing of that is done under the cache's lock, and the interpreter
//! is not waited for there. Who holds the lock may be attached or not; who waits for it, too.

mod ask;
mod kept;

use crate::buffer::with_bytes;
use crate::error::{Answer, Error, Failure, value_error};
use crate::shared::lock;
use crate::stats;
use ask::{Asked, Given, judge, key_bytes};
use kept::{
    Departed, Found, Kept, NoCache, Offer, Packed, Plan, Probe, Put, Refusal, Training, Verdicts,
};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::{PyBool, PyBytes, PyDict, PyIterator, PyList, PyTuple, PyType};
use pyo3::{PyTraverseError, PyVisit, intern};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use uzram::{Dictionary, by_name};

/// From so many bytes on, other threads of Python's run while a value is compressed or decompressed.
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
/// reported as unraisable. A value that finds no room at all is refused with ENOSPC. A key counts
/// with what `sys.getsizeof` says of it.
///
/// Values are bytes-like objects, and come back as `bytes`; with `pickle` they are any objects, which
/// are pickled. `algorithm` is one of `algorithms()`, with its `level` (None: its default).
///
/// `dictionary` is what small values are compressed with: True trains one with the first values,
/// once there are enough, if that makes them smaller; bytes are a dictionary, as `train_dictionary`
/// returns it; False is none. The training takes some 20 MB for a moment, within the limit if that
/// is 64 MiB or more.
///
/// `cache[key]` and `get` make a value the youngest; `peek`, `in` and the views do not. Iteration
/// goes over the keys that there are when it begins, the oldest first. All calls may come from any
/// thread. After a fork parent and child have a copy each.
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
        found.map(|packed| self.value(key.py(), &packed)).transpose()
    }

    fn put(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> Answer<()> {
        let py = key.py();
        let asked = Asked::new(key)?;
        let value = if self.pickles {
            // -1 is the highest protocol.
            py.import(intern!(py, "pickle"))?.call_method1(intern!(py, "dumps"), (value, -1))?
        } else {
            value.clone()
        };
        // Bytes never change. What may change is copied first.
        match value.cast_exact::<PyBytes>() {
            Ok(bytes) => self.put_bytes(&asked, bytes.as_bytes()),
            Err(_) => self.put_bytes(&asked, &with_bytes(&value, <[u8]>::to_vec)?),
        }
    }

    fn put_bytes(&self, asked: &Asked<'_, '_>, bytes: &[u8]) -> Answer<()> {
        let key = asked.key;
        let mut offer = Some(Offer {
            key: key.clone().unbind(),
            key_bytes: key_bytes(key),
            packed: self.pack(key.py(), bytes)?,
        });
        if !asked.is_plain {
            self.has_containers.store(true, Relaxed);
        }
        let mut out = Departed::default();
        let put = self.put_offer(asked, bytes, &mut offer, &mut out);
        self.depart(key.py(), out);
        put
    }

    fn pack(&self, py: Python<'_>, bytes: &[u8]) -> Answer<Packed> {
        let packed = match bytes.len() < DETACHED_FROM {
            true => self.kept.pack(bytes),
            false => py.detach(|| self.kept.pack(bytes)),
        };
        packed.map_err(Failure::Uzram)
    }

    fn put_offer(
        &self,
        asked: &Asked<'_, '_>,
        bytes: &[u8],
        offer: &mut Option<Offer<Key>>,
        out: &mut Departed<Key>,
    ) -> Answer<()> {
        let (py, mut verdicts) = (asked.key.py(), Verdicts::default());
        loop {
            match self.kept.put(asked.hash, asked, &verdicts, (bytes, offer), out) {
                Ok(Put::Done(None)) => return Ok(()),
                Ok(Put::Done(Some(samples))) => {
                    py.detach(|| self.kept.learn(samples, out));
                    return Ok(());
                }
                Ok(Put::Stale) => {
                    let packed = self.pack(py, bytes)?;
                    if let Some(offer) = offer {
                        offer.packed = packed;
                    }
                }
                Ok(Put::Ask(unknown)) => judge(asked.key, unknown, &mut verdicts)?,
                Err(Refusal::Failed(error)) => return Err(Failure::Uzram(error)),
                Err(Refusal::NoRoom) => return Err(self.no_room(bytes.len())),
            }
        }
    }

    fn no_room(&self, bytes: usize) -> Failure {
        let limit = self.kept.figures().limit;
        let message = format!(
            "a value of {bytes} bytes finds no room in a cache of {limit}; raise the limit, or \
             store it in parts"
        );
        Failure::Python(Error::new_err((ENOSPC, message)))
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

/// Returns what a class of `uzram._views` makes of the cache.
fn view<'py>(cache: &Bound<'py, Cache>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    cache.py().import(intern!(cache.py(), "uzram._views"))?.getattr(name)?.call1((cache,))
}

#[pymethods]
impl Cache {
    #[new]
    #[pyo3(signature = (limit, *, algorithm="zstd", level=None, dictionary=Given(None), pickle=false, on_evict=None),
           text_signature = "(limit, *, algorithm='zstd', level=None, dictionary=True, pickle=False, on_evict=None)")]
    fn new(
        limit: usize,
        algorithm: &str,
        level: Option<i32>,
        dictionary: Given<'_>,
        pickle: bool,
        on_evict: Option<Py<PyAny>>,
    ) -> Answer<Self> {
        let (codec, dictionary) = (by_name(algorithm)?, training(&dictionary)?);
        let plan = Plan { limit, codec, level, dictionary, wants_evicted: on_evict.is_some() };
        Ok(Cache {
            kept: Kept::new(plan)?,
            pickles: pickle,
            on_evict: Mutex::new(on_evict),
            has_containers: AtomicBool::new(false),
        })
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> Answer<Bound<'py, PyAny>> {
        let found = self.find(key, true)?;
        found.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()).into())
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> Answer<()> {
        self.put(key, value)
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> Answer<()> {
        let mut out = Departed::default();
        let found = Self::ask(key, |hash, probe, verdicts| {
            self.kept.remove(hash, probe, verdicts, false, &mut out)
        })?;
        found.map(drop).ok_or_else(|| PyKeyError::new_err(key.clone().unbind()).into())
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> Answer<bool> {
        let call = |hash, probe: &dyn Probe<Key>, verdicts: &Verdicts| {
            self.kept.contains(hash, probe, verdicts)
        };
        Ok(Self::ask(key, call)?.is_some())
    }

    fn __len__(&self) -> usize {
        self.kept.len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.all_keys(py)?.try_iter()
    }

    /// Returns the value of a key and makes it the youngest, or `default`.
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> Answer<Option<Bound<'py, PyAny>>> {
        Ok(self.find(key, true)?.or(default))
    }

    /// Returns the value of a key, which gets no younger by that, or `default`.
    #[pyo3(signature = (key, default=None))]
    fn peek<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> Answer<Option<Bound<'py, PyAny>>> {
        Ok(self.find(key, false)?.or(default))
    }

    /// Removes a key and returns its value, or `default` if one is given and the key is not there.
    #[pyo3(signature = (key, default=Given(None)), text_signature = "($self, key, default=...)")]
    fn pop<'py>(&self, key: &Bound<'py, PyAny>, default: Given<'py>) -> Answer<Bound<'py, PyAny>> {
        let mut out = Departed::default();
        let found = Self::ask(key, |hash, probe, verdicts| {
            self.kept.remove(hash, probe, verdicts, true, &mut out)
        })?;
        match found.flatten() {
            Some(packed) => self.value(key.py(), &packed),
            None => default.0.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()).into()),
        }
    }

    /// Removes the oldest value, and returns it behind its key.
    fn popitem<'py>(&self, py: Python<'py>) -> Answer<Bound<'py, PyTuple>> {
        let Some((key, packed)) = self.kept.remove_oldest() else {
            return Err(PyKeyError::new_err("popitem(): the cache is empty").into());
        };
        Ok((key, self.value(py, &packed)?).into_pyobject(py)?)
    }

    /// Returns the value of a key; if it is not there, stores `default` and returns that.
    #[pyo3(signature = (key, default=None))]
    fn setdefault<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> Answer<Bound<'py, PyAny>> {
        if let Some(value) = self.find(key, true)? {
            return Ok(value);
        }
        let default = default.unwrap_or_else(|| key.py().None().into_bound(key.py()));
        self.put(key, &default)?;
        Ok(default)
    }

    /// Stores what a mapping, or pairs of keys and values, and keywords say.
    #[pyo3(signature = (other=None, /, **keywords))]
    fn update(
        &self,
        other: Option<&Bound<'_, PyAny>>,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> Answer<()> {
        if let Some(other) = other {
            let py = other.py();
            if other.hasattr(intern!(py, "keys"))? {
                for key in other.call_method0(intern!(py, "keys"))?.try_iter()? {
                    let key = key?;
                    self.put(&key, &other.get_item(&key)?)?;
                }
            } else {
                for pair in other.try_iter()? {
                    let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair?.extract()?;
                    self.put(&key, &value)?;
                }
            }
        }
        for (key, value) in keywords.into_iter().flatten() {
            self.put(&key, &value)?;
        }
        Ok(())
    }

    /// Removes all values, without `on_evict`.
    fn clear(&self, py: Python<'_>) {
        let mut out = Departed::default();
        py.detach(|| self.kept.clear(&mut out));
    }

    /// Returns a view of the keys, the oldest first.
    fn keys<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        view(slf, "Keys")
    }

    /// Returns a view of the values, the oldest first. It skips those that go while it is iterated
    /// over.
    fn values<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        view(slf, "Values")
    }

    /// Returns a view of the keys with their values, the oldest first. It skips those that go while
    /// it is iterated over.
    fn items<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        view(slf, "Items")
    }

    /// Returns what the cache holds, as `CacheStats`.
    fn stats<'py>(&self, py: Python<'py>) -> Answer<Bound<'py, PyAny>> {
        let figures = self.kept.figures();
        let fields = [
            ("entries", figures.entries as u64),
            ("limit", figures.limit as u64),
            ("held", figures.held as u64),
            ("stored", figures.stored),
            ("compressed", figures.compressed),
            ("dictionary", figures.dictionary as u64),
            ("hits", figures.hits),
            ("misses", figures.misses),
            ("evictions", figures.evictions),
        ];
        Ok(stats::make(py, "CacheStats", &fields, &[])?)
    }

    /// Asserts the state of the whole cache, for its tests.
    fn _check(&self, py: Python<'_>) {
        py.detach(|| self.kept.check());
    }

    fn __richcmp__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
        operator: CompareOp,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let name = match operator {
            CompareOp::Eq => "is_equal",
            CompareOp::Ne => "is_other",
            _ => return Ok(py.NotImplemented().into_bound(py)),
        };
        py.import(intern!(py, "uzram._views"))?.call_method1(name, (slf, other))
    }

    #[classmethod]
    fn __class_getitem__<'py>(
        class: &Bound<'py, PyType>,
        types: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        class.py().import("types")?.getattr("GenericAlias")?.call1((class, types))
    }

    fn __sizeof__(&self) -> usize {
        self.kept.figures().held
    }

    fn __repr__(&self) -> String {
        let figures = self.kept.figures();
        format!(
            "<uzram.Cache of {} values in {} of {} bytes>",
            figures.entries, figures.held, figures.limit
        )
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&*lock(&self.on_evict))?;
        let mut visited = Ok(());
        if self.has_containers.load(Relaxed) {
            self.kept.for_each_key(|key| {
                if visited.is_ok() {
                    visited = visit.call(key);
                }
            });
        }
        visited
    }

    fn __clear__(&self) {
        let mut out = Departed::default();
        self.kept.clear(&mut out);
        let on_evict = lock(&self.on_evict).take();
        drop((out, on_evict));
    }
}
