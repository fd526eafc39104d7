//! A uzram pool whose handles are kept in a table.

use std::sync::Arc;

use zram::{Compaction, CompactionStat};
use zsmalloc::{Handle, Pool};

use super::{Compacted, Store};
use crate::Error;

/// A table of handles to objects of a pool, which several tables may share.
#[derive(Debug)]
pub struct PoolStore {
    pool: Arc<Pool>,
    handles: Vec<Option<Handle>>,
}

impl PoolStore {
    /// Creates an empty pool, and a table for it.
    pub fn new(slots: u32, compaction: Compaction) -> Result<PoolStore, Error> {
        let pool = Pool::new(zsmalloc::Config::default())?;
        if compaction == Compaction::Auto {
            pool.compact_in_background();
        }
        Ok(PoolStore::of(Arc::new(pool), slots))
    }

    /// Creates an empty table for the same pool.
    pub fn beside(&self, slots: u32) -> PoolStore {
        PoolStore::of(self.pool.clone(), slots)
    }

    fn of(pool: Arc<Pool>, slots: u32) -> PoolStore {
        PoolStore { pool, handles: (0..slots).map(|_| None).collect() }
    }

    /// Returns the number of pages that the pool has committed.
    pub fn pages_used(&self) -> usize {
        self.pool.pages().used()
    }
}

impl Store for PoolStore {
    fn store(&mut self, slot: u32, bytes: &[u8]) -> Result<(), Error> {
        let new = self.pool.store(bytes)?;
        match self.handles[slot as usize].replace(new) {
            Some(old) => Ok(self.pool.free(old)?),
            None => Ok(()),
        }
    }

    fn drop_slot(&mut self, slot: u32) -> Result<(), Error> {
        match self.handles[slot as usize].take() {
            Some(old) => Ok(self.pool.free(old)?),
            None => Ok(()),
        }
    }

    fn read(&self, slot: u32, out: &mut [u8]) -> Result<usize, Error> {
        let Some(handle) = &self.handles[slot as usize] else { return Ok(0) };
        let bytes = self.pool.read(handle)?;
        out[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    /// Does nothing, because the pool returns free memory to the system on its own.
    fn purge(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn counted(&self) -> Option<u64> {
        Some((self.pool.bytes() + size_of_val(&*self.handles)) as u64)
    }
}

impl Compacted for PoolStore {
    fn used(&self) -> u64 {
        (self.pages_used() * rustix::param::page_size()) as u64
    }

    fn compaction(&self) -> CompactionStat {
        self.pool.compaction_stat()
    }

    fn read_waits(&self) -> u64 {
        self.pool.read_waits()
    }
}

/// Frees all objects, because in a debug build a pool reports the objects with which it is dropped.
impl Drop for PoolStore {
    fn drop(&mut self) {
        for handle in self.handles.drain(..).flatten() {
            // The error is ignored, because the pool is dropped with its objects.
            let _ = self.pool.free(handle);
        }
    }
}
