//! The methods that Python calls on a mapping.

use super::ask::Given;
use super::{Cache, Key, missing, training};
use crate::error::Answer;
use crate::shared::lock;
use crate::stats::make;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::{PyDict, PyIterator, PyTuple, PyType};
use pyo3::{PyTraverseError, PyVisit, intern};
use std::sync::atomic::Ordering::Relaxed;
use uzram::lru::raw::{Compare, Departed, RawLruCache, Verdicts};
use uzram::{LruOptions, by_name};

/// Returns a view of the cache, of a class of `uzram._views`.
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
        let kept = RawLruCache::new(LruOptions { limit, algorithm, level, dictionary })?;
        if on_evict.is_some() {
            kept.report_evicted();
        }
        Ok(Cache { kept, pickles: pickle, on_evict: on_evict.into(), has_containers: false.into() })
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> Answer<Bound<'py, PyAny>> {
        let found = self.find(key, true)?;
        found.ok_or_else(|| missing(key))
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> Answer<()> {
        self.put(key, value, true).map(drop)
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> Answer<()> {
        let mut out = Departed::default();
        let found = Self::ask(key, |hash, compare, verdicts| {
            self.kept.remove(hash, compare, verdicts, &mut out)
        })?;
        found.map(drop).ok_or_else(|| missing(key))
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> Answer<bool> {
        let call = |hash, compare: Compare<'_, Key>, verdicts: &Verdicts| {
            self.kept.contains(hash, compare, verdicts)
        };
        Ok(Self::ask(key, call)?.is_some())
    }

    fn __len__(&self) -> usize {
        self.kept.len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.all_keys(py)?.try_iter()
    }

    /// Returns the value of a key and makes it the most recently used, or returns `default`.
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> Answer<Option<Bound<'py, PyAny>>> {
        Ok(self.find(key, true)?.or(default))
    }

    /// Returns the value of a key, without marking it as used, or returns `default`.
    #[pyo3(signature = (key, default=None))]
    fn peek<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> Answer<Option<Bound<'py, PyAny>>> {
        Ok(self.find(key, false)?.or(default))
    }

    /// Removes a key and returns its value. If the key is missing, returns `default` if one is
    /// given.
    #[pyo3(signature = (key, default=Given(None)), text_signature = "($self, key, default=...)")]
    fn pop<'py>(&self, key: &Bound<'py, PyAny>, default: Given<'py>) -> Answer<Bound<'py, PyAny>> {
        self.take(key)?.or(default.0).ok_or_else(|| missing(key))
    }

    /// Removes the least recently used value. Returns its key and the value.
    fn popitem<'py>(&self, py: Python<'py>) -> Answer<Bound<'py, PyTuple>> {
        while let Some((key, (id, packed))) = self.kept.oldest(|key| key.clone_ref(py)) {
            let value = self.value(py, &packed?)?;
            if self.kept.remove_same(id, &mut Departed::default()) {
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
            if let Some(value) = self.find(key, true)? {
                return Ok(value);
            }
            // If another thread has stored a value for the key, the search is repeated.
            if self.put(key, &default, false)? {
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
        if let Some(other) = other {
            self.put_all(other)?;
        }
        for (key, value) in keywords.into_iter().flatten() {
            self.put(&key, &value, true)?;
        }
        Ok(())
    }

    /// Removes all values, without calling `on_evict`.
    fn clear(&self, py: Python<'_>) {
        let mut out = Departed::default();
        py.detach(|| self.kept.clear(&mut out));
    }

    /// Returns a view of the keys, the least recently used first.
    fn keys<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        view(slf, "Keys")
    }

    /// Returns a view of the values, the least recently used first. It skips values that are
    /// removed during an iteration.
    fn values<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        view(slf, "Values")
    }

    /// Returns a view of the keys with their values, the least recently used first. It skips values
    /// that are removed during an iteration.
    fn items<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        view(slf, "Items")
    }

    /// Returns the statistics of the cache, as `CacheStats`.
    fn stats<'py>(&self, py: Python<'py>) -> Answer<Bound<'py, PyAny>> {
        let stats = self.kept.stats();
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
        self.kept.stats().held
    }

    fn __repr__(&self) -> String {
        let stats = self.kept.stats();
        format!(
            "<uzram.Cache of {} values in {} of {} bytes>",
            stats.entries, stats.held, stats.limit
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
