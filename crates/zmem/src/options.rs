//! Options of a region, and the device that they describe, on which evicted blocks are stored.

use crate::Error;
use crate::signals::in_handler;
use std::sync::Arc;
use zcomp::{Codec, Params};
use zram::{Compaction, Config, Device, ORDER_MAX, SLOT_BYTES, Supply};

/// The unit of compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockOrder {
    /// Blocks of 4096 << order bytes, which are evicted and filled as a whole.
    Fixed(u32),
    /// Blocks of one page. Neighbours that are evicted together are compressed as blocks of up to
    /// 4096 << order bytes.
    Adaptive(u32),
}

/// The mechanism that handles accesses to absent blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackendKind {
    /// The permitted backend that performs best in measurements.
    #[default]
    Best,
    /// Signals, which need no privilege, with marks in page tables if the kernel supports such
    /// marks.
    Signal,
    /// Signals, with a mapping for each run of marked blocks, as is necessary before Linux 6.13.
    SignalMappings,
    /// Signals, with a mapping for each run of blocks. Each block is moved to its address by
    /// `mremap`, which works even if the process may not open /proc/self/mem. Needs Linux 5.7.
    SignalRemap,
    /// A userfaultfd. If the kernel permits the userfaultfd to report faults of system calls (with
    /// CAP_SYS_PTRACE, by `/dev/userfaultfd`, or by `vm.unprivileged_userfaultfd`), threads handle
    /// the faults, and system calls may access absent memory. Otherwise the backend is
    /// `UserfaultfdSigbus`. The program must not close the descriptor of the userfaultfd.
    Userfaultfd,
    /// A userfaultfd that reports faults to the faulting thread by SIGBUS. System calls on absent
    /// memory fail.
    UserfaultfdSigbus,
    /// Like `Userfaultfd`, but protects pages even if the kernel could move them (for tests).
    #[doc(hidden)]
    UserfaultfdProtected,
    /// Like `UserfaultfdSigbus`, but protects pages even if the kernel could move them (for tests).
    #[doc(hidden)]
    UserfaultfdSigbusProtected,
}

impl BackendKind {
    /// Returns true if the backend uses only signals, so that a child inherits the marks.
    pub(crate) fn is_signal(self) -> bool {
        use BackendKind::{Best, Signal, SignalMappings, SignalRemap};
        matches!(self, Best | Signal | SignalMappings | SignalRemap)
    }
}

/// The part of a region that a child of fork has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fork {
    /// The cheapest choice. With signals, the child has a copy. With a userfaultfd, the child has
    /// no part of the region: an access kills the child, and calls fail with [`Error::Forked`].
    #[default]
    Default,
    /// The child always has a copy. With a userfaultfd, a fork handler fills all blocks before each
    /// fork, regardless of the limit. A child must be created by `fork`, because `_Fork` and
    /// `clone` call no fork handlers. The child evicts until its limit is kept, at its first call
    /// or gradually at its faults.
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
    /// The maximum number of bytes held: resident blocks, and all memory that this crate uses for
    /// the region. If the limit is `None`, blocks are evicted only on request.
    ///
    /// A region needs 4 bytes for each block of memory that was ever touched, and 4 KiB of page
    /// tables for each 2 MiB in which a block is resident. Unused page tables are freed since Linux
    /// 6.14 on x86_64. On other systems, and in memory passed to `Region::manage`, page tables are
    /// not freed. All tables count, so a limit can't be kept if the tables alone exceed it. Allow
    /// 1/500 of the touched memory, plus the compressed data.
    ///
    /// Unevictable memory may exceed the limit: data that compression does not make smaller,
    /// compressed data, and locked ranges. A lowered limit or a dropped lock takes effect within
    /// about half a second. If data become compressible later, they are evicted after some seconds,
    /// or later if attempts take long.
    pub limit: Option<u64>,
    /// The maximum number of bytes of the device's pages. The maximum must be at least the bytes
    /// that one block needs. Blocks that the device refuses stay resident.
    pub store_limit: Option<u64>,
    /// The mechanism that handles accesses to absent blocks.
    pub backend: BackendKind,
    /// The part of the region that a child of fork has.
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
    /// The range will not be used soon. The range is evicted now.
    Cold,
    /// The range will be used soon and often. The range is filled, and the clock passes over it for
    /// some rounds.
    Hot,
}

/// The sizes of blocks in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockSizes {
    /// The size of a block of the region, which is the unit with one state.
    pub(crate) block: usize,
    /// The size of the device's blocks.
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

/// Refuses heap memory for the device to a thread that answers a fault (zm-H3), because the fault
/// may have interrupted the allocator.
#[derive(Debug)]
struct HandlerSupply;

impl Supply for HandlerSupply {
    fn grant(&self, request: page::Request) -> bool {
        !matches!(request, page::Request::Allocate { .. }) || !in_handler()
    }
}

/// Creates a device of `bytes` bytes. At most `contexts` threads with contexts, and the pager
/// thread, use it at the same time. If `is_heap_own`, no fault interrupts the allocator.
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
        // One stream for each context and one for the pager, so no thread waits for a stream.
        streams: Some(contexts + 1),
        // The device starts no threads, because a child would lack them.
        compaction: Compaction::Manual,
        // A fork locks this device after other devices, because their requests may access a region.
        fork_turn: page::fork::Turn::Last,
        supply: (!is_heap_own).then(|| Arc::new(HandlerSupply) as Arc<dyn Supply>),
        ..Config::new(bytes as u64).map_err(|error| refused(error, bytes, sizes))?
    };
    Device::new(config).map_err(|error| refused(error, bytes, sizes))
}

/// Converts an error of the device: an error about the device's size becomes one about the region's
/// size.
fn refused(error: zram::Error, bytes: usize, sizes: BlockSizes) -> Error {
    match error {
        zram::Error::Disksize { .. } => Error::Size { bytes, block: sizes.block },
        error => Error::Device(error),
    }
}

/// Returns whether all bytes are zero.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<64>();
    words.iter().all(|words| words == &[0; 64]) && rest.iter().all(|&byte| byte == 0)
}
