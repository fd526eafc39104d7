//! Buffers that may be refused: what is as long as a request, a chunk or a job wants it is never a
//! reason to end.

use crate::Error;

/// Returns a vector with room for `count` elements.
pub(crate) fn with_room<T>(count: usize) -> Result<Vec<T>, Error> {
    let mut buffer = Vec::new();
    match buffer.try_reserve_exact(count) {
        Ok(()) => Ok(buffer),
        Err(_) => Err(Error::NoBuffer { bytes: count.saturating_mul(size_of::<T>()) }),
    }
}
