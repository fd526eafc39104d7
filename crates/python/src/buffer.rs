//! Memory that Python objects provide through the buffer protocol.
//!
//! # Safety
//! An object guarantees that the memory of its view stays valid until the view is released. While
//! the thread is detached from the interpreter, another Python thread could change the bytes, which
//! the package's documentation forbids. After a concurrent change, arbitrary bytes of the range are
//! stored or read, but no length and no address is derived from the bytes.
#![allow(unsafe_code)]

use pyo3::ffi;
use pyo3::prelude::*;
use std::mem::MaybeUninit;
use std::slice;

/// A view that is released on drop. The view is not moved, because an object can keep the view's
/// address.
struct View<'v>(&'v mut ffi::Py_buffer);

impl<'v> View<'v> {
    /// Requests the bytes of `object` as one contiguous range.
    fn of(
        object: &Bound<'_, PyAny>,
        place: &'v mut MaybeUninit<ffi::Py_buffer>,
        flags: i32,
    ) -> PyResult<Self> {
        // SAFETY: the object is alive, and `place` is large enough for a view.
        if unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), place.as_mut_ptr(), flags) } != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        // SAFETY: the call above has succeeded, so it has initialised `place`.
        Ok(View(unsafe { place.assume_init_mut() }))
    }

    fn len(&self) -> usize {
        self.0.len as usize
    }
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        // SAFETY: the view was initialised, and this is its only release. `View::of` requires an
        // attached thread. If the thread detaches, it attaches again before it drops the view.
        unsafe { ffi::PyBuffer_Release(self.0) };
    }
}

/// Calls `work` with the bytes of an object.
///
/// # Errors
/// Returns `TypeError` if the object does not support the buffer protocol, and `BufferError` if the
/// bytes of the object are not contiguous.
pub(crate) fn with_bytes<T>(
    object: &Bound<'_, PyAny>,
    work: impl FnOnce(&[u8]) -> T,
) -> PyResult<T> {
    let mut place = MaybeUninit::uninit();
    let view = View::of(object, &mut place, ffi::PyBUF_SIMPLE)?;
    if view.len() == 0 {
        return Ok(work(&[]));
    }
    // SAFETY: see the head of this file. The view outlives the call.
    Ok(work(unsafe { slice::from_raw_parts(view.0.buf.cast(), view.len()) }))
}

/// Calls `work` with the bytes of an object, which `work` is allowed to write.
///
/// # Errors
/// Fails as [`with_bytes`] does, and with `BufferError` if the memory is read-only.
pub(crate) fn with_bytes_mut<T>(
    object: &Bound<'_, PyAny>,
    work: impl FnOnce(&mut [u8]) -> T,
) -> PyResult<T> {
    let mut place = MaybeUninit::uninit();
    let view = View::of(object, &mut place, ffi::PyBUF_WRITABLE)?;
    if view.len() == 0 {
        return Ok(work(&mut []));
    }
    // SAFETY: see the head of this file. The view outlives the call, and is writable.
    Ok(work(unsafe { slice::from_raw_parts_mut(view.0.buf.cast(), view.len()) }))
}

/// Fills in a view of `object` with the writable range of `bytes` bytes from `start` on.
///
/// # Safety
/// Python passes `view` to `__getbuffer__` of `object`. `object` keeps the memory as long as views
/// of the memory exist.
pub(crate) unsafe fn describe(
    object: &Bound<'_, PyAny>,
    view: *mut ffi::Py_buffer,
    start: *mut u8,
    bytes: usize,
    flags: i32,
) -> PyResult<()> {
    let bytes = bytes as ffi::Py_ssize_t;
    // SAFETY: the caller guarantees that `view` is valid. The view takes its own reference to the
    // object.
    let filled =
        unsafe { ffi::PyBuffer_FillInfo(view, object.as_ptr(), start.cast(), bytes, 0, flags) };
    if filled == 0 { Ok(()) } else { Err(PyErr::fetch(object.py())) }
}
