//! Comparisons of keys that raise nothing: an exception is an object that the collector of cycles
//! counts, so to make one may run finalizers, which may use the cache whose lock is held.
//!
//! # Safety
//! The functions of Python's are given objects that live, of just the types they are for.
#![allow(unsafe_code)]

use super::Key;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyInt, PyString};

/// Returns whether a key is of a type whose comparison with its like runs no code of Python's.
pub(super) fn is_plain(key: &Bound<'_, PyAny>) -> bool {
    is_text(key) || key.is_exact_instance_of::<PyInt>() || key.is_exact_instance_of::<PyFloat>()
}

fn is_text(key: &Bound<'_, PyAny>) -> bool {
    key.is_exact_instance_of::<PyString>() || key.is_exact_instance_of::<PyBytes>()
}

/// Returns whether two plain keys are the same, or `None` where Python has to be asked.
pub(super) fn is_same(kept: &Key, key: &Bound<'_, PyAny>) -> Option<bool> {
    let kept = kept.bind(key.py());
    if kept.is(key) {
        return Some(true);
    }
    if !is_plain(key) || !is_plain(kept) {
        return None;
    }
    if !kept.get_type().is(key.get_type()) {
        // An int may be a float's equal; text is nothing else's.
        return (is_text(kept) || is_text(key)).then_some(false);
    }
    if key.is_exact_instance_of::<PyString>() {
        // SAFETY: both are `str`, and hashed, which all that could fail was done for.
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

/// Returns an `int` of 64 bits.
fn small(int: &Bound<'_, PyAny>) -> Option<i64> {
    let mut overflow = 0;
    // SAFETY: it is an `int`, so the call raises nothing.
    let value = unsafe { ffi::PyLong_AsLongLongAndOverflow(int.as_ptr(), &mut overflow) };
    (overflow == 0).then_some(value)
}
