//! How a device is made.

use crate::Error;
use std::fmt;
use zcomp::{Codec, Params};
use zsmalloc::Geometry;

/// Bytes of a slot, whatever the system's page size.
pub const BLOCK: usize = 4096;

/// When objects are moved together so that pages become free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compaction {
    /// In the background, when enough could be freed, and on demand.
    #[default]
    Auto,
    /// On demand: [`Device::compact`](crate::Device::compact).
    Manual,
    /// Never; on demand nothing is freed.
    Off,
}

/// What a device is made of. [`Config::new`] has the defaults; change what should differ.
#[derive(Clone)]
pub struct Config {
    /// Bytes of the device; rounded up to whole slots.
    pub disksize: u64,
    /// The codec; lz4 by default.
    pub algorithm: &'static dyn Codec,
    /// Its parameters.
    pub params: Params,
    /// Most bytes of pool pages, rounded up to pages (the kernel's `mem_limit`); `None` is no limit.
    pub mem_limit: Option<u64>,
    /// Streams, which is how many threads compress at a time; `None` is one per processor.
    pub streams: Option<usize>,
    /// Size classes and zspages; the native ones by default.
    pub geometry: Geometry,
    /// When the pool is compacted.
    pub compaction: Compaction,
    /// Who may refuse pages before the system does; `None` grants all.
    pub supply: Option<std::sync::Arc<dyn page::Supply>>,
}

impl Config {
    /// A device of `disksize` bytes: lz4, no limit, a stream per processor.
    pub fn new(disksize: u64) -> Result<Self, Error> {
        Ok(Config {
            disksize,
            algorithm: zcomp::by_name("lz4")?,
            params: Params::default(),
            mem_limit: None,
            streams: None,
            geometry: Geometry::default(),
            compaction: Compaction::default(),
            supply: None,
        })
    }

    /// Slots of the device.
    pub(crate) fn slots(&self) -> Result<u64, Error> {
        let slots = self.disksize.div_ceil(BLOCK as u64);
        if slots == 0 || slots > u32::MAX as u64 {
            return Err(Error::Disksize { bytes: self.disksize });
        }
        Ok(slots)
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("disksize", &self.disksize)
            .field("algorithm", &self.algorithm.name())
            .field("params", &self.params)
            .field("mem_limit", &self.mem_limit)
            .field("streams", &self.streams)
            .field("geometry", &self.geometry)
            .field("compaction", &self.compaction)
            .finish_non_exhaustive()
    }
}
