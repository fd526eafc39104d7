//! Heap memory, which a supply must grant first.

use crate::budget::{Request, Supply};
use crate::{Error, page_size};

/// Requests `bytes` bytes of heap memory from the supply.
///
/// # Errors
/// Returns [`Error::Refused`] if the supply refuses.
pub fn grant(supply: Option<&dyn Supply>, bytes: usize) -> Result<(), Error> {
    match supply.is_none_or(|supply| supply.grant(Request::Allocate { bytes })) {
        true => Ok(()),
        false => Err(Error::Refused { pages: bytes.div_ceil(page_size()) }),
    }
}

/// Returns a boxed slice of `items`, if the supply grants its memory.
///
/// # Errors
/// Returns [`Error::Refused`] if the supply refuses, or [`Error::Mapping`] if there is no memory.
pub fn boxed<T>(
    supply: Option<&dyn Supply>,
    items: impl ExactSizeIterator<Item = T>,
) -> Result<Box<[T]>, Error> {
    try_boxed(supply, items.map(Ok))
}

/// Returns a boxed slice of the values in `items`, as [`boxed`] does. If an item is an error,
/// returns the first error.
///
/// # Errors
/// Returns the errors of [`boxed`], or the first error among the items.
pub fn try_boxed<T, E: From<Error>>(
    supply: Option<&dyn Supply>,
    items: impl ExactSizeIterator<Item = Result<T, E>>,
) -> Result<Box<[T]>, E> {
    let bytes = items.len() * size_of::<T>();
    grant(supply, bytes)?;
    let mut table = Vec::new();
    table.try_reserve_exact(items.len()).map_err(|_| Error::Mapping { bytes })?;
    for item in items {
        table.push(item?);
    }
    Ok(table.into_boxed_slice())
}

/// Reserves capacity for `len` elements in total, if the supply grants the memory.
///
/// # Errors
/// Returns [`Error::Refused`] if the supply refuses, or [`Error::Mapping`] if there is no memory.
/// In both cases, `elements` is unchanged.
pub fn reserve<T>(
    elements: &mut Vec<T>,
    len: usize,
    supply: Option<&dyn Supply>,
) -> Result<(), Error> {
    if len <= elements.capacity() {
        return Ok(());
    }
    // The new capacity is at least twice the old capacity, so copying takes constant amortised time
    // per element.
    let wanted = len.max(elements.capacity() * 2);
    let bytes = wanted * size_of::<T>();
    grant(supply, bytes)?;
    let more = wanted - elements.len();
    elements.try_reserve_exact(more).map_err(|_| Error::Mapping { bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RefuseNth;

    #[test]
    fn what_is_refused_changes_nothing() {
        let supply = RefuseNth::new(2, true);
        let items = || [1u64, 2, 3].into_iter();
        assert_eq!(boxed(Some(&supply), items()).as_deref(), Ok(&[1, 2, 3][..]));
        let refused = Err(Error::Refused { pages: 1 });
        assert_eq!(boxed(Some(&supply), items()), refused.map(|()| Box::default()));
        let mut elements = vec![1u64, 2];
        let capacity = elements.capacity();
        assert_eq!(reserve(&mut elements, capacity + 1, Some(&supply)), refused);
        assert_eq!((elements.len(), elements.capacity()), (2, capacity));
        reserve(&mut elements, capacity, Some(&supply)).unwrap();
        assert_eq!(supply.requests(), 3, "what there is already needs no grant");
        reserve(&mut elements, capacity + 1, None).unwrap();
        assert!(elements.capacity() >= 2 * capacity);
    }

    #[test]
    fn the_first_error_among_items_is_returned() {
        let items = [Ok(1), Err(Error::Exhausted), Err(Error::Forks)].into_iter();
        assert_eq!(try_boxed::<u8, Error>(None, items), Err(Error::Exhausted));
    }

    #[test]
    fn memory_that_there_is_not_is_an_error() {
        let mut elements: Vec<[u8; 1 << 20]> = Vec::new();
        let bytes = 1 << 60;
        // `black_box` prevents the compiler from removing an allocation that is not used.
        let elements = std::hint::black_box(&mut elements);
        assert_eq!(reserve(elements, 1 << 40, None), Err(Error::Mapping { bytes }));
    }
}
