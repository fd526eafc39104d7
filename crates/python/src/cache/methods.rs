//! The methods that Python calls on a mapping.

use super::ask::Given;
use super::kept::Kept;
use super::{Cache, missing, put_all, training};
use crate::error::Answer;
use crate::shared::lock;
use crate::stats::make;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::{PyDict, PyIterator, PyTuple, PyType};
use pyo3::{PyTraverseError, PyVisit, intern};
use std::sync::atomic::Ordering::Relaxed;
use uzram::lru::raw::{Departed, RawLruCache};
use uzram::{LruOptions, by_name};

/// Returns a view of the cache. `name` is a class of `uzram._views`.
fn view<'py>(cache: &Bound<'py, Cache>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    cache.py().import(intern!(cache.py(), "uzram._views"))?.getattr(name)?.call1((cache,))
}

#[pymethods]
impl Cache {
    #[new]
    #[pyo3(
        signature = (limit, *, algorithm="zstd", level=None, dictionary=Given(None),
                     pickle=false, on_evict=None),
        text_signature = "(limit, *, algorithm='zstd', level=None, dictionary=True, \
                          pickle=False, on_evict=None)"
    )]
    fn new(
        limit: usize,
        algorithm: &str,
        level: Option<i32>,
        dictionary: Given<'_>,
        pickle: bool,
        on_evict: Option<Py<PyAny>>,
    ) -> Answer<Self> {
        let (algorithm, dictionary) = (by_name(algorithm)?, training(&dictionary)?);
        let raw = RawLruCache::new(LruOptions { limit, algorithm, level, dictionary })?;
        if on_evict.is_some() {
            raw.report_evicted();
        }
        let (on_evict, has_containers) = (on_evict.into(), false.into());
        Ok(Cache(Kept { raw, pickles: pickle, on_evict, has_containers }))
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> Answer<Bound<'py, PyAny>> {
        let found = self.0.find(key, true)?;
        found.ok_or_else(|| missing(key))
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> Answer<()> {
        self.0.put(key, value, true).map(drop)
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> Answer<()> {
        let mut out = Departed::default();
        let found = Kept::ask(key, |hash, compare, verdicts| {
            self.0.raw.remove(hash, compare, verdicts, &mut out)
        })?;
        found.map(drop).ok_or_else(|| missing(key))
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> Answer<bool> {
        let raw = &self.0.raw;
        let found = Kept::ask(key, |hash, compare, verdicts| raw.contains(hash, compare, verdicts));
        Ok(found?.is_some())
    }

    fn __len__(&self) -> usize {
        self.0.raw.len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.0.all_keys(py)?.try_iter()
    }

    /// Returns the value of a key and makes it the most recently used, or returns `default`.
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> Answer<Option<Bound<'py, PyAny>>> {
        Ok(self.0.find(key, true)?.or(default))
    }

    /// Returns the value of a key, without marking it as used, or returns `default`.
    #[pyo3(signature = (key, default=None))]
    fn peek<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> Answer<Option<Bound<'py, PyAny>>> {
        Ok(self.0.find(key, false)?.or(default))
    }

    /// Removes a key and returns its value. If the key is missing, returns `default` if one is
    /// given.
    #[pyo3(signature = (key, default=Given(None)), text_signature = "($self, key, default=...)")]
    fn pop<'py>(&self, key: &Bound<'py, PyAny>, default: Given<'py>) -> Answer<Bound<'py, PyAny>> {
        self.0.take(key)?.or(default.0).ok_or_else(|| missing(key))
    }

    /// Removes the least recently used value. Returns its key and the value.
    fn popitem<'py>(&self, py: Python<'py>) -> Answer<Bound<'py, PyTuple>> {
        while let Some((key, (id, packed))) = self.0.raw.oldest(|key| key.clone_ref(py)) {
            let value = self.0.value(py, &packed?)?;
            if self.0.raw.remove_same(id, &mut Departed::default()) {
                return Ok((key, value).into_pyobject(py)?);
            }
        }
        Err(PyKeyError::new_err("popitem(): the cache is empty").into())
    }

    /// Returns the value of a key. If the key is missing, stores `default` and returns it.
    #[pyo3(signature = (key, default=None))]
    fn setdefault<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> Answer<Bound<'py, PyAny>> {
        let default = default.unwrap_or_else(|| key.py().None().into_bound(key.py()));
        loop {
            if let Some(value) = self.0.find(key, true)? {
                return Ok(value);
            }
            // If another thread has stored a value for the key, searches again.
            if self.0.put(key, &default, false)? {
                return Ok(default);
            }
        }
    }

    /// Stores the items of a mapping, or pairs of keys and values, and the keyword arguments.
    #[pyo3(signature = (other=None, /, **keywords))]
    fn update(
        &self,
        other: Option<&Bound<'_, PyAny>>,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> Answer<()> {
        other.map_or(Ok(()), |other| put_all(&self.0, other))?;
        for (key, value) in keywords.into_iter().flatten() {
            self.0.put(&key, &value, true)?;
        }
        Ok(())
    }

    /// Removes all values, without calling `on_evict`.
    fn clear(&self, py: Python<'_>) {
        let mut out = Departed::default();
        py.detach(|| self.0.raw.clear(&mut out));
    }

    /// Returns a view of the keys, the least recently used first.
    fn keys<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        view(slf, "Keys")
    }

    /// Returns a view of the values, the least recently used first. An iteration skips values that
    /// were removed after its start.
    fn values<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        view(slf, "Values")
    }

    /// Returns a view of the keys with their values, the least recently used first. An iteration
    /// skips keys that were removed after its start.
    fn items<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        view(slf, "Items")
    }

    /// Returns the statistics of the cache, as `CacheStats`.
    fn stats<'py>(&self, py: Python<'py>) -> Answer<Bound<'py, PyAny>> {
        let stats = self.0.raw.stats();
        let fields = [
            ("entries", stats.entries as u64),
            ("limit", stats.limit as u64),
            ("held", stats.held as u64),
            ("stored", stats.stored),
            ("compressed", stats.compressed),
            ("dictionary", stats.dictionary as u64),
            ("hits", stats.hits),
            ("misses", stats.misses),
            ("evictions", stats.evictions),
        ];
        Ok(make(py, "CacheStats", &fields, &[])?)
    }

    /// Asserts that the state of the whole cache is consistent, for tests.
    fn _check(&self, py: Python<'_>) {
        py.detach(|| self.0.raw.check());
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
        self.0.raw.stats().held
    }

    fn __repr__(&self) -> String {
        let stats = self.0.raw.stats();
        format!(
            "<uzram.Cache of {} values in {} of {} bytes>",
            stats.entries, stats.held, stats.limit
        )
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&*lock(&self.0.on_evict))?;
        let mut visited = Ok(());
        if self.0.has_containers.load(Relaxed) {
            self.0.raw.for_each_key(|key| {
                if visited.is_ok() {
                    visited = visit.call(key);
                }
            });
        }
        visited
    }

    fn __clear__(&self) {
        let mut out = Departed::default();
        self.0.raw.clear(&mut out);
        let on_evict = lock(&self.0.on_evict).take();
        drop((out, on_evict));
    }
}
