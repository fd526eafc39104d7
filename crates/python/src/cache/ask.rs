//! Keys of Python's: their hashes, what they take, and whether two are the same.

use super::Key;
use super::kept::{Id, Probe, Verdicts};
use super::same::{self, is_plain};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::convert::Infallible;

/// What the heap rounds objects up to.
const GRAIN: usize = 16;
/// What a key takes that does not say it.
const KEY_BYTES: usize = 64;

/// A key that is asked for.
pub(super) struct Asked<'a, 'py> {
    /// The key.
    pub(super) key: &'a Bound<'py, PyAny>,
    /// Its hash, spread over 32 bits.
    pub(super) hash: u32,
    /// Whether it is compared without code of Python's, and refers to nothing.
    pub(super) is_plain: bool,
}

impl<'a, 'py> Asked<'a, 'py> {
    /// # Errors
    /// The key has no hash.
    pub(super) fn new(key: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        // Hashes of numbers in a row are in a row: the middle bits of the product depend on all.
        let spread = (key.hash()? as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Ok(Asked { key, hash: (spread >> 32) as u32, is_plain: is_plain(key) })
    }
}

impl Probe<Key> for Asked<'_, '_> {
    fn is_same(&self, kept: &Key) -> Option<bool> {
        same::is_same(kept, self.key)
    }

    fn copy(&self, kept: &Key) -> Key {
        kept.clone_ref(self.key.py())
    }
}

/// Compares a key with those that have its hash.
///
/// # Errors
/// What a comparison raises.
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

/// Returns the bytes of memory that a key takes, as `sys.getsizeof` says.
pub(super) fn key_bytes(key: &Bound<'_, PyAny>) -> u32 {
    static GETSIZEOF: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = key.py();
    let asks = || -> PyResult<usize> {
        GETSIZEOF.import(py, "sys", "getsizeof")?.call1((key, KEY_BYTES))?.extract()
    };
    // What raises an error in `__sizeof__` says nothing.
    let bytes = asks().unwrap_or(KEY_BYTES).next_multiple_of(GRAIN);
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// An argument that may be left out, where None is one.
pub(super) struct Given<'py>(pub(super) Option<Bound<'py, PyAny>>);

impl<'py> FromPyObject<'_, 'py> for Given<'py> {
    type Error = Infallible;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> Result<Self, Infallible> {
        Ok(Given(Some(object.to_owned())))
    }
}
