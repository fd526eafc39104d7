//! Regions.
//!
//! # Safety
//! A view of Python's keeps its object, and so the region: `close` refuses while there are views.
//! Nobody here makes a reference to a region's bytes; Python's threads read and write them
//! as plain memory.
#![allow(unsafe_code)]

pub(crate) mod locked;
mod memory;

use crate::buffer::describe;
use crate::codec::params;
use crate::error::{Answer, value_error};
use crate::stats;
use locked::RegionLock;
use memory::Memory;
use pyo3::ffi::Py_buffer;
use pyo3::prelude::*;
use std::ops::Range;
use std::sync::Arc;
use uzram::zmem::BlockOrder;
use uzram::{Advice, RegionOptions, SLOT_BYTES, by_name};

/// `size` bytes of memory, zeros at first, which hold their cold parts compressed.
///
/// It lends its memory by the buffer protocol, writable: `memoryview(region)`,
/// `numpy.frombuffer(region)`. A touch of what is compressed brings it back. The memory stays until
/// the last view of it is gone, whatever becomes of the object.
///
/// `limit` is the most bytes that it holds, with all that serves it (None: only `reclaim` and
/// `advise` compress anything). `algorithm` is one of `algorithms()`, with its `level` (None: its
/// default). `block_size` is how many bytes go and come as one: 4096, 8192, 16384, 32768 or 65536.
///
/// What can't go passes the limit: data that do not get smaller, compressed data that do not fit,
/// and what is locked. A limit that is lowered, and an unlock, take effect within half a second or
/// so; data that get smaller only later, within some seconds.
///
/// System calls on parts that are compressed fail with EFAULT: `lock` what you pass to
/// `file.readinto`, `socket.send` and the like. A touch raises SIGSEGV, which uzram answers: don't
/// block that signal. Enable `faulthandler` before the first region is made, if at all, and do not
/// disable it: that takes uzram's answer away with its own, and the next touch ends the program.
///
/// After a fork parent and child have a copy each.
#[pyclass(frozen, weakref, module = "uzram")]
pub(crate) struct Region(Arc<Memory>);

/// Returns a range, which the region checks.
fn range(offset: usize, length: usize) -> Answer<Range<usize>> {
    let end = offset.checked_add(length);
    let end = end.ok_or_else(|| {
        value_error(format!("{length} bytes at {offset} are not within the region"))
    })?;
    Ok(offset..end)
}

/// Returns the order of blocks of so many bytes.
fn block_order(bytes: usize) -> Answer<BlockOrder> {
    if bytes.is_power_of_two() && bytes >= SLOT_BYTES {
        return Ok(BlockOrder::Fixed(bytes.trailing_zeros() - SLOT_BYTES.trailing_zeros()));
    }
    let message = "blocks can't have so many bytes; 4096, 8192, 16384, 32768 or 65536 are possible";
    Err(value_error(format!("block_size {bytes}: {message}")))
}

impl Region {
    fn get(&self) -> Answer<Arc<uzram::Region>> {
        self.0.get()
    }
}

#[pymethods]
impl Region {
    #[new]
    #[pyo3(signature = (size, limit=None, *, algorithm="lz4", level=None, block_size=4096))]
    fn new(
        size: usize,
        limit: Option<u64>,
        algorithm: &str,
        level: Option<i32>,
        block_size: usize,
    ) -> Answer<Self> {
        let options = RegionOptions {
            block: block_order(block_size)?,
            codec: by_name(algorithm)?,
            params: params(level, None)?,
            limit,
            ..RegionOptions::default()
        };
        let region = uzram::Region::new(size, options)?;
        Ok(Region(Arc::new(Memory::new(region))))
    }

    /// # Safety
    /// As Python calls it.
    unsafe fn __getbuffer__(slf: &Bound<'_, Self>, view: *mut Py_buffer, flags: i32) -> Answer<()> {
        let region = slf.get().0.take()?;
        // SAFETY: Python's view; the memory stays as long as views are counted.
        let described =
            unsafe { describe(slf.as_any(), view, region.as_ptr(), region.len(), flags) };
        if described.is_err() {
            slf.get().0.leave();
        }
        Ok(described?)
    }

    /// # Safety
    /// As Python calls it.
    unsafe fn __releasebuffer__(&self, _view: *mut Py_buffer) {
        self.0.leave();
    }

    /// Compresses `size` bytes, rounded up to whole blocks, the coldest first, and returns how many
    /// bytes went: fewer where no more can go.
    fn reclaim(&self, py: Python<'_>, size: usize) -> Answer<usize> {
        let region = self.get()?;
        Ok(py.detach(|| region.reclaim(size)))
    }

    /// Brings `length` bytes from byte `offset` on back.
    fn prefetch(&self, py: Python<'_>, offset: usize, length: usize) -> Answer<()> {
        let (region, range) = (self.get()?, range(offset, length)?);
        Ok(py.detach(|| region.prefetch(range))?)
    }

    /// Tells how `length` bytes from byte `offset` on will be used: "cold" (not soon: they are
    /// compressed now) or "hot" (soon, and often: they are brought back).
    fn advise(&self, py: Python<'_>, offset: usize, length: usize, advice: &str) -> Answer<()> {
        let (region, range) = (self.get()?, range(offset, length)?);
        let advice = match advice {
            "cold" => Advice::Cold,
            "hot" => Advice::Hot,
            other => {
                let message = format!("advice {other:?} means nothing; pass \"cold\" or \"hot\"");
                return Err(value_error(message));
            }
        };
        Ok(py.detach(|| region.advise(range, advice))?)
    }

    /// Brings `length` bytes from byte `offset` on back, and keeps them resident until the result
    /// is unlocked, so that system calls may use them:
    /// `with region.lock(0, 4096): file.readinto(view[:4096])`.
    fn lock(&self, py: Python<'_>, offset: usize, length: usize) -> Answer<RegionLock> {
        RegionLock::new(py, &self.0, range(offset, length)?)
    }

    /// Makes `length` bytes from byte `offset` on zeros. Whole blocks take no memory then. Where
    /// one of those is locked nothing is changed, and OSError (EBUSY) is raised.
    fn discard(&self, py: Python<'_>, offset: usize, length: usize) -> Answer<()> {
        let (region, range) = (self.get()?, range(offset, length)?);
        // SAFETY: see the head of this file.
        py.detach(|| unsafe { region.dont_need_shared(range) })?;
        Ok(())
    }

    /// Sets the most bytes that the region holds, or lifts that limit (None).
    fn set_limit(&self, py: Python<'_>, limit: Option<u64>) -> Answer<()> {
        let region = self.get()?;
        Ok(py.detach(|| region.set_limit(limit))?)
    }

    /// Returns what the region holds and has done, as `RegionStats`.
    fn stats<'py>(&self, py: Python<'py>) -> Answer<Bound<'py, PyAny>> {
        let stats = self.get()?.stats();
        let fields = [
            ("held", stats.held),
            ("held_max", stats.held_max),
            ("resident", stats.resident),
            ("stored", stats.stored),
            ("compressed", stats.compressed),
            ("device", stats.device),
            ("filled", stats.filled),
            ("evicted", stats.evicted),
        ];
        Ok(stats::make(py, "RegionStats", &fields, &[("limit", stats.limit)])?)
    }

    /// Closes the region and gives its memory back. Closing it again does nothing.
    ///
    /// As long as there are views or locks of it, that is a `BufferError`.
    fn close(&self, py: Python<'_>) -> Answer<()> {
        self.0.close(py)
    }

    /// Whether the region is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.0.is_closed()
    }

    fn __len__(&self) -> Answer<usize> {
        Ok(self.get()?.len())
    }

    fn __bool__(&self) -> bool {
        true
    }

    fn __enter__(slf: PyRef<'_, Self>) -> Answer<PyRef<'_, Self>> {
        slf.get()?;
        Ok(slf)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> Answer<()> {
        self.0.close(py)
    }

    fn __repr__(&self) -> String {
        match self.get() {
            Ok(region) => format!("<uzram.Region size={}>", region.len()),
            Err(_) => "<uzram.Region closed>".to_owned(),
        }
    }
}
