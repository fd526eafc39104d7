//! What serves a region: its blocks' words, its device, and what it takes to move blocks between
//! the two.

use crate::aside::Storer;
use crate::backend::{Backend, choose};
use crate::chunk_word::ChunkWord;
use crate::clock::Evictor;
use crate::fatal::refused;
use crate::limit::Limit;
use crate::mappings::{CHUNK_BYTES, Mappings};
use crate::memory::Managed;
use crate::options::Blocks;
use crate::order::Order;
use crate::policy::{BATCH_BYTES, PIECE, batch, seats};
use crate::recent::Recent;
use crate::seats::Seats;
use crate::state::BlockWord;
use crate::stats::{Counters, StoredMost};
use crate::store;
use crate::table::Table;
use crate::threads::{self, Alone};
use crate::tree::Member;
use crate::waker::Waker;
use crate::working_set::Window;
use crate::{Error, Options, processors};
use page::fork::Mutex;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Instant;
use zram::{Device, MmStat};

/// What became of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The instruction will find what it wants.
    Answered,
    /// The block was resident: by now, or it is not the pager's doing; and how often blocks near it
    /// were closed before it was looked at.
    Resident { closings: u32 },
    /// As `Resident`, of a block of an arena that is the program's own affair.
    Unmanaged { closings: u32 },
}

/// So many counts of closings there are.
const CLOSINGS: usize = 64;

/// All that serves a region.
#[derive(Debug)]
pub(crate) struct Pager {
    pub(crate) memory: Managed,
    pub(crate) blocks: Blocks,
    pub(crate) words: Table<BlockWord>,
    pub(crate) chunks: Table<ChunkWord>,
    pub(crate) chunk_bytes: usize,
    /// A bit for each piece in which a block may have a copy.
    pub(crate) copied: Table<AtomicU64>,
    pub(crate) device: Device,
    pub(crate) backend: Box<dyn Backend>,
    /// What there is of it in this process.
    pub(crate) heir: AtomicU32,
    pub(crate) seats: Seats,
    pub(crate) limit: Limit,
    /// Blocks in probation.
    pub(crate) probation: AtomicUsize,
    /// What few blocks may be in probation.
    pub(crate) probation_max: usize,
    /// Blocks that a touch opens of what is shared.
    pub(crate) group: AtomicUsize,
    /// The store's lock (zm-S5).
    pub(crate) evictor: Mutex<Evictor>,
    /// How often the hand of the clock went round.
    pub(crate) round: AtomicU32,
    pub(crate) waker: Waker,
    pub(crate) storer: Storer,
    /// Bytes that had been evicted when the device was last gone over.
    pub(crate) compacted: AtomicU64,
    /// Before then the device is not packed again where room is tight.
    pub(crate) packs_from: Mutex<Option<Instant>>,
    /// Whether no fault interrupts the allocator.
    pub(crate) is_heap_own: bool,
    /// How often blocks were closed that had been resident, by their pieces: some pieces share one.
    closings: [AtomicU32; CLOSINGS],
    pub(crate) order: Order,
    pub(crate) recent: Recent,
    pub(crate) counters: Counters,
    pub(crate) stored_most: StoredMost,
    /// See `working_set`.
    pub(crate) watched: Mutex<Window>,
    _mappings: Mappings,
}

/// What is managed from the start on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// Memory that nobody has touched, and is closed.
    Untouched,
    /// Memory that is in use.
    InUse,
    /// An arena's: all of it is closed, and nothing managed yet.
    Vacant,
}

/// Returns the blocks of a region, and its share of mappings. Where each block may be a mapping of
/// its own and there are too many, several of the device's are marked as one (zm-M2).
fn fit(
    mut blocks: Blocks,
    backend: &dyn Backend,
    bytes: usize,
    seats: usize,
) -> Result<(Blocks, Mappings), Error> {
    loop {
        let units = bytes / blocks.unit;
        let marked = backend.mappings_max(units);
        let larger = 2 * blocks.unit;
        let may_grow = marked > 0 && larger <= CHUNK_BYTES && bytes.is_multiple_of(larger);
        match Mappings::reserve(bytes, units, seats, marked) {
            Err(_) if may_grow => blocks.unit = larger,
            reserved => return Ok((blocks, reserved?)),
        }
    }
}

impl Pager {
    /// Returns the proof that no other thread runs, nor another process reads, while this one fills
    /// and evicts blocks in place: if the backend can do that.
    pub(crate) fn alone(&self) -> Option<Alone> {
        let has_peers = self.limit.member.as_ref().is_some_and(Member::has_peers);
        if self.backend.opens_first() && !has_peers { threads::alone() } else { None }
    }

    pub(crate) fn new(
        memory: Managed,
        contents: Contents,
        options: &Options,
    ) -> Result<Self, Error> {
        let backend = choose(options, &memory)?;
        backend.probe().map_err(Error::system("what this backend does with memory"))?;
        let seats = seats(processors(), backend.threads(), options.limit);
        let (blocks, mappings) = fit(options.blocks()?, &*backend, memory.bytes(), seats)?;
        let units = memory.bytes() / blocks.unit;
        let pieces = units.div_ceil(PIECE);
        let buffer = BATCH_BYTES.max(blocks.unit);
        let seats = Seats::new(seats, buffer).map_err(Error::system("stacks for faults"))?;
        let is_heap_own = contents == Contents::Vacant;
        let device = store::device(options, memory.bytes(), blocks, seats.len(), is_heap_own)?;
        let (words, copied) = (Table::new(units)?, Table::new(pieces.div_ceil(64))?);
        let chunks = Table::new(memory.bytes().div_ceil(mappings.chunk_bytes))?;
        let evictor = Evictor::new(pieces)?;
        let own = seats.bytes() + buffer + evictor.bytes() + copied.bytes() + chunks.bytes();
        let mut limit = Limit::new(options.limit, own as u64, blocks.unit, buffer * seats.len());
        limit.share(options.tree);
        let pager = Pager {
            memory,
            blocks,
            words,
            chunks,
            chunk_bytes: mappings.chunk_bytes,
            copied,
            device,
            backend,
            heir: AtomicU32::new(0),
            seats,
            limit,
            probation: AtomicUsize::new(0),
            probation_max: mappings.probation_max,
            group: AtomicUsize::new(1),
            evictor: Mutex::new(evictor),
            round: AtomicU32::new(0),
            waker: Waker::default(),
            storer: Storer::default(),
            compacted: AtomicU64::new(0),
            packs_from: Mutex::new(None),
            is_heap_own,
            closings: [const { AtomicU32::new(0) }; CLOSINGS],
            order: Order::default(),
            recent: Recent::new(blocks.unit),
            counters: Counters::default(),
            stored_most: StoredMost::default(),
            watched: Mutex::default(),
            _mappings: mappings,
        };
        pager.memory.allow_folios(blocks.stored.min(blocks.unit));
        pager.limit.begin(pager.device_bytes(), pager.device.mem_total())?;
        match contents {
            Contents::Untouched => {}
            Contents::InUse => pager.take_over(),
            Contents::Vacant => pager.vacate_all_chunks(),
        }
        Ok(pager)
    }

    /// Bytes of some blocks.
    pub(crate) fn bytes_of(&self, units: Range<usize>) -> Range<usize> {
        units.start * self.blocks.unit..units.end * self.blocks.unit
    }

    /// How often the block, and others that it shares the count with, were closed.
    pub(crate) fn closings(&self, unit: usize) -> u32 {
        self.closings[unit / PIECE % CLOSINGS].load(SeqCst)
    }

    /// Counts blocks that are about to be closed.
    pub(crate) fn note_closing(&self, units: &Range<usize>) {
        for piece in units.start / PIECE..units.end.div_ceil(PIECE) {
            self.closings[piece % CLOSINGS].fetch_add(1, SeqCst);
        }
    }

    /// Blocks of the region.
    pub(crate) fn units(&self) -> usize {
        self.words.len()
    }

    /// The blocks that a fault or an eviction moves at most.
    pub(crate) fn batch(&self) -> usize {
        batch(self.blocks.unit)
    }

    /// Ends the process if the system has refused what must not fail.
    pub(crate) fn expect(&self, what: &str, done: Result<(), rustix::io::Errno>) {
        done.unwrap_or_else(|errno| refused(what, errno));
    }

    /// Returns what the device takes by now.
    pub(crate) fn device_bytes(&self) -> u64 {
        self.device.mem_total() - self.device.mem_unused()
    }

    /// Takes account of what the device takes by now, and of what waits for it. Returns what the
    /// device stores.
    pub(crate) fn weigh_device(&self) -> MmStat {
        self.limit.set_device(self.device_bytes() + self.storer.bytes());
        let stat = self.device.mm_stat();
        if let Some(member) = &self.limit.member {
            let room = stat.mem_used_total.saturating_sub(stat.compr_data_size);
            member.note_pool(stat.mem_used_total, room, self.device.changed_bytes());
        }
        stat
    }

    /// Does so, and takes note of the most that it stored.
    pub(crate) fn weigh(&self) {
        let stat = self.weigh_device();
        self.stored_most.note(stat.orig_data_size, stat.compr_data_size);
    }
}
