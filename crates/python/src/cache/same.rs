//! Comparisons of keys that raise no exception. An exception is an object that the garbage
//! collector counts, so its creation can run finalizers. This thread holds the cache's lock, and a
//! finalizer can use the cache.
//!
//! # Safety
//! This module passes to Python's functions only live objects of exactly the required types.
#![allow(unsafe_code)]

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyInt, PyString};

pub(super) type Key = Py<PyAny>;

/// Returns true if a key is of a type whose comparison with the same type runs no Python code.
pub(super) fn is_plain(key: &Bound<'_, PyAny>) -> bool {
    is_text(key) || key.is_exact_instance_of::<PyInt>() || key.is_exact_instance_of::<PyFloat>()
}

fn is_text(key: &Bound<'_, PyAny>) -> bool {
    key.is_exact_instance_of::<PyString>() || key.is_exact_instance_of::<PyBytes>()
}

/// Returns whether two plain keys are equal, or `None` if Python has to compare them.
pub(super) fn is_same(kept: &Key, key: &Bound<'_, PyAny>) -> Option<bool> {
    let kept = kept.bind(key.py());
    if kept.is(key) {
        return Some(true);
    }
    if !is_plain(key) || !is_plain(kept) {
        return None;
    }
    if !kept.get_type().is(key.get_type()) {
        // A text equals no value of another type. An int can equal a float.
        return (is_text(kept) || is_text(key)).then_some(false);
    }
    if key.is_exact_instance_of::<PyString>() {
        // SAFETY: both objects are live `str` objects. The two strings were hashed before, and the
        // comparison of hashed strings can't fail.
        return Some(unsafe { ffi::PyUnicode_Compare(kept.as_ptr(), key.as_ptr()) } == 0);
    }
    if let (Ok(kept), Ok(key)) = (kept.cast_exact::<PyBytes>(), key.cast_exact::<PyBytes>()) {
        return Some(kept.as_bytes() == key.as_bytes());
    }
    if let (Ok(kept), Ok(key)) = (kept.cast_exact::<PyFloat>(), key.cast_exact::<PyFloat>()) {
        return Some(kept.value() == key.value());
    }
    match (small(kept), small(key)) {
        (None, None) => None,
        (kept, key) => Some(kept == key),
    }
}

/// Returns the value of an `int` of at most 64 bits.
fn small(int: &Bound<'_, PyAny>) -> Option<i64> {
    let mut overflow = 0;
    // SAFETY: the object is a live `int`, so the call raises no exception.
    let value = unsafe { ffi::PyLong_AsLongLongAndOverflow(int.as_ptr(), &mut overflow) };
    (overflow == 0).then_some(value)
}
