//! How a region is made.

use crate::{Error, Tree};
use zcomp::{Codec, Params};
use zram::{ORDER_MAX, SLOT_BYTES};

/// Bytes that are compressed as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockOrder {
    /// Blocks of 4096 << order bytes, which go and come whole.
    Fixed(u32),
    /// Pages, of which neighbours that go together are compressed as blocks of up to so much.
    Adaptive(u32),
}

/// What answers touches of absent blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackendKind {
    /// What is permitted and measures best.
    #[default]
    Best,
    /// Signals, which need no right; marks of page tables where the system has them.
    Signal,
    /// Signals, with a mapping for each run of marked blocks, as on systems before Linux 6.13.
    SignalMappings,
    /// Signals, with a mapping for each run of blocks, each of which is moved to its place: for
    /// where /proc/self/mem is refused. It needs Linux 5.7.
    SignalRemap,
    /// A userfaultfd. Where the system permits it to tell of the kernel's own faults (with
    /// CAP_SYS_PTRACE, by `/dev/userfaultfd`, or by `vm.unprivileged_userfaultfd`), threads answer,
    /// and system calls may touch what is absent; else as `UserfaultfdSigbus`. The program must not
    /// close its descriptor.
    Userfaultfd,
    /// A userfaultfd, whose faults are a SIGBUS to the thread: system calls on what is absent fail.
    UserfaultfdSigbus,
    /// As `Userfaultfd`, with pages protected though the system could move them: for tests.
    #[doc(hidden)]
    UserfaultfdProtected,
    /// As `UserfaultfdSigbus`, with pages protected in the same way.
    #[doc(hidden)]
    UserfaultfdSigbusProtected,
}

impl BackendKind {
    /// Whether signals alone are used, and marks that go along to a child.
    pub(crate) fn is_signal(self) -> bool {
        use BackendKind::{Best, Signal, SignalMappings, SignalRemap};
        matches!(self, Best | Signal | SignalMappings | SignalRemap)
    }
}

/// What a child has of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fork {
    /// What costs nothing: a copy with signals; with a userfaultfd nothing, so that a touch kills
    /// the child, and calls fail with [`Error::Forked`].
    #[default]
    Default,
    /// A copy in any case. With a userfaultfd all is brought back before each fork, whatever the
    /// limit says; so a child must be made by `fork`, not by `_Fork` or `clone`. It comes down to
    /// its limit with its first call, or by and by with its faults.
    Copied,
}

/// What a region is made of. [`Options::default`] is lz4, blocks of 4 KiB, no limit.
///
/// ```
/// let codec = zmem::by_name("zstd")?;
/// let params = zmem::Params { level: Some(1), ..zmem::Params::default() };
/// let region = zmem::Region::new(1 << 20, zmem::Options { codec, params, ..Default::default() })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes that are compressed as one.
    pub block: BlockOrder,
    /// The codec.
    pub codec: &'static dyn Codec,
    /// Its parameters.
    pub params: Params,
    /// Most bytes held: resident blocks, and all that serves the region. `None` is no limit: only
    /// what is asked for is evicted.
    ///
    /// A region takes 4 bytes for each block of what was ever touched, and 4 KiB of page tables for
    /// each 2 MiB in which a block is resident. (Page tables of what has none any more go since
    /// Linux 6.14, on x86_64; else they stay, as do those of memory that is taken over.) All of it
    /// counts; but a region that is touched everywhere can't keep a limit that its tables alone
    /// pass: allow a 500th of what is touched, and more for what is compressed.
    ///
    /// What can't go passes the limit: data that do not get smaller, compressed data that do not
    /// fit, and what is locked. A limit that is lowered and a lock that is dropped take effect
    /// within half a second or so; data that get smaller only later, after some seconds at most,
    /// unless it takes long to try them.
    pub limit: Option<u64>,
    /// The processes that keep the limit together, by shared memory: it is of what all of them
    /// hold, all other anonymous memory of each included, as far as /proc tells. Where no place is
    /// left in the tree the limit is this process's alone.
    pub tree: Option<Tree>,
    /// Most bytes of pages that the device may have, a block's at least; what it refuses stays
    /// resident.
    pub store_limit: Option<u64>,
    /// What answers touches.
    pub backend: BackendKind,
    /// What a child has of the region.
    pub fork: Fork,
    /// Whether blocks have checksums, which are looked at when they come back.
    pub checksums: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            block: BlockOrder::Fixed(0),
            codec: zcomp::codecs()[0],
            params: Params::default(),
            limit: None,
            tree: None,
            store_limit: None,
            backend: BackendKind::Best,
            fork: Fork::Default,
            checksums: false,
        }
    }
}

/// What is known of how a range will be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// Not soon: it is evicted now.
    Cold,
    /// Soon, and often: it is brought back, and the clock passes it some rounds.
    Hot,
}

/// The bytes that orders come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// Of what has a state.
    pub(crate) unit: usize,
    /// Of the device's blocks.
    pub(crate) stored: usize,
}

impl Options {
    pub(crate) fn blocks(&self) -> Result<Blocks, Error> {
        let page = page::page_size();
        let (order, unit) = match self.block {
            BlockOrder::Fixed(order) => (order, SLOT_BYTES << order.min(ORDER_MAX)),
            BlockOrder::Adaptive(order) => (order, page),
        };
        let min = (page / SLOT_BYTES).trailing_zeros();
        if !(min..=ORDER_MAX).contains(&order) {
            return Err(Error::Order { order, min, max: ORDER_MAX });
        }
        Ok(Blocks { unit, stored: SLOT_BYTES << order })
    }
}
