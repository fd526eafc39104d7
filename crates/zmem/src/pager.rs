//! The pager of a region: the words of the region's blocks, the region's device, and the state of
//! evictions and fills.

use crate::backend::{Backend, choose};
use crate::background::{CompressorThread, StartThread, Waker};
use crate::chunk_word::ChunkWord;
use crate::clock::Clock;
use crate::contexts::HandlerContexts;
use crate::counters::{Counters, StoredMost, Window};
use crate::error::refused;
use crate::limit::Limit;
use crate::mappings::{Mappings, fit};
use crate::memory::Managed;
use crate::memory::pages::allow_folios;
use crate::options::{BlockSizes, create_device};
use crate::policy::{BATCH_BYTES, CLOCK_WINDOW, CLOSINGS, STEP_BYTES, batch, contexts};
use crate::recent::{Order, Recent};
use crate::state::{BlockWord, HEAT_MAX};
use crate::table::Table;
use crate::threads::{self, WorldStopped};
use crate::{Error, Options, processors};
use page::fork::Mutex;
use std::ops::Range;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{OnceLock, Weak};
use std::time::Instant;
use zram::{Device, MmStat};

/// The pager of a region or an arena.
#[derive(Debug)]
pub(crate) struct Pager {
    pub(crate) memory: Managed,
    pub(crate) sizes: BlockSizes,
    pub(crate) words: Table<BlockWord>,
    pub(crate) chunks: Table<ChunkWord>,
    /// A bit for each clock window. The bit is 1 if a block of the clock window may have a copy on
    /// the device.
    pub(crate) copied: Table<AtomicU64>,
    pub(crate) device: Device,
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) contexts: HandlerContexts,
    pub(crate) limit: Limit,
    pub(crate) probation: AtomicUsize,
    /// The number of blocks in a group: one fault on a shared block opens the block's group.
    pub(crate) group: AtomicUsize,
    /// The eviction lock (zm-S5).
    pub(crate) eviction_lock: Mutex<Clock>,
    /// The number of the current round of the clock's hand.
    pub(crate) round: AtomicU32,
    pub(crate) waker: Waker,
    pub(crate) compressor: CompressorThread,
    /// The value that starts the compressor thread, and the reference to this pager that the thread
    /// gets.
    pub(crate) starter: OnceLock<(&'static dyn StartThread, Weak<Pager>)>,
    pub(crate) packing: Mutex<Packing>,
    /// Whether faults never interrupt the process's allocator, as in an arena.
    pub(crate) is_heap_own: bool,
    /// Counters of the times that blocks of each clock window were closed. Several clock windows
    /// share a counter.
    closings: [AtomicU32; CLOSINGS],
    pub(crate) order: Order,
    pub(crate) recent: Recent,
    pub(crate) counters: Counters,
    pub(crate) stored_most: StoredMost,
    /// The values of `counters` at the start of the current time window.
    pub(crate) watched: Mutex<Window>,
    pub(crate) mappings: Mappings,
}

/// The state of *packing*: moving objects of the device together, so that pages become free. A
/// thread locks this value while it packs.
#[derive(Debug, Default)]
pub(crate) struct Packing {
    /// The time at which the pause after packing ends.
    pub(crate) resumes: Option<Instant>,
    /// The number of bytes that were evicted before the last packing of the whole device.
    pub(crate) whole_at: u64,
}

/// The contents of the memory when its pager is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// Memory that was never touched, and is closed.
    Untouched,
    /// Memory that the program already uses.
    InUse,
    /// Memory of an arena. The memory is closed, and all blocks are free.
    Vacant,
}

impl Pager {
    /// Returns a proof that no other thread runs and no other process reads this memory. Returns
    /// `None` if this can't be proved, or if the backend uses a userfaultfd, with which blocks
    /// can't be filled and evicted in place.
    pub(crate) fn try_stop_world(&self) -> Option<WorldStopped> {
        let has_peers = self.limit.shared.as_ref().is_some_and(|shared| shared.has_peers());
        if self.backend.uffd().is_none() && !has_peers { threads::try_stop_world() } else { None }
    }

    pub(crate) fn new(
        memory: Managed,
        contents: Contents,
        options: &Options,
    ) -> Result<Self, Error> {
        let backend = choose(options, &memory)?;
        let contexts = contexts(processors(), backend.threads(), options.limit);
        let (sizes, mappings) =
            fit(options.sizes()?, memory.bytes(), contexts, |blocks| backend.mappings_max(blocks))?;
        let blocks = memory.bytes() / sizes.block;
        let windows = blocks.div_ceil(CLOCK_WINDOW);
        let buffer = BATCH_BYTES.max(sizes.block);
        let contexts =
            HandlerContexts::new(contexts, buffer).map_err(Error::system("stacks for faults"))?;
        let is_heap_own = contents == Contents::Vacant;
        let device = create_device(options, memory.bytes(), sizes, contexts.count, is_heap_own)?;
        let (words, copied) = (Table::new(blocks)?, Table::new(windows.div_ceil(64))?);
        let chunks = Table::new(memory.bytes().div_ceil(mappings.chunk_bytes))?;
        let clock = Clock::new(windows)?;
        let own = contexts.bytes() + buffer + clock.bytes() + copied.bytes() + chunks.bytes();
        let limit = Limit::new(options.limit, own as u64, sizes.block, buffer * contexts.count);
        let pager = Pager {
            memory,
            sizes,
            words,
            chunks,
            copied,
            device,
            backend,
            contexts,
            limit,
            probation: AtomicUsize::new(0),
            group: AtomicUsize::new(1),
            eviction_lock: Mutex::new(clock),
            round: AtomicU32::new(0),
            waker: Waker::default(),
            compressor: CompressorThread::default(),
            starter: OnceLock::new(),
            packing: Mutex::default(),
            is_heap_own,
            closings: [const { AtomicU32::new(0) }; CLOSINGS],
            order: Order::default(),
            recent: Recent::new(sizes.block),
            counters: Counters::default(),
            stored_most: StoredMost::default(),
            watched: Mutex::default(),
            mappings,
        };
        allow_folios(&pager.memory, sizes.device_block.min(sizes.block));
        pager.limit.begin(pager.device_bytes(), pager.device.mem_total())?;
        Ok(pager)
    }

    pub(crate) fn bytes_of(&self, blocks: Range<usize>) -> Range<usize> {
        blocks.start * self.sizes.block..blocks.end * self.sizes.block
    }

    /// Returns the number of times that blocks were closed in the clock windows that share the
    /// counter of `block`.
    pub(crate) fn closings(&self, block: usize) -> u32 {
        self.closings[block / CLOCK_WINDOW % CLOSINGS].load(SeqCst)
    }

    /// Increments the counters of the clock windows of `blocks`, before the blocks are closed.
    pub(crate) fn note_closing(&self, blocks: &Range<usize>) {
        for window in blocks.start / CLOCK_WINDOW..blocks.end.div_ceil(CLOCK_WINDOW) {
            self.closings[window % CLOSINGS].fetch_add(1, SeqCst);
        }
    }

    pub(crate) fn blocks(&self) -> usize {
        self.words.len()
    }

    /// Returns the number of blocks in a batch.
    pub(crate) fn batch(&self) -> usize {
        batch(self.sizes.block)
    }

    /// If `done` is an error, aborts the process with the message `what`. Used for operations that
    /// must not fail.
    pub(crate) fn expect(&self, what: &str, done: Result<(), rustix::io::Errno>) {
        done.unwrap_or_else(|errno| refused(what, errno));
    }

    /// Returns the number of bytes that the device uses now.
    pub(crate) fn device_bytes(&self) -> u64 {
        self.device.mem_total() - self.device.mem_unused()
    }

    /// Measures the device and the copies of queued blocks, and counts both towards the limit.
    /// Returns the device's statistics.
    pub(crate) fn weigh_device(&self) -> MmStat {
        self.limit.set_device(self.device_bytes() + self.compressor.bytes());
        let stat = self.device.mm_stat();
        if let Some(shared) = &self.limit.shared {
            let room = stat.mem_used_total.saturating_sub(stat.compr_data_size);
            shared.note_pool(stat.mem_used_total, room, self.device.changed_bytes());
        }
        stat
    }

    /// Calls `weigh_device`, and updates the maximum size of the stored data.
    pub(crate) fn weigh(&self) {
        let stat = self.weigh_device();
        self.stored_most.note(stat.orig_data_size, stat.compr_data_size);
    }

    pub(crate) fn blocks_of_window(&self, window: usize) -> Range<usize> {
        window * CLOCK_WINDOW..((window + 1) * CLOCK_WINDOW).min(self.blocks())
    }

    /// Returns the low bits of the number of the clock's current round. The word of a block that is
    /// evicted in this round holds these bits.
    pub(crate) fn round(&self) -> u32 {
        self.round.load(Relaxed) & HEAT_MAX
    }

    /// Returns the number of blocks that an eviction step evicts.
    pub(crate) fn step_blocks(&self) -> usize {
        STEP_BYTES.div_ceil(self.sizes.block)
    }

    /// Returns whether faulting threads evict, because there is a limit and no pager thread.
    pub(crate) fn makes_room_itself(&self) -> bool {
        self.limit.get().is_some() && !self.waker.has_thread()
    }
}
