//! Allocates slices, and returns an error if the memory is not available.

use crate::error::Error;

/// Returns a slice of `count` elements made by `make`.
///
/// # Errors
/// Fails if the system has no memory for the elements.
pub(crate) fn many<T>(count: usize, make: impl FnMut() -> T) -> Result<Box<[T]>, Error> {
    let mut all = Vec::new();
    let bytes = (count as u64).saturating_mul(size_of::<T>() as u64);
    all.try_reserve_exact(count).map_err(|_| Error::no_room(bytes))?;
    all.resize_with(count, make);
    Ok(all.into())
}
