//! Memory that Python's objects lend, by the buffer protocol.
//!
//! # Safety
//! An object vouches for the memory of its view until that is released. Another thread of Python's
//! may change the bytes while the interpreter is detached, as it may during `os.write`: the package
//! asks callers not to. Whoever does finds any bytes stored, or read, of that range: no length and
//! no address is taken from them.
#![allow(unsafe_code)]

use pyo3::ffi;
use pyo3::prelude::*;
use std::mem::MaybeUninit;
use std::slice;

/// A view that is released at the end. It is not moved, since an object may keep its address.
struct View<'v>(&'v mut ffi::Py_buffer);

impl<'v> View<'v> {
    /// Asks `object` for its bytes, one after the other.
    fn of(
        object: &Bound<'_, PyAny>,
        place: &'v mut MaybeUninit<ffi::Py_buffer>,
        flags: i32,
    ) -> PyResult<Self> {
        // SAFETY: the object lives, and `place` has room for a view.
        if unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), place.as_mut_ptr(), flags) } != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        // SAFETY: the call above has filled it in.
        Ok(View(unsafe { place.assume_init_mut() }))
    }

    fn len(&self) -> usize {
        self.0.len as usize
    }
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        // SAFETY: the view was filled in, and this is its only release. `View::of` has the thread
        // attached, and who uses it attaches again before this.
        unsafe { ffi::PyBuffer_Release(self.0) };
    }
}

/// Calls `work` with the bytes of an object.
///
/// # Errors
/// `TypeError`: it lends no memory. `BufferError`: its bytes do not lie one after the other.
pub(crate) fn with_bytes<T>(
    object: &Bound<'_, PyAny>,
    work: impl FnOnce(&[u8]) -> T,
) -> PyResult<T> {
    let mut place = MaybeUninit::uninit();
    let view = View::of(object, &mut place, ffi::PyBUF_SIMPLE)?;
    if view.len() == 0 {
        return Ok(work(&[]));
    }
    // SAFETY: see the head of this file; the view outlives the call.
    Ok(work(unsafe { slice::from_raw_parts(view.0.buf.cast(), view.len()) }))
}

/// Calls `work` with the bytes of an object, to be written.
///
/// # Errors
/// As [`with_bytes`]; `BufferError` also of memory that can't be written.
pub(crate) fn with_bytes_mut<T>(
    object: &Bound<'_, PyAny>,
    work: impl FnOnce(&mut [u8]) -> T,
) -> PyResult<T> {
    let mut place = MaybeUninit::uninit();
    let view = View::of(object, &mut place, ffi::PyBUF_WRITABLE)?;
    if view.len() == 0 {
        return Ok(work(&mut []));
    }
    // SAFETY: see the head of this file; the view outlives the call, and is writable.
    Ok(work(unsafe { slice::from_raw_parts_mut(view.0.buf.cast(), view.len()) }))
}

/// Describes `bytes` bytes from `start` in a view that `object` is asked for: writable, and one
/// after the other.
///
/// # Safety
/// `view` is what Python passes to `__getbuffer__` of `object`, which keeps the memory as long as
/// there is a view of it.
pub(crate) unsafe fn describe(
    object: &Bound<'_, PyAny>,
    view: *mut ffi::Py_buffer,
    start: *mut u8,
    bytes: usize,
    flags: i32,
) -> PyResult<()> {
    let bytes = bytes as ffi::Py_ssize_t;
    // SAFETY: as the caller says; the view takes a reference of its own to the object.
    let filled =
        unsafe { ffi::PyBuffer_FillInfo(view, object.as_ptr(), start.cast(), bytes, 0, flags) };
    if filled == 0 { Ok(()) } else { Err(PyErr::fetch(object.py())) }
}
