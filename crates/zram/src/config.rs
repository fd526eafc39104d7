//! How a device is made.

use crate::Error;
use crate::algorithms::{Algorithm, AlgorithmList, SECONDARY_MAX};
use crate::backing::{Backing, WritebackLimit};
use crate::layout::{Layout, SLOT_BYTES};
use page::Supply;
use std::sync::Arc;
use zcomp::{Codec, Params};
use zsmalloc::Geometry;

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

/// What a child has of the device after a fork.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fork {
    /// A copy of its own, as of all memory of the process.
    #[default]
    Copy,
    /// Nothing: pages of the pool stay with the parent, which spares the child their page tables
    /// and the parent the copies it would make as it goes on. A child's requests are refused.
    Leave,
}

/// What a device is made of. [`Config::new`] has the defaults; change what should differ.
///
/// ```
/// let mut config = zram::Config::new(1 << 30)?;
/// config.algorithm = zram::by_name("zstd")?;
/// config.params = zram::Params { level: Some(1), ..Default::default() };
/// let device = zram::Device::new(config)?;
/// # Ok::<(), zram::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// Bytes of the device; rounded up to whole slots. 0 is none yet.
    pub disksize: u64,
    /// Bytes that are compressed as one where they are written as one: 4096 (a slot), 8192, 16384,
    /// 32768 or 65536.
    pub block: usize,
    /// The codec; lz4 by default.
    pub algorithm: &'static dyn Codec,
    /// Its parameters.
    pub params: Params,
    /// What cold data may be compressed with again: priorities 1 to 3 of
    /// [`recompress`](crate::Device::recompress). Each takes a context per stream.
    pub recompression: [Option<Algorithm>; SECONDARY_MAX],
    /// What cold data may be written back to. It is this device's alone.
    pub backing: Option<Arc<dyn Backing>>,
    /// How much may be written back; shared with the owner, which may change it.
    pub writeback: Arc<WritebackLimit>,
    /// Most bytes of pool pages, rounded up to pages (the kernel's `mem_limit`); `None` is no
    /// limit.
    pub mem_limit: Option<u64>,
    /// Most bytes of all that [`Device::mem_total`](crate::Device::mem_total) counts; `None` is no
    /// limit. The last 64 KiB below it are kept for what comes without being asked for, such as
    /// page maps.
    pub total_limit: Option<u64>,
    /// Whether tables and all else are limited with the pool's pages: where there is a `mem_limit`
    /// and no `total_limit`, that is what the empty device takes and 5/4 of the `mem_limit`, and
    /// follows it.
    pub limit_tables: bool,
    /// Whether slots keep when they were accessed last, to the second: 4 bytes a slot.
    pub track_access: bool,
    /// Whether objects have checksums, which are checked whenever they are read: 4 bytes a slot.
    pub checksums: bool,
    /// Streams, which is how many threads compress at a time; `None` is one per processor.
    pub streams: Option<usize>,
    /// Size classes and zspages; the native ones by default. Of the order of the blocks, whatever
    /// it says itself.
    pub geometry: Geometry,
    /// When the pool is compacted.
    pub compaction: Compaction,
    /// What children have of it.
    pub fork: Fork,
    /// When a fork locks it: after others, if they may be given memory that is stored here.
    pub fork_turn: page::fork::Turn,
    /// Whether the pool's pages are part of core dumps. They are not by default: compressed, they
    /// tell little, and they may hold anything.
    pub dump: bool,
    /// May refuse pages before the system does; `None` grants all.
    pub supply: Option<Arc<dyn Supply>>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            disksize: 0,
            block: SLOT_BYTES,
            algorithm: zcomp::codecs()[0],
            params: Params::default(),
            recompression: [const { None }; SECONDARY_MAX],
            backing: None,
            writeback: Arc::default(),
            mem_limit: None,
            total_limit: None,
            limit_tables: false,
            track_access: false,
            checksums: false,
            streams: None,
            geometry: Geometry::default(),
            compaction: Compaction::default(),
            fork: Fork::default(),
            fork_turn: page::fork::Turn::default(),
            dump: false,
            supply: None,
        }
    }
}

impl Config {
    /// Returns the configuration of a device of `disksize` bytes: lz4, no limit, a stream per
    /// processor.
    pub fn new(disksize: u64) -> Result<Self, Error> {
        Ok(Config { disksize, ..Config::default() })
    }

    /// Checks whether there can be a device of this size in bytes and these blocks.
    ///
    /// # Errors
    /// [`Error::Disksize`], [`Error::Block`].
    pub fn check_size(&self) -> Result<(), Error> {
        self.layout().map(drop)
    }

    /// Returns whether it has jobs that need a stream.
    pub(crate) fn needs_job_stream(&self) -> bool {
        self.recompression.iter().any(Option::is_some) || self.backing.is_some()
    }

    /// Returns the device's entries.
    pub(crate) fn layout(&self) -> Result<Layout, Error> {
        let layout = Layout::new(self.block, self.disksize.div_ceil(SLOT_BYTES as u64))?;
        // Slots and blocks are numbered in 32 bits.
        if layout.all_slots() == 0 || layout.entries() > u32::MAX as u64 {
            return Err(Error::Disksize { bytes: self.disksize, block: self.block });
        }
        Ok(layout)
    }

    /// Returns the length from which on a block of `order` is stored raw.
    pub(crate) fn huge_size(&self, layout: Layout, order: u32) -> Result<usize, Error> {
        let geometry = self.geometry.with_order(layout.order());
        Ok(geometry.huge_size(order).map_err(zsmalloc::Error::from)?)
    }

    /// Returns all algorithms, by priority.
    pub(crate) fn algorithms(&self) -> AlgorithmList {
        std::array::from_fn(|priority| self.algorithm_of(priority))
    }

    /// Returns the algorithm of a priority.
    pub(crate) fn algorithm_of(&self, priority: usize) -> Option<Algorithm> {
        match priority.checked_sub(1) {
            None => Some(Algorithm { codec: self.algorithm, params: self.params.clone() }),
            Some(nth) => self.recompression.get(nth)?.clone(),
        }
    }
}
