//! The options of a region, and the creation of the region's device.

use crate::Error;
use crate::signals::in_handler;
use std::sync::Arc;
use zcomp::{Codec, Params};
use zram::{Compaction, Config, Device, ORDER_MAX, SLOT_BYTES, Supply};

/// The unit of compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockOrder {
    /// Blocks of 4096 << order bytes, each of which is evicted and filled as a whole.
    Fixed(u32),
    /// Blocks of one page. Neighbouring blocks that are evicted together are compressed together,
    /// up to 4096 << order bytes at once.
    Adaptive(u32),
}

/// The mechanism that handles accesses to absent blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackendKind {
    /// The backend that was fastest in measurements, among those that the system permits.
    #[default]
    Best,
    /// Signals, which need no privilege. Guards in page tables make accesses fault, if the kernel
    /// supports guards.
    Signal,
    /// Signals, with a separate mapping for each run of blocks on which accesses fault. Linux
    /// before 6.13 supports no guards.
    SignalMappings,
    /// Signals, with a mapping for each run of blocks. Blocks are filled by `mremap`, so the
    /// process need not open /proc/self/mem. Needs Linux 5.7.
    SignalRemap,
    /// A userfaultfd, whose faults are handled by threads of this crate. System calls are allowed
    /// to access absent memory. For this, the process needs CAP_SYS_PTRACE, access to
    /// `/dev/userfaultfd`, or the setting `vm.unprivileged_userfaultfd`. Otherwise, the backend is
    /// `UserfaultfdSigbus`. The program must not close the descriptor of the userfaultfd.
    Userfaultfd,
    /// A userfaultfd that raises SIGBUS in the faulting thread. System calls on absent memory fail.
    UserfaultfdSigbus,
    /// For tests: like `Userfaultfd`, but write-protects pages even if the kernel can move pages.
    #[doc(hidden)]
    UserfaultfdProtected,
    /// For tests: like `UserfaultfdSigbus`, but write-protects pages even if the kernel can move
    /// pages.
    #[doc(hidden)]
    UserfaultfdSigbusProtected,
}

impl BackendKind {
    /// Returns whether the backend uses no userfaultfd.
    pub(crate) fn is_signal(self) -> bool {
        use BackendKind::{Best, Signal, SignalMappings, SignalRemap};
        matches!(self, Best | Signal | SignalMappings | SignalRemap)
    }
}

/// Whether a child of fork has a copy of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fork {
    /// The fastest choice. With signals, the child has a copy of the region. With a userfaultfd,
    /// the child does not have the region: an access kills the child, and calls fail with
    /// [`Error::Forked`].
    #[default]
    Default,
    /// The child always has a copy of the region. With a userfaultfd, a fork handler fills all
    /// blocks before each fork, whatever the limit is. So the child must be created by `fork`,
    /// because `_Fork` and `clone` call no fork handlers. The child evicts down to its limit when
    /// it first calls this crate, or gradually when it faults.
    Copied,
}

/// The options of a region. [`Options::default`] selects lz4, blocks of 4 KiB and no limit.
///
/// ```
/// let codec = zmem::by_name("zstd")?;
/// let params = zmem::Params { level: Some(1), ..zmem::Params::default() };
/// let region = zmem::Region::new(1 << 20, zmem::Options { codec, params, ..Default::default() })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// The unit of compression.
    pub block: BlockOrder,
    /// The codec.
    pub codec: &'static dyn Codec,
    /// The codec's parameters.
    pub params: Params,
    /// The maximum number of held bytes: resident blocks, and all memory that this crate uses for
    /// the region. Without a limit, blocks are evicted only on request.
    ///
    /// A region needs 4 bytes for each block that was ever touched, and 4 KiB of page tables for
    /// each 2 MiB with a resident block. On x86_64, unused page tables are freed if the kernel is
    /// Linux 6.14 or later. On other systems, and in memory passed to `Region::manage`, page tables
    /// are not freed. The 4 bytes for each block and the page tables count towards the limit, so
    /// the region exceeds a lower limit. The limit should have room for page tables, which need
    /// 1/500 of the touched memory, and for the compressed data.
    ///
    /// Incompressible data, compressed data and locked ranges can't be evicted, so together they
    /// can exceed the limit. A lowered limit or a dropped lock takes effect within about half a
    /// second. Data that become compressible later are evicted after some seconds, or later if
    /// attempts to evict them take long.
    pub limit: Option<u64>,
    /// The maximum number of bytes of the pages in which the device stores compressed blocks. One
    /// block must fit in these pages. Blocks that the device refuses stay resident.
    pub store_limit: Option<u64>,
    /// The mechanism that handles accesses to absent blocks.
    pub backend: BackendKind,
    /// Whether a child of fork has a copy of the region.
    pub fork: Fork,
    /// Whether stored blocks have checksums, which are verified when the blocks are filled.
    pub checksums: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            block: BlockOrder::Fixed(0),
            codec: zcomp::codecs()[0],
            params: Params::default(),
            limit: None,
            store_limit: None,
            backend: BackendKind::Best,
            fork: Fork::Default,
            checksums: false,
        }
    }
}

/// Advice about the future use of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// The range will not be used soon, and is evicted now.
    Cold,
    /// The range will be used soon and often. The range is filled, and is not evicted during the
    /// next rounds of the clock.
    Hot,
}

/// The sizes of blocks, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockSizes {
    /// The size of a block of the region. Each such block has one state.
    pub(crate) block: usize,
    /// The size of a block of the device.
    pub(crate) device_block: usize,
}

impl Options {
    pub(crate) fn sizes(&self) -> Result<BlockSizes, Error> {
        let page = page::page_size();
        let (order, block) = match self.block {
            BlockOrder::Fixed(order) => (order, SLOT_BYTES << order.min(ORDER_MAX)),
            BlockOrder::Adaptive(order) => (order, page),
        };
        let min = (page / SLOT_BYTES).trailing_zeros();
        if !(min..=ORDER_MAX).contains(&order) {
            return Err(Error::Order { order, min, max: ORDER_MAX });
        }
        Ok(BlockSizes { block, device_block: SLOT_BYTES << order })
    }
}

/// Refuses heap memory to the device while the thread handles a fault (zm-H3), because the fault
/// may have interrupted the allocator.
#[derive(Debug)]
struct HandlerSupply;

impl Supply for HandlerSupply {
    fn grant(&self, request: page::Request) -> bool {
        !matches!(request, page::Request::Allocate { .. }) || !in_handler()
    }
}

/// Creates a device of `bytes` bytes. At most `contexts` threads and the pager thread use the
/// device at the same time. `is_heap_own` is true if no fault interrupts the allocator.
pub(crate) fn create_device(
    options: &Options,
    bytes: usize,
    sizes: BlockSizes,
    contexts: usize,
    is_heap_own: bool,
) -> Result<Device, Error> {
    let needed = sizes.device_block.max(page::page_size()) as u64;
    if let Some(limit) = options.store_limit.filter(|&limit| limit < needed) {
        return Err(Error::StoreLimit { limit, needed });
    }
    let config = Config {
        block: sizes.device_block,
        algorithm: options.codec,
        params: options.params.clone(),
        mem_limit: options.store_limit,
        checksums: options.checksums,
        // Each context and the pager thread have a stream, so no thread waits for a stream.
        streams: Some(contexts + 1),
        // The device starts no threads, because a child would lack them.
        compaction: Compaction::Manual,
        // A fork locks this device after other devices, because a request to another device may
        // access a region, and thereby use this device.
        fork_turn: page::fork::Turn::Last,
        supply: (!is_heap_own).then(|| Arc::new(HandlerSupply) as Arc<dyn Supply>),
        ..Config::new(bytes as u64).map_err(|error| refused(error, bytes, sizes))?
    };
    Device::new(config).map_err(|error| refused(error, bytes, sizes))
}

/// Converts an error of the device to an error of this crate. An error about the device's size
/// becomes an error about the region's size.
fn refused(error: zram::Error, bytes: usize, sizes: BlockSizes) -> Error {
    match error {
        zram::Error::Disksize { .. } => Error::Size { bytes, block: sizes.block },
        error => Error::Device(error),
    }
}

pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<64>();
    words.iter().all(|words| words == &[0; 64]) && rest.iter().all(|&byte| byte == 0)
}
