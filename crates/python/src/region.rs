//! Regions.
//!
//! # Safety
//! A Python view keeps its object alive, and thereby the region. While views exist, `close` fails.
//! This crate creates no reference to a region's bytes. Python threads access the bytes as plain
//! memory.
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

/// `size` bytes of memory, initially zero, whose cold parts are compressed.
///
/// The object provides its memory through the buffer protocol, writable: `memoryview(region)`,
/// `numpy.frombuffer(region)`. A touch of a compressed part decompresses it. The memory stays until
/// its last view is released, even if the object was deleted.
///
/// `limit` is the maximum number of bytes that the region holds, including its buffers and tables
/// (None: only `reclaim` and `advise` compress data). `algorithm` is one of `algorithms()`, with
/// its `level` (None selects its default). `block_size` is the unit of compression in bytes: 4096,
/// 8192, 16384, 32768 or 65536.
///
/// Memory that can't be evicted can exceed the limit: data that do not shrink, the compressed data
/// themselves, and locked memory. After the limit was lowered, or a lock ended, the limit holds
/// within about half a second. After incompressible data become compressible, the limit holds
/// within some seconds.
///
/// System calls on compressed parts fail with EFAULT: `lock` the memory that you pass to
/// `file.readinto`, `socket.send` and similar functions. A touch of a compressed part raises
/// SIGSEGV, which uzram handles: do not block that signal. If you use `faulthandler`, enable it
/// before you create the first region. Do not disable it: that would also remove uzram's handler,
/// and the next touch would end the program.
///
/// After a fork, parent and child each have a copy.
#[pyclass(frozen, weakref, module = "uzram")]
pub(crate) struct Region(Arc<Memory>);

/// Returns the range of `length` bytes at `offset`. The region checks whether the range is valid.
fn range(offset: usize, length: usize) -> Answer<Range<usize>> {
    let end = offset.checked_add(length);
    let end = end.ok_or_else(|| {
        value_error(format!("{length} bytes at {offset} are not within the region"))
    })?;
    Ok(offset..end)
}

/// Returns the order of blocks of `bytes` bytes.
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
    /// Python calls this with a valid `view`.
    unsafe fn __getbuffer__(slf: &Bound<'_, Self>, view: *mut Py_buffer, flags: i32) -> Answer<()> {
        let region = slf.get().0.take()?;
        // SAFETY: Python passed the view to `__getbuffer__`. The memory stays mapped while a view
        // is counted as a user.
        let described =
            unsafe { describe(slf.as_any(), view, region.as_ptr(), region.len(), flags) };
        if described.is_err() {
            slf.get().0.leave();
        }
        Ok(described?)
    }

    /// # Safety
    /// Python calls this with a view that `__getbuffer__` filled in.
    unsafe fn __releasebuffer__(&self, _view: *mut Py_buffer) {
        self.0.leave();
    }

    /// Compresses the coldest `size` bytes, rounded up to whole blocks. Returns the number of
    /// compressed bytes. This number is less than `size` if no more blocks can be compressed.
    fn reclaim(&self, py: Python<'_>, size: usize) -> Answer<usize> {
        let region = self.get()?;
        Ok(py.detach(|| region.reclaim(size)))
    }

    /// Decompresses `length` bytes, starting at byte `offset`.
    fn prefetch(&self, py: Python<'_>, offset: usize, length: usize) -> Answer<()> {
        let (region, range) = (self.get()?, range(offset, length)?);
        Ok(py.detach(|| region.prefetch(range))?)
    }

    /// Announces the use of `length` bytes, starting at byte `offset`. The advice "cold" (not used
    /// soon) compresses the bytes now. The advice "hot" (used soon and often) decompresses them.
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

    /// Decompresses `length` bytes, starting at byte `offset`. Until the result is unlocked, the
    /// bytes stay resident, so that system calls can use them: `with region.lock(0, 4096):
    /// file.readinto(view[:4096])`.
    fn lock(&self, py: Python<'_>, offset: usize, length: usize) -> Answer<RegionLock> {
        RegionLock::new(py, &self.0, range(offset, length)?)
    }

    /// Sets `length` bytes, starting at byte `offset`, to zero. Whole blocks then use no memory. If
    /// a whole block is locked, nothing is changed, and OSError (EBUSY) is raised.
    fn discard(&self, py: Python<'_>, offset: usize, length: usize) -> Answer<()> {
        let (region, range) = (self.get()?, range(offset, length)?);
        // SAFETY: no reference to the region's bytes exists; see the head of this file.
        py.detach(|| unsafe { region.dont_need_shared(range) })?;
        Ok(())
    }

    /// Sets the maximum number of bytes that the region holds. None removes the limit.
    fn set_limit(&self, py: Python<'_>, limit: Option<u64>) -> Answer<()> {
        let region = self.get()?;
        Ok(py.detach(|| region.set_limit(limit))?)
    }

    /// Returns the statistics of the region, as `RegionStats`.
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

    /// Closes the region and frees its memory. Closing a closed region has no effect.
    ///
    /// While views or locks of the region exist, `BufferError` is raised.
    fn close(&self, py: Python<'_>) -> Answer<()> {
        self.0.close(py)
    }

    /// True if the region is closed.
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
