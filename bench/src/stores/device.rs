//! A uzram device with a page per slot.

use std::sync::Arc;

use measure::page::PAGE_SIZE;
use zram::{Compaction, CompactionStat, Config, Device};

use super::{Compacted, Store};
use crate::Error;

/// A device, which several stores may share.
#[derive(Debug)]
pub struct DeviceStore {
    device: Arc<Device>,
    /// The number of the device's slot that is slot 0 of this store.
    first: u32,
}

impl DeviceStore {
    /// Creates an empty device.
    pub fn new(slots: u32, compaction: Compaction) -> Result<DeviceStore, Error> {
        let config = Config::new(u64::from(slots) * PAGE_SIZE as u64)?;
        let device = Arc::new(Device::new(Config { compaction, ..config })?);
        Ok(DeviceStore { device, first: 0 })
    }

    /// Returns a store on the same device from its slot `first` on.
    pub fn from_slot(&self, first: u32) -> DeviceStore {
        DeviceStore { device: self.device.clone(), first }
    }

    /// Returns the device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    fn offset(&self, slot: u32) -> u64 {
        u64::from(self.first + slot) * PAGE_SIZE as u64
    }
}

impl Store for DeviceStore {
    fn store(&mut self, slot: u32, bytes: &[u8]) -> Result<(), Error> {
        Ok(self.device.write(self.offset(slot), bytes)?)
    }

    fn drop_slot(&mut self, slot: u32) -> Result<(), Error> {
        Ok(self.device.discard(self.offset(slot), PAGE_SIZE as u64)?)
    }

    /// Reads a slot. A dropped slot reads as zeros.
    fn read(&self, slot: u32, out: &mut [u8]) -> Result<usize, Error> {
        self.device.read(self.offset(slot), &mut out[..PAGE_SIZE])?;
        Ok(PAGE_SIZE)
    }

    /// Does nothing, because the device returns free memory to the system on its own.
    fn purge(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn counted(&self) -> Option<u64> {
        Some(self.device.mem_total())
    }
}

impl Compacted for DeviceStore {
    fn used(&self) -> u64 {
        self.device.mm_stat().mem_used_total
    }

    fn compaction(&self) -> CompactionStat {
        self.device.compaction_stat()
    }

    fn read_waits(&self) -> u64 {
        self.device.read_waits()
    }
}
