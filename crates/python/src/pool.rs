//! Pools.

use crate::buffer::{with_bytes, with_bytes_mut};
use crate::error::{Answer, Failure};
use crate::shared::Shared;
use crate::stats;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;
use uzram::{Handle, PageConfig, PoolConfig, page_size};

/// A pool of byte strings of any length. A number, the handle, identifies each byte string. The
/// pool packs the byte strings densely, and does not compress them.
///
/// `limit` is the maximum size in bytes of the pool's pages, rounded up to whole pages (None: no
/// limit; 0: no pages). If the limit is reached, `store` fails with ENOSPC, and stored objects are
/// kept.
///
/// After a fork, parent and child each have a copy. Calls with a handle that was freed, or that
/// belongs to another pool, fail with ESTALE.
#[pyclass(frozen, weakref, module = "uzram")]
pub(crate) struct Pool(Shared<uzram::Pool>);

// All methods except `compact` and `close` take about a microsecond, so the thread stays attached
// to the interpreter. If a thread with a pinned object detached, it could wait for the interpreter
// while the attached thread waits for the pin.

impl Pool {
    fn get(&self) -> Answer<Arc<uzram::Pool>> {
        self.0.get()
    }
}

#[pymethods]
impl Pool {
    #[new]
    #[pyo3(signature = (*, limit=None))]
    fn new(limit: Option<u64>) -> Answer<Self> {
        let limit = limit.map(|bytes| bytes.div_ceil(page_size() as u64) as usize);
        let pages = PageConfig { limit, ..PageConfig::default() };
        let pool = uzram::Pool::new(PoolConfig { pages, ..PoolConfig::default() })?;
        Ok(Pool(Shared::new("pool", pool)))
    }

    /// Stores the bytes of `data`, at least one and at most `PoolStats.object_bytes_max`. Returns
    /// their handle.
    fn store(&self, data: &Bound<'_, PyAny>) -> Answer<u64> {
        let pool = self.get()?;
        Ok(with_bytes(data, |bytes| pool.store(bytes))??.into_raw())
    }

    /// Returns the bytes of an object.
    fn read<'py>(&self, py: Python<'py>, handle: u64) -> Answer<Bound<'py, PyBytes>> {
        let (pool, handle) = (self.get()?, Handle::from_raw(handle)?);
        let object = pool.read(&handle)?;
        Ok(PyBytes::new_with(py, object.len(), |bytes| {
            bytes.copy_from_slice(&object);
            Ok(())
        })?)
    }

    /// Copies an object's bytes to `buffer`, up to the length of `buffer`. Returns the number of
    /// bytes copied.
    fn readinto(&self, handle: u64, buffer: &Bound<'_, PyAny>) -> Answer<usize> {
        let (pool, handle) = (self.get()?, Handle::from_raw(handle)?);
        with_bytes_mut(buffer, |bytes| {
            let object = pool.read(&handle)?;
            let copied = bytes.len().min(object.len());
            bytes[..copied].copy_from_slice(&object[..copied]);
            Ok::<_, Failure>(copied)
        })?
    }

    /// Overwrites the first bytes of an object with `data`. Returns the number of bytes written.
    /// The object keeps its length, which `data` must not exceed.
    fn write(&self, handle: u64, data: &Bound<'_, PyAny>) -> Answer<usize> {
        let (pool, handle) = (self.get()?, Handle::from_raw(handle)?);
        with_bytes(data, |bytes| {
            pool.write(&handle, bytes)?;
            Ok::<_, Failure>(bytes.len())
        })?
    }

    /// Returns the length of an object in bytes.
    fn size_of(&self, handle: u64) -> Answer<usize> {
        let (pool, handle) = (self.get()?, Handle::from_raw(handle)?);
        Ok(pool.read(&handle)?.len())
    }

    /// Frees an object. Later calls with the handle of the object fail.
    fn free(&self, handle: u64) -> Answer<()> {
        Ok(self.get()?.free(Handle::from_raw(handle)?)?)
    }

    /// Moves objects together to free pages. Returns the number of bytes freed.
    fn compact(&self, py: Python<'_>) -> Answer<usize> {
        let pool = self.get()?;
        Ok(py.detach(|| pool.compact()) * page_size())
    }

    /// Returns the statistics of the pool, as `PoolStats`.
    fn stats<'py>(&self, py: Python<'py>) -> Answer<Bound<'py, PyAny>> {
        let pool = self.get()?;
        let fields = [
            ("objects", pool.len()),
            ("pages_bytes", (pool.pages().used() * page_size()) as u64),
            ("total_bytes", pool.bytes() as u64),
            ("freeable_bytes", pool.freeable() as u64),
            ("object_bytes_max", pool.largest() as u64),
        ];
        let limit =
            pool.pages().limit().map(|pages| (pages as u64).saturating_mul(page_size() as u64));
        Ok(stats::make(py, "PoolStats", &fields, &[("limit", limit)])?)
    }

    /// Closes the pool. After the calls of other threads end, its memory is freed and all objects
    /// are lost. Closing a closed pool has no effect.
    fn close(&self, py: Python<'_>) {
        self.0.close(py);
    }

    /// True if the pool is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.0.is_closed()
    }

    fn __len__(&self) -> Answer<usize> {
        Ok(self.get()?.len() as usize)
    }

    fn __bool__(&self) -> bool {
        true
    }

    fn __enter__(slf: PyRef<'_, Self>) -> Answer<PyRef<'_, Self>> {
        slf.get()?;
        Ok(slf)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) {
        self.0.close(py);
    }

    fn __repr__(&self) -> String {
        match self.get() {
            Ok(pool) => format!("<uzram.Pool of {} objects>", pool.len()),
            Err(_) => "<uzram.Pool closed>".to_owned(),
        }
    }
}
