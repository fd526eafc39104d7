//! Fallible allocation of buffers whose length depends on a request, a chunk or a job. If memory
//! for a buffer is refused, the caller receives an error.

use crate::Error;

/// Returns a vector with space for `count` elements.
pub(crate) fn with_room<T>(count: usize) -> Result<Vec<T>, Error> {
    let mut buffer = Vec::new();
    match buffer.try_reserve_exact(count) {
        Ok(()) => Ok(buffer),
        Err(_) => Err(Error::NoBuffer { bytes: count.saturating_mul(size_of::<T>()) }),
    }
}
