//! Python keys: their hashes, their sizes, and their comparison.

use super::same::{self, Key, is_plain};
use crate::policy::{GRAIN, KEY_BYTES};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::convert::Infallible;
use uzram::lru::raw::{Comparison, Id, Verdicts};

/// A key that a call looks for.
pub(super) struct Asked<'a, 'py> {
    /// The key.
    pub(super) key: &'a Bound<'py, PyAny>,
    /// A hash of 32 bits, computed from Python's hash of the key.
    pub(super) hash: u32,
    /// Whether a comparison of the key runs no Python code, and the key refers to no other object.
    pub(super) is_plain: bool,
}

impl<'a, 'py> Asked<'a, 'py> {
    /// # Errors
    /// Fails if the key has no hash.
    pub(super) fn new(key: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        // Python's hashes of consecutive numbers are consecutive. The middle bits of the product
        // depend on all bits of the hash.
        let spread = (key.hash()? as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Ok(Asked { key, hash: (spread >> 32) as u32, is_plain: is_plain(key) })
    }

    /// Compares the key with a stored key. If the comparison may run Python code, returns
    /// [`Comparison::Unknown`].
    pub(super) fn compare(&self, kept: &Key) -> Comparison<Key> {
        match same::is_same(kept, self.key) {
            Some(true) => Comparison::Equal,
            Some(false) => Comparison::Different,
            None => Comparison::Unknown(kept.clone_ref(self.key.py())),
        }
    }
}

/// Compares the key with stored keys that have the same hash.
///
/// # Errors
/// Returns the exception that a comparison raises.
pub(super) fn judge(
    key: &Bound<'_, PyAny>,
    unknown: Vec<(Id, Key)>,
    verdicts: &mut Verdicts,
) -> PyResult<()> {
    for (id, kept) in unknown {
        if kept.bind(key.py()).eq(key)? {
            verdicts.same = Some(id);
            break;
        }
        verdicts.others.push(id);
    }
    Ok(())
}

/// Returns the number of bytes of memory that a key uses, according to `sys.getsizeof`.
pub(super) fn key_bytes(key: &Bound<'_, PyAny>) -> u32 {
    static GETSIZEOF: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = key.py();
    let asks = || -> PyResult<usize> {
        GETSIZEOF.import(py, "sys", "getsizeof")?.call1((key, KEY_BYTES))?.extract()
    };
    // If `__sizeof__` raises an exception, the default is used.
    let bytes = asks().unwrap_or(KEY_BYTES).next_multiple_of(GRAIN);
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// An optional argument. Python's None is a valid value of the argument.
pub(super) struct Given<'py>(pub(super) Option<Bound<'py, PyAny>>);

impl<'py> FromPyObject<'_, 'py> for Given<'py> {
    type Error = Infallible;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> Result<Self, Infallible> {
        Ok(Given(Some(object.to_owned())))
    }
}
