//! The creation of a cache's pool, and the memory that a new pool uses.

use std::sync::Arc;
use zsmalloc::{Config, EntryPool, Error};

/// Returns a pool whose objects have the order `order`.
pub fn new_pool(order: u32) -> Result<Arc<EntryPool>, Error> {
    let mut config = Config::default();
    config.geometry = config.geometry.with_order(order);
    Ok(Arc::new(EntryPool::new(config, u32::MAX.into(), Default::default())?))
}

/// Returns the number of bytes of memory that a pool uses for the first object, without the
/// object's page.
pub fn begun_bytes(order: u32) -> Result<usize, Error> {
    let pool = new_pool(order)?;
    pool.lock(0)?.store(&[0], 0)?;
    let bytes = pool.bytes() - pool.pages().used() * page::page_size();
    pool.lock(0)?.set_payload(0);
    Ok(bytes)
}
