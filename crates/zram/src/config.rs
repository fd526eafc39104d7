//! The configuration of a device.

use crate::Error;
use crate::algorithms::{Algorithm, AlgorithmList, SECONDARY_MAX};
use crate::backing::{Backing, WritebackLimit};
use crate::layout::{Layout, SLOT_BYTES};
use page::Supply;
use std::sync::Arc;
use zcomp::{Codec, Params};
use zsmalloc::Geometry;

/// The occasions on which objects are moved together to free pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compaction {
    /// Compaction runs in the background if it can free enough pages, and on request.
    #[default]
    Auto,
    /// Compaction runs only on request, by [`Device::compact`](crate::Device::compact).
    Manual,
    /// Compaction never runs. A request to compact frees nothing.
    Off,
}

/// Whether the child of a fork inherits the device's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fork {
    /// The child inherits a copy of the device.
    #[default]
    Copy,
    /// The child does not inherit the pool's pages, so requests in the child fail. The child needs
    /// no page tables for these pages, and writes of the parent copy no pages.
    Leave,
}

/// The configuration of a device. [`Config::new`] sets the defaults.
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
    /// The size of the device in bytes, rounded up to whole slots. 0 means that the size is not set
    /// yet.
    pub disksize: u64,
    /// The size of a block in bytes: 4096 (a slot), 8192, 16384, 32768 or 65536. Data of a block
    /// that are written together are compressed as one object.
    pub block: usize,
    /// The codec; lz4 by default.
    pub algorithm: &'static dyn Codec,
    /// The codec's parameters.
    pub params: Params,
    /// The algorithms for recompression of cold data: priorities 1 to 3 of
    /// [`recompress`](crate::Device::recompress). Each stream contains a context of each algorithm.
    pub recompression: [Option<Algorithm>; SECONDARY_MAX],
    /// The store for cold data that are written back. No other device is allowed to use the store.
    pub backing: Option<Arc<dyn Backing>>,
    /// The limit of write-back. The owner of the device can change the limit at any time.
    pub writeback: Arc<WritebackLimit>,
    /// The maximum total size of the pool's pages in bytes, rounded up to whole pages (the kernel's
    /// `mem_limit`). `None` means no limit.
    pub mem_limit: Option<u64>,
    /// The maximum of [`Device::mem_total`](crate::Device::mem_total) in bytes; `None` means no
    /// limit. The last 64 KiB below the limit are reserved for memory that is allocated without a
    /// check of the limit, such as page maps.
    pub total_limit: Option<u64>,
    /// Whether `mem_limit` also limits tables and other memory. If `mem_limit` also limits tables
    /// and `total_limit` is `None`, the total limit is the size of the empty device plus 5/4 of the
    /// current `mem_limit`.
    pub limit_tables: bool,
    /// Whether the time of each slot's last access is tracked, in seconds. The times take 4 bytes a
    /// slot.
    pub track_access: bool,
    /// Whether objects have checksums, which every read verifies. Checksums take 4 bytes a slot.
    pub checksums: bool,
    /// The number of streams, which is the maximum number of threads that compress at the same
    /// time; `None` means one per processor.
    pub streams: Option<usize>,
    /// The size classes and zspages; by default those of the native geometry. The device ignores
    /// the order in the geometry: the field `block` determines the size of blocks.
    pub geometry: Geometry,
    /// When the pool is compacted.
    pub compaction: Compaction,
    /// Whether the child of a fork inherits the device's data.
    pub fork: Fork,
    /// The turn at which a fork locks this device. If this device compresses memory that contains
    /// the request buffers of other devices, the fork must lock those devices before this device.
    pub fork_turn: page::fork::Turn,
    /// Whether core dumps include the pool's pages. The default is false, because compressed pages
    /// are of little use in a dump, and can contain private data.
    pub dump: bool,
    /// A supply that can refuse pages that the system would grant; `None` means that every request
    /// is granted.
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
    /// Returns the configuration of a device of `disksize` bytes with lz4, no limits, and one
    /// stream per processor.
    pub fn new(disksize: u64) -> Result<Self, Error> {
        Ok(Config { disksize, ..Config::default() })
    }

    /// Checks that a device can have this size and this block size.
    ///
    /// # Errors
    /// [`Error::Disksize`], [`Error::Block`].
    pub fn check_size(&self) -> Result<(), Error> {
        self.layout().map(drop)
    }

    /// Returns true if the device's configuration allows jobs that need a stream.
    pub(crate) fn needs_job_stream(&self) -> bool {
        self.recompression.iter().any(Option::is_some) || self.backing.is_some()
    }

    /// Returns the layout of the device's entries.
    pub(crate) fn layout(&self) -> Result<Layout, Error> {
        let layout = Layout::new(self.block, self.disksize.div_ceil(SLOT_BYTES as u64))?;
        // The numbers of slots and blocks must fit in 32 bits.
        if layout.all_slots() == 0 || layout.entries() > u32::MAX as u64 {
            return Err(Error::Disksize { bytes: self.disksize, block: self.block });
        }
        Ok(layout)
    }

    /// Returns the minimum compressed length, in bytes, at which a block of order `order` is stored
    /// raw.
    pub(crate) fn huge_size(&self, layout: Layout, order: u32) -> Result<usize, Error> {
        let geometry = self.geometry.with_order(layout.order());
        Ok(geometry.huge_size(order).map_err(zsmalloc::Error::from)?)
    }

    pub(crate) fn algorithms(&self) -> AlgorithmList {
        std::array::from_fn(|priority| self.algorithm_of(priority))
    }

    /// Returns the algorithm with the priority `priority`.
    pub(crate) fn algorithm_of(&self, priority: usize) -> Option<Algorithm> {
        match priority.checked_sub(1) {
            None => Some(Algorithm { codec: self.algorithm, params: self.params.clone() }),
            Some(nth) => self.recompression.get(nth)?.clone(),
        }
    }
}
