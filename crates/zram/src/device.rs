//! The device: requests at any offset and length, on slots of 4 KiB.
//!
//! Lock order: stream, slot (the pool's word), then the pool's own. A whole slot is compressed before
//! its word is locked; a slot that is written in part is locked from reading its old data to storing the
//! new, so that writers of different bytes of it both keep theirs.

use crate::slot::{self, Encoded};
use crate::stat::{Counters, Held, IoStat, MmStat, Share};
use crate::streams::{Streams, Workspace};
use crate::{BLOCK, Compaction, Config, Error};
use page::fork::Forks;
use page::page_size;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;
use zsmalloc::{Classes, CompactionStat, Core, Exclusive, Slots};

/// A compressed device in memory. All functions take `&self` and may be called from any thread.
///
/// ```
/// let device = zram::Device::new(zram::Config::new(1 << 30)?)?;
/// device.write(5000, b"some bytes")?;
/// let mut bytes = [0; 10];
/// device.read(5000, &mut bytes)?;
/// assert_eq!(&bytes, b"some bytes");
/// # Ok::<(), zram::Error>(())
/// ```
#[derive(Debug)]
pub struct Device {
    shared: Arc<Shared>,
    counters: Counters,
    slots: u64,
    disksize: u64,
    /// A block that compresses to this or more is stored raw.
    huge_size: usize,
    compaction: Compaction,
}

/// What is held still over a fork: while no thread has a stream, no request is under way.
#[derive(Debug)]
struct Shared {
    streams: Streams,
    pool: Arc<Core<Slots>>,
}

impl Forks for Shared {
    fn hold(&self) {
        self.streams.hold();
        self.pool.hold();
    }

    fn let_go(&self) {
        self.pool.let_go();
        self.streams.let_go();
    }

    fn let_go_in_child(&self) {
        self.pool.let_go_in_child();
        self.streams.let_go();
    }
}

/// Slots that a discard frees before it gives its stream back.
const STRETCH: u64 = 1 << 16;

/// The part of a request that lies in one slot.
#[derive(Clone, Debug)]
struct Part {
    slot: u32,
    /// Bytes within the slot.
    within: Range<usize>,
    /// Bytes within the request.
    request: Range<usize>,
}

impl Part {
    fn is_whole(&self) -> bool {
        self.within.len() == BLOCK
    }
}

/// The slots that `len` bytes at `offset` touch.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = Part> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let start = (at % BLOCK as u64) as usize;
        let here = (BLOCK - start).min(len - done);
        let part = Part {
            slot: (at / BLOCK as u64) as u32,
            within: start..start + here,
            request: done..done + here,
        };
        done += here;
        (here > 0).then_some(part)
    })
}

impl Device {
    /// An empty device: it reads as zeros and holds no pages.
    pub fn new(config: Config) -> Result<Self, Error> {
        let slots = config.slots()?;
        let streams = Streams::new(&config)?;
        let pages = page::Config {
            limit: config.mem_limit.map(pages_of),
            supply: config.supply.clone(),
            ..page::Config::default()
        };
        let pool = zsmalloc::Config { geometry: config.geometry, pages };
        let pool = Arc::new(Core::with_slots(pool, slots)?);
        if config.compaction == Compaction::Auto {
            pool.compact_in_background();
        }
        let huge_size = pool.table().huge_size(0);
        let counters = Counters::new(streams.len());
        let shared = Arc::new(Shared { streams, pool });
        let weak: Weak<Shared> = Arc::downgrade(&shared);
        page::fork::register(weak);
        let compaction = config.compaction;
        Ok(Device {
            compaction,
            shared,
            counters,
            huge_size,
            slots,
            disksize: slots * BLOCK as u64,
        })
    }

    /// Bytes of the device.
    pub fn disksize(&self) -> u64 {
        self.disksize
    }

    fn check_range(&self, offset: u64, len: u64) -> Result<(), Error> {
        match offset.checked_add(len) {
            Some(end) if end <= self.disksize => Ok(()),
            _ => Err(Error::Range { offset, len, disksize: self.disksize }),
        }
    }

    /// Writes `bytes` at `offset`. On an error the slots before the one it names are written, that one
    /// and those after it are as they were.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.check_range(offset, bytes.len() as u64)?;
        let mut workspace = self.shared.streams.get();
        let share = self.counters.share(workspace.nth);
        for part in parts(offset, bytes.len()) {
            let data = &bytes[part.request.clone()];
            let written = if part.is_whole() {
                self.write_whole(part.slot, data, &mut workspace, share)
            } else {
                let full = |source| Error::OutOfMemory { slot: part.slot as u64, source };
                let word = self.shared.pool.lock(part.slot).map_err(full);
                word.and_then(|word| self.rewrite(word, &part, Some(data), &mut workspace, share))
            };
            if let Err(error) = written {
                share.failed_writes.fetch_add(1, Relaxed);
                return Err(error);
            }
        }
        Ok(())
    }

    fn write_whole(
        &self,
        index: u32,
        block: &[u8],
        workspace: &mut Workspace,
        share: &Share,
    ) -> Result<(), Error> {
        let Workspace { codec, scratch, .. } = workspace;
        let encoded = slot::encode(block, &mut **codec, &mut **scratch, self.huge_size)?;
        let full = |source| Error::OutOfMemory { slot: index as u64, source };
        let word = self.shared.pool.lock(index).map_err(full)?;
        put(word, encoded, share).map_err(full)
    }

    /// Reads a slot, changes part of it (to zeros, without `data`) and stores it, locked throughout.
    fn rewrite(
        &self,
        word: Exclusive<'_>,
        part: &Part,
        data: Option<&[u8]>,
        workspace: &mut Workspace,
        share: &Share,
    ) -> Result<(), Error> {
        let full = |source| Error::OutOfMemory { slot: part.slot as u64, source };
        let mut block = [0; BLOCK];
        slot::decode(word.content(), 0, &mut block, workspace, part.slot as u64)?;
        match data {
            Some(data) => block[part.within.clone()].copy_from_slice(data),
            None => block[part.within.clone()].fill(0),
        }
        let Workspace { codec, scratch, .. } = workspace;
        let encoded = slot::encode(&block, &mut **codec, &mut **scratch, self.huge_size)?;
        put(word, encoded, share).map_err(full)
    }

    /// Reads `buf.len()` bytes at `offset`. What was never written, or discarded, reads as zeros.
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.check_range(offset, buf.len() as u64)?;
        let mut workspace = self.shared.streams.get();
        let mut parts = parts(offset, buf.len()).peekable();
        let mut next = None;
        while let Some(part) = parts.next() {
            let pin = next.take().unwrap_or_else(|| self.shared.pool.pin(part.slot));
            // While this slot is decompressed the next one's bytes come from memory. Whoever waits for one with another
            // pinned has a lower one pinned, so not all wait for each other.
            next = parts.peek().map(|next| self.shared.pool.pin(next.slot));
            next.iter().for_each(|next| next.prefetch());
            let buf = &mut buf[part.request];
            let slot = part.slot as u64;
            let read = slot::decode(pin.content(), part.within.start, buf, &mut workspace, slot);
            if let Err(error) = read {
                self.counters.share(workspace.nth).failed_reads.fetch_add(1, Relaxed);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Frees `len` bytes at `offset`: they read as zeros. Slots that the range covers whole are freed first,
    /// which needs no memory; those it covers in part are written, which may fail.
    pub fn discard(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.check_range(offset, len)?;
        let end = offset + len;
        let block = BLOCK as u64;
        let first = offset.next_multiple_of(block).min(end);
        let last = (end / block * block).max(first);
        self.free_slots(first / block..last / block);
        self.zero_part(offset, first)?;
        self.zero_part(last, end)
    }

    fn free_slots(&self, slots: Range<u64>) {
        let mut next = slots.start;
        while next < slots.end {
            // Not to compress with: no fork comes between a slot and its count while a stream is taken. It
            // is given back now and then, for those who wait.
            let workspace = self.shared.streams.get();
            let share = self.counters.share(workspace.nth);
            let made = self.shared.pool.first_made(next).unwrap_or(slots.end).min(slots.end);
            let stretch = made..(made + STRETCH).min(slots.end);
            share.notify_free.fetch_add(stretch.end - next, Relaxed);
            for slot in stretch.clone() {
                if let Some(word) = self.shared.pool.lock_existing(slot as u32) {
                    share.changed(slot::held_before(word.set_inline(0)), Held::Nothing);
                }
            }
            next = stretch.end;
        }
    }

    /// Writes zeros to a range within one slot. One that holds nothing is left alone.
    fn zero_part(&self, start: u64, end: u64) -> Result<(), Error> {
        let mut workspace = self.shared.streams.get();
        let share = self.counters.share(workspace.nth);
        for part in parts(start, (end - start) as usize) {
            let word = self.shared.pool.lock_existing(part.slot);
            let held = |word: &Exclusive<'_>| slot::held_now(word.content()) != Held::Nothing;
            if let Some(word) = word.filter(held) {
                self.rewrite(word, &part, None, &mut workspace, share).inspect_err(|_| {
                    share.failed_writes.fetch_add(1, Relaxed);
                })?;
            }
        }
        Ok(())
    }

    /// Sets or lifts the limit of pool pages, in bytes. Below what is used, it refuses what needs more.
    pub fn set_mem_limit(&self, bytes: Option<u64>) {
        self.shared.pool.pages().set_limit(bytes.map(pages_of));
    }

    /// Sets or lifts a soft limit of pool pages, in bytes: it refuses nothing, but can be waited for.
    pub fn set_soft_limit(&self, bytes: Option<u64>) {
        self.shared.pool.pages().set_soft_limit(bytes.map(pages_of));
    }

    /// Waits until the soft limit is reached, `timeout` at most; whether it is.
    pub fn wait_near_limit(&self, timeout: Duration) -> bool {
        self.shared.pool.pages().wait_near(timeout)
    }

    /// Makes `mem_used_max` what is used now.
    pub fn reset_mem_used_max(&self) {
        self.shared.pool.pages().reset_peak();
    }

    /// Moves objects together so that pages become free; how many did. Readers never wait for it. Does
    /// nothing where compaction is off, or is under way already.
    pub fn compact(&self) -> usize {
        if self.compaction == Compaction::Off { 0 } else { self.shared.pool.compact() }
    }

    /// As [`compact`](Self::compact), until `bytes` bytes were freed; pages freed.
    pub fn shrink(&self, bytes: usize) -> usize {
        if self.compaction == Compaction::Off { 0 } else { self.shared.pool.shrink(bytes) }
    }

    /// Bytes of pages that compaction could free.
    pub fn freeable(&self) -> usize {
        self.shared.pool.freeable()
    }

    /// What compaction has done so far, and what it took.
    pub fn compaction_stat(&self) -> CompactionStat {
        self.shared.pool.compaction_stat()
    }

    /// The kernel's `mm_stat`.
    pub fn mm_stat(&self) -> MmStat {
        let pages = self.shared.pool.pages();
        let bytes = |pages: usize| (pages as u64).saturating_mul(page_size() as u64);
        MmStat {
            mem_used_total: bytes(pages.used()),
            mem_limit: pages.limit().map_or(0, bytes),
            mem_used_max: bytes(pages.peak()),
            pages_compacted: self.shared.pool.pages_compacted(),
            ..self.counters.mm_stat()
        }
    }

    /// The kernel's `io_stat`.
    pub fn io_stat(&self) -> IoStat {
        self.counters.io_stat()
    }

    /// Reads that had to wait since their slot was being changed.
    pub fn read_waits(&self) -> u64 {
        self.shared.pool.read_waits()
    }

    /// All memory of the device in bytes: pool, slot table, streams and counters.
    pub fn mem_total(&self) -> u64 {
        let own = size_of::<Self>()
            + size_of::<Shared>()
            + self.shared.streams.bytes()
            + self.counters.bytes();
        (self.shared.pool.bytes() + own) as u64
    }

    /// Statistics per size class; they print as the kernel's `classes` file.
    pub fn classes(&self) -> Classes {
        self.shared.pool.classes()
    }

    /// Asserts the state of the pool, and that the counters equal the sums over the slots (I4). Nothing
    /// else may use the device meanwhile.
    pub fn check(&self) {
        self.shared.pool.check();
        let sums = Counters::new(1);
        for slot in 0..self.slots as u32 {
            let held = slot::held_now(self.shared.pool.pin(slot).content());
            sums.share(0).changed(Held::Nothing, held);
        }
        let (now, sum) = (self.counters.mm_stat(), sums.mm_stat());
        assert_eq!(now, MmStat { huge_pages_since: now.huge_pages_since, ..sum });
    }
}

/// No thread is left behind.
impl Drop for Device {
    fn drop(&mut self) {
        self.shared.pool.stop_background();
    }
}

/// Pages for `bytes`, rounded up.
fn pages_of(bytes: u64) -> usize {
    bytes.div_ceil(page_size() as u64) as usize
}

/// Gives a slot what it is to hold, and counts it.
fn put(word: Exclusive<'_>, encoded: Encoded<'_>, share: &Share) -> Result<(), zsmalloc::Error> {
    let old = match encoded {
        Encoded::Inline(payload) => word.set_inline(payload),
        Encoded::Object(bytes, mark) => word.store(bytes, mark)?,
    };
    share.changed(slot::held_before(old), encoded.held());
    Ok(())
}
