//! Tables of fixed length, made where their memory is granted.

use crate::Error;
use page::{Request, Supply};

/// A table of `items`.
pub(crate) fn boxed<T>(
    supply: Option<&dyn Supply>,
    items: impl ExactSizeIterator<Item = Result<T, Error>>,
) -> Result<Box<[T]>, Error> {
    let bytes = items.len() * size_of::<T>();
    if supply.is_some_and(|supply| !supply.grant(Request::Allocate { bytes })) {
        let pages = bytes.div_ceil(page::page_size());
        return Err(page::Error::Refused { pages }.into());
    }
    let mut table = Vec::new();
    let refused = |_| page::Error::Mapping { bytes };
    table.try_reserve_exact(items.len()).map_err(refused)?;
    for item in items {
        table.push(item?);
    }
    Ok(table.into_boxed_slice())
}
