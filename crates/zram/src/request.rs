//! A request on slots: what writes, reads and frees do to each of them.
//!
//! A whole slot is compressed before its entry is locked; a slot that is written in part is locked
//! from reading its old data to storing the new, so that writers of different bytes of it both keep
//! theirs.

use crate::cold::ReadBack;
use crate::layout::Layout;
use crate::parts::{SlotRange, slots_covered, slots_touched, split_slots};
use crate::slot::{self, ACCESSED, Encoded, IDLE};
use crate::stats::{Held, Shard};
use crate::stop::{self, Blocked};
use crate::streams::Workspace;
use crate::table::Table;
use crate::{Error, SLOT_BYTES, clock};
use rustix_futex_sync::MutexGuard;
use std::ops::Range;
use zsmalloc::{Content, EntryReadGuard, EntryWriteGuard, Old};

/// Runs of slots that a discard frees before it gives its stream back.
const DISCARD_RUNS: usize = 128;
/// Slots that it tries before it asks again where the next is that there is.
const DISCARD_RUN_SLOTS: u64 = 512;

/// A request at work. While it has its stream, no fork comes in between.
pub(crate) struct Request<'t> {
    pub(crate) table: &'t Table,
    pub(crate) workspace: MutexGuard<'t, Workspace>,
    pub(crate) shard: &'t Shard,
    /// When it began, if slots keep that.
    pub(crate) now_seconds: u32,
    /// Bytes of it that are done.
    pub(crate) done: usize,
    /// What was read from the backing store for it.
    pub(crate) read_back: &'t [ReadBack],
}

/// Frees the slots that `len` bytes at `offset` cover whole. An error says that some were not, of
/// blocks that are covered in part: each of those needs an entry.
pub(crate) fn discard(table: &Table, offset: u64, len: u64) -> Result<(), Error> {
    let slots = slots_covered(offset, len);
    let (mut next, mut done) = (slots.start, Ok(()));
    while next < slots.end {
        // The stream, not used otherwise, is given back now and then, for those who wait.
        let mut request = Request::begin(table);
        next = match table.shared.layout.has_blocks() {
            false => request.free_slots(next..slots.end),
            true => request.free_blocks(next..slots.end, &mut done),
        };
    }
    done
}

/// Makes `len` bytes at `offset` zeros. Whole slots are freed first; those at the ends are written.
pub(crate) fn write_zeroes(table: &Table, offset: u64, len: u64) -> Result<(), Error> {
    let freed = discard(table, offset, len);
    freed.inspect_err(|_| Request::begin(table).shard.failed_writes.add(1))?;
    let (whole, end) = (slots_covered(offset, len), offset + len);
    let [first, last] = [whole.start, whole.end].map(|slot| (slot * SLOT_BYTES as u64).min(end));
    stop::until_done(table, |request| request.zero_range(offset, first))?;
    stop::until_done(table, |request| request.zero_range(last, end))
}

impl<'t> Request<'t> {
    /// Begins when there is a stream for it.
    pub(crate) fn begin(table: &'t Table) -> Self {
        Self::with(table, table.shared.streams.get())
    }

    /// The same for a job, which has a stream of its own.
    pub(crate) fn for_job(table: &'t Table) -> Self {
        Self::with(table, table.shared.streams.for_job())
    }

    fn with(table: &'t Table, workspace: MutexGuard<'t, Workspace>) -> Self {
        let shard = table.shared.counters.shard(workspace.index);
        let now_seconds = if table.columns.access_time { clock::seconds() } else { 0 };
        Request { table, workspace, shard, now_seconds, done: 0, read_back: &[] }
    }

    pub(crate) fn layout(&self) -> Layout {
        self.table.shared.layout
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Blocked> {
        let (offset, bytes) = (offset + self.done as u64, &bytes[self.done..]);
        match self.layout().has_blocks() {
            false => self.write_slots(offset, bytes),
            true => self.write_blocks(offset, bytes),
        }
    }

    pub(crate) fn read(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), Blocked> {
        let (offset, buf) = (offset + self.done as u64, &mut buf[self.done..]);
        match self.layout().has_blocks() {
            false => self.read_slots(offset, buf),
            true => self.read_blocks(offset, buf),
        }
    }

    /// Writes slots, each as an object of its own.
    pub(crate) fn write_slots(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Blocked> {
        for range in split_slots(offset, bytes.len()) {
            let written = self.write_slot_range(&range, Some(&bytes[range.request.clone()]));
            written.inspect_err(|stop| stop.count_failure(&self.shard.failed_writes))?;
            self.done += range.request.len();
        }
        Ok(())
    }

    /// Writes to a slot, zeros without `data`.
    fn write_slot_range(&mut self, range: &SlotRange, data: Option<&[u8]>) -> Result<(), Blocked> {
        // Between two looks at it, a slot can become part of a block, or leave it.
        while !self.try_write_slot_range(range, data)? {}
        Ok(())
    }

    fn try_write_slot_range(
        &mut self,
        range: &SlotRange,
        data: Option<&[u8]>,
    ) -> Result<bool, Blocked> {
        if self.table.is_block_active(range.slot) && self.table.is_slot_empty(range.slot) {
            return self.write_member(range, data);
        }
        match data {
            Some(data) if range.is_whole() => self.write_whole_slot(range.slot, data),
            Some(_) => {
                let entry = self.table.lock(range.slot, self.now_seconds)?;
                self.rewrite_slot(entry, range, data)
            }
            // One that holds nothing is left alone.
            None => match self.table.pool.lock_existing(range.slot) {
                Some(entry) if slot::held_now(entry.content()) != Held::Nothing => {
                    entry.row().set_access_time(self.now_seconds);
                    self.rewrite_slot(entry, range, None)
                }
                _ => Ok(true),
            },
        }
    }

    fn read_slots(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), Blocked> {
        // While one slot is decompressed the next one's bytes come from memory.
        let pins = self.table.pool.read_ahead(slots_touched(offset, buf.len()));
        for (range, pin) in split_slots(offset, buf.len()).zip(pins) {
            let (at, buf) = (range.within.start, &mut buf[range.request.clone()]);
            let content = match pin.content() {
                // What is here and has no sum, as most have not, is spared the way of an error.
                object @ Content::Object { .. } if !self.table.columns.checksum => object,
                other => {
                    let here = self.resolve(range.slot, other, pin.row());
                    here.inspect_err(|stop| stop.count_failure(&self.shard.failed_reads))?
                }
            };
            let read = slot::decode(content, at, buf, &mut self.workspace, range.slot);
            read.inspect_err(|_| self.shard.failed_reads.add(1))?;
            self.shard.slot_io.count_read(range.is_whole());
            self.done += range.request.len();
            self.touch(&pin);
        }
        Ok(())
    }

    /// Takes note that what is pinned was read.
    pub(crate) fn touch(&self, pin: &EntryReadGuard<'_>) {
        if let Some(row) = pin.row() {
            row.set_access_time(self.now_seconds);
        }
        if slot::flags_of(pin.content()) & IDLE != 0 {
            pin.clear_flags(IDLE);
        }
    }

    /// Frees the first of some slots; from where to go on.
    fn free_slots(&self, slots: Range<u64>) -> u64 {
        let pool = &self.table.pool;
        let mut next = slots.start;
        for _ in 0..DISCARD_RUNS {
            let made = pool.first_made(next).unwrap_or(slots.end).min(slots.end);
            next = (made + DISCARD_RUN_SLOTS).min(slots.end);
            for slot in made..next {
                if let Some(entry) = pool.lock_existing(slot as u32) {
                    self.table.set_slot(self.shard, entry, 0);
                }
            }
            if next == slots.end {
                break;
            }
        }
        self.shard.notify_free.add((next - slots.start) as i64);
        next
    }

    /// Writes zeros to a range within one slot.
    fn zero_range(&mut self, start: u64, end: u64) -> Result<(), Blocked> {
        for range in split_slots(start, (end - start) as usize) {
            let written = self.write_slot_range(&range, None);
            written.inspect_err(|stop| stop.count_failure(&self.shard.failed_writes))?;
        }
        Ok(())
    }

    /// False: the slot has become part of a block meanwhile. So for all that is tried.
    fn write_whole_slot(&mut self, slot: u32, data: &[u8]) -> Result<bool, Blocked> {
        let Workspace { codecs, scratch, expects_same_place, .. } = &mut *self.workspace;
        if *expects_same_place {
            // The place that the slot will go to comes from memory while it is compressed.
            self.table.pool.prefetch(slot);
        }
        let huge_size = self.table.shared.huge_size;
        let encoded = slot::encode(data, codecs.own(), &mut **scratch, huge_size)?;
        let entry = self.table.lock(slot, self.now_seconds)?;
        if entry.content() == Content::Inline(0) && self.table.is_block_active(slot) {
            return Ok(false);
        }
        let old = store_slot(self.table, self.shard, (slot, entry), encoded, ACCESSED)?;
        self.shard.slot_io.count_write(true);
        *expects_same_place = encoded.len().is_some_and(|len| slot::is_same_place(old, len));
        Ok(true)
    }

    /// Reads a slot, changes part of it (to zeros, without `data`) and stores it, locked
    /// throughout.
    fn rewrite_slot(
        &mut self,
        entry: EntryWriteGuard<'_>,
        range: &SlotRange,
        data: Option<&[u8]>,
    ) -> Result<bool, Blocked> {
        if entry.content() == Content::Inline(0) && self.table.is_block_active(range.slot) {
            return Ok(false);
        }
        let mut slot = [0; SLOT_BYTES];
        let content = self.resolve(range.slot, entry.content(), Some(entry.row()))?;
        slot::decode(content, 0, &mut slot, &mut self.workspace, range.slot)?;
        range.change(&mut slot, data);
        let Workspace { codecs, scratch, .. } = &mut *self.workspace;
        let huge_size = self.table.shared.huge_size;
        let encoded = slot::encode(&slot, codecs.own(), &mut **scratch, huge_size)?;
        store_slot(self.table, self.shard, (range.slot, entry), encoded, ACCESSED)?;
        self.shard.slot_io.count_write(false);
        Ok(true)
    }
}

/// Gives a slot what it is to hold, and counts it; what it held.
pub(crate) fn store_slot(
    table: &Table,
    shard: &Shard,
    (slot, entry): (u32, EntryWriteGuard<'_>),
    encoded: Encoded<'_>,
    flags: u8,
) -> Result<Old, Error> {
    let old = match encoded {
        Encoded::Inline(payload) => entry.set_payload(payload),
        Encoded::Object(bytes) => {
            let room =
                entry.reserve(bytes).map_err(|error| table.shared.out_of_memory(slot, error))?;
            table.commit(entry, room, bytes, flags)
        }
    };
    shard.changed(slot::held_before(old), encoded.held());
    table.release_backing(old);
    Ok(old)
}
