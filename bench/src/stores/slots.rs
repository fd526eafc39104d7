//! A uzram pool with an entry for each slot, which needs no table of handles.

use std::sync::Arc;

use zram::{Compaction, CompactionStat};
use zsmalloc::{Columns, Content, EntryPool};

use super::{Compacted, Store};
use crate::Error;

/// The slots of a pool.
#[derive(Debug)]
pub struct SlotStore(Arc<EntryPool>);

impl SlotStore {
    /// Creates an empty pool.
    pub fn new(slots: u32, compaction: Compaction) -> Result<SlotStore, Error> {
        let core = Arc::new(EntryPool::new(
            zsmalloc::Config::default(),
            slots.into(),
            Columns::default(),
        )?);
        if compaction == Compaction::Auto {
            core.compact_in_background();
        }
        Ok(SlotStore(core))
    }
}

impl Store for SlotStore {
    fn store(&mut self, slot: u32, bytes: &[u8]) -> Result<(), Error> {
        let staged = self.0.stage(slot, bytes)?;
        self.0.lock(slot)?.replace(staged, 0);
        Ok(())
    }

    fn drop_slot(&mut self, slot: u32) -> Result<(), Error> {
        if let Some(word) = self.0.lock_existing(slot) {
            word.set_payload(0);
        }
        Ok(())
    }

    fn read(&self, slot: u32, out: &mut [u8]) -> Result<usize, Error> {
        match self.0.read(slot).content() {
            Content::Object { bytes, .. } => {
                out[..bytes.len()].copy_from_slice(bytes);
                Ok(bytes.len())
            }
            Content::Inline(_) => Ok(0),
        }
    }

    /// Does nothing, because the pool returns free memory to the system on its own.
    fn purge(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn counted(&self) -> Option<u64> {
        Some(self.0.bytes() as u64)
    }
}

impl Compacted for SlotStore {
    fn used(&self) -> u64 {
        (self.0.pages().used() * rustix::param::page_size()) as u64
    }

    fn compaction(&self) -> CompactionStat {
        self.0.compaction_stat()
    }

    fn read_waits(&self) -> u64 {
        self.0.read_waits()
    }
}

impl Drop for SlotStore {
    fn drop(&mut self) {
        self.0.stop_background();
    }
}
