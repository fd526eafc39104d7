//! Devices.

use crate::buffer::{with_bytes, with_bytes_mut};
use crate::codec::params;
use crate::error::{Answer, Failure};
use crate::shared::Shared;
use crate::stats;
use crate::work::work;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};
use std::path::PathBuf;
use std::sync::Arc;
use uzram::zram::{SaveOptions, SaveTo, SavedHeader, Unreadable};
use uzram::{Config, Damage, by_name};

/// A device of `size` bytes that compresses the data written to it, in memory.
///
/// Any thread can read and write any range. Bytes that were never written read as zeros, and use no
/// memory. `size` is rounded up to whole slots of 4096 bytes.
///
/// `algorithm` is one of `algorithms()`, with its `level` (None selects its default). `block_size`
/// is the number of bytes that are compressed as one unit: 4096, 8192, 16384, 32768 or 65536.
/// `mem_limit` is the maximum size in bytes of the pages for compressed data (None or 0: no limit).
/// A write that would exceed the limit fails with ENOSPC, and stored data are kept. `dictionary`
/// contains bytes that improve the compression of similar blocks, see `train_dictionary`.
///
/// After a fork, parent and child each have a copy. Use the device as a context manager, or close
/// it, to free its memory at once.
#[pyclass(frozen, weakref, module = "uzram")]
pub(crate) struct Device(Shared<uzram::Device>);

/// Checks that a range lies within the device, before memory is allocated for it.
fn check_range(device: &uzram::Device, offset: u64, len: usize) -> Answer<()> {
    let (len, disksize) = (len as u64, device.disksize());
    match offset.checked_add(len) {
        Some(end) if end <= disksize => Ok(()),
        _ => Err(uzram::zram::Error::Range { offset, len, disksize }.into()),
    }
}

impl Device {
    fn get(&self) -> Answer<Arc<uzram::Device>> {
        self.0.get()
    }
}

#[pymethods]
impl Device {
    #[new]
    #[pyo3(signature = (
        size, *, algorithm="lz4", level=None, block_size=4096, mem_limit=None, dictionary=None
    ))]
    fn new(
        size: u64,
        algorithm: &str,
        level: Option<i32>,
        block_size: usize,
        mem_limit: Option<u64>,
        dictionary: Option<&Bound<'_, PyAny>>,
    ) -> Answer<Self> {
        let mut config = Config::new(size)?;
        config.algorithm = by_name(algorithm)?;
        config.params = params(level, dictionary)?;
        config.block = block_size;
        config.mem_limit = mem_limit;
        config.check_size()?;
        Ok(Device(Shared::new("device", uzram::Device::new(config)?)))
    }

    /// Creates a device from the file `path` that `save` wrote. The size, block size, algorithm and
    /// dictionary are those of the saved device. The level is the algorithm's default. `mem_limit`
    /// has the same meaning as for `Device`.
    ///
    /// A damaged file is refused.
    #[classmethod]
    #[pyo3(signature = (path, *, mem_limit=None))]
    fn restore(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        path: PathBuf,
        mem_limit: Option<u64>,
    ) -> Answer<Self> {
        let device = py.detach(|| {
            let mut config = SavedHeader::read(&path)?.config();
            config.mem_limit = mem_limit;
            let device = uzram::Device::new(config)?;
            device.restore(&path, Damage::Refuse)?;
            Ok::<_, uzram::zram::Error>(device)
        })?;
        Ok(Device(Shared::new("device", device)))
    }

    /// Returns `length` bytes, starting at byte `offset`.
    fn read<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        length: usize,
    ) -> Answer<Bound<'py, PyBytes>> {
        let device = self.get()?;
        check_range(&device, offset, length)?;
        Ok(PyBytes::new_with(py, length, |bytes| {
            let read = work(py, length, || device.read(offset, bytes));
            Ok(read.map_err(Failure::from)?)
        })?)
    }

    /// Fills `buffer` with the bytes from `offset` on. Returns the length of the buffer in bytes.
    ///
    /// The buffer is any writable object with C-contiguous memory (bytearray, memoryview, array,
    /// numpy). Other threads must not use it during the call.
    fn readinto(&self, py: Python<'_>, offset: u64, buffer: &Bound<'_, PyAny>) -> Answer<usize> {
        let device = self.get()?;
        with_bytes_mut(buffer, |bytes| {
            work(py, bytes.len(), || device.read(offset, bytes))?;
            Ok(bytes.len())
        })?
    }

    /// Writes the bytes of `data`, starting at byte `offset`. Returns the length of `data` in
    /// bytes.
    ///
    /// `data` is any object with C-contiguous memory (bytes, memoryview, array, numpy). Other
    /// threads must not change `data` during the call.
    ///
    /// If a write fails, the slots of 4096 bytes before the slot in the error message were written.
    fn write(&self, py: Python<'_>, offset: u64, data: &Bound<'_, PyAny>) -> Answer<usize> {
        let device = self.get()?;
        with_bytes(data, |bytes| {
            work(py, bytes.len(), || device.write(offset, bytes))?;
            Ok(bytes.len())
        })?
    }

    /// Sets `length` bytes, starting at byte `offset`, to zero. Frees the memory of slots of 4096
    /// bytes that the range covers completely.
    fn discard(&self, py: Python<'_>, offset: u64, length: u64) -> Answer<()> {
        let device = self.get()?;
        Ok(py.detach(|| device.discard(offset, length))?)
    }

    /// Moves compressed data together to free pages. Returns the number of bytes freed.
    fn compact(&self, py: Python<'_>) -> Answer<usize> {
        let device = self.get()?;
        Ok(py.detach(|| device.compact()) * uzram::page_size())
    }

    /// Saves all data to the file `path`, in compressed form. Returns the size of the file in
    /// bytes. An existing file is replaced after the new file is durable.
    ///
    /// If a slot can't be read, the call fails and an existing file does not change.
    fn save(&self, py: Python<'_>, path: PathBuf) -> Answer<u64> {
        let device = self.get()?;
        let options = SaveOptions { unreadable: Unreadable::Refuse, ..SaveOptions::default() };
        Ok(py.detach(|| device.save(SaveTo::File(&path), &options))?.bytes)
    }

    /// Returns the statistics of the device, as `DeviceStats`.
    fn stats<'py>(&self, py: Python<'py>) -> Answer<Bound<'py, PyAny>> {
        let device = self.get()?;
        let (mm, io) = (device.mm_stat(), device.io_stat());
        let fields = [
            ("size", device.disksize()),
            ("orig_data_size", mm.orig_data_size),
            ("compr_data_size", mm.compr_data_size),
            ("mem_used", mm.mem_used_total),
            ("mem_used_max", mm.mem_used_max),
            ("mem_total", device.mem_total()),
            ("same_pages", mm.same_pages),
            ("huge_pages", mm.huge_pages),
            ("pages_compacted", mm.pages_compacted),
            ("failed_reads", io.failed_reads),
            ("failed_writes", io.failed_writes),
        ];
        let limit = Some(mm.mem_limit).filter(|limit| *limit > 0);
        Ok(stats::make(py, "DeviceStats", &fields, &[("mem_limit", limit)])?)
    }

    /// Closes the device. After the calls of other threads end, its memory is freed and all data
    /// are lost. Closing a closed device has no effect.
    fn close(&self, py: Python<'_>) {
        self.0.close(py);
    }

    /// True if the device is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.0.is_closed()
    }

    /// The device's size in bytes.
    #[getter]
    fn size(&self) -> Answer<u64> {
        Ok(self.get()?.disksize())
    }

    /// The number of bytes that are compressed as one unit.
    #[getter]
    fn block_size(&self) -> Answer<usize> {
        Ok(self.get()?.block())
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
            Ok(device) => {
                format!("<uzram.Device size={} block_size={}>", device.disksize(), device.block())
            }
            Err(_) => "<uzram.Device closed>".to_owned(),
        }
    }
}
