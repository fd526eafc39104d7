//! A request on slots: what writes, reads and frees do to each of them.
//!
//! A whole slot is compressed before its word is locked; a slot that is written in part is locked from reading its
//! old data to storing the new, so that writers of different bytes of it both keep theirs.

use crate::cold::Fetched;
use crate::layout::Layout;
use crate::parts::{Part, parts, slots, whole_slots};
use crate::slot::{self, ACCESSED, Encoded, IDLE};
use crate::stat::{Held, Share};
use crate::stop::{self, Stop};
use crate::streams::Workspace;
use crate::table::Table;
use crate::{BLOCK, Error, clock};
use rustix_futex_sync::MutexGuard;
use std::ops::Range;
use zsmalloc::{BesideSlot, Content, EntryReadGuard, EntryWriteGuard, Old};

/// Runs of slots that a discard frees before it gives its stream back.
const RUNS: usize = 128;
/// Slots that it tries before it asks again where the next is that there is.
const RUN: u64 = 512;

/// A request at work. While it has its stream, no fork comes in between.
pub(crate) struct Request<'t, E: BesideSlot> {
    pub(crate) table: &'t Table<E>,
    pub(crate) workspace: MutexGuard<'t, Workspace>,
    pub(crate) share: &'t Share,
    /// When it began, if slots keep that.
    pub(crate) seconds: u32,
    /// Bytes of it that are done.
    pub(crate) done: usize,
    /// What was read from the backing store for it.
    pub(crate) fetched: &'t [Fetched],
}

/// Frees the slots that `len` bytes at `offset` cover whole. An error says that some were not, of blocks that are covered
/// in part: each of those needs a word.
pub(crate) fn free_whole<E: BesideSlot>(
    table: &Table<E>,
    offset: u64,
    len: u64,
) -> Result<(), Error> {
    let slots = whole_slots(offset, len);
    let (mut next, mut done) = (slots.start, Ok(()));
    while next < slots.end {
        // The stream, not used otherwise, is given back now and then, for those who wait.
        let mut request = Request::begin(table);
        next = match table.shared.layout.has_blocks() {
            false => request.free_some(next..slots.end),
            true => request.free_some_in_blocks(next..slots.end, &mut done),
        };
    }
    done
}

/// Makes `len` bytes at `offset` zeros. Whole slots are freed first; those at the ends are written.
pub(crate) fn zero<E: BesideSlot>(table: &Table<E>, offset: u64, len: u64) -> Result<(), Error> {
    let freed = free_whole(table, offset, len);
    freed.inspect_err(|_| Request::begin(table).share.failed_writes.add(1))?;
    let (whole, end) = (whole_slots(offset, len), offset + len);
    let [first, last] = [whole.start, whole.end].map(|slot| (slot * BLOCK as u64).min(end));
    stop::run(table, |request| request.zero_part(offset, first))?;
    stop::run(table, |request| request.zero_part(last, end))
}

impl<'t, E: BesideSlot> Request<'t, E> {
    /// Begins when there is a stream for it.
    pub(crate) fn begin(table: &'t Table<E>) -> Self {
        Self::with(table, table.shared.streams.get())
    }

    /// The same for a job, which has a stream of its own.
    pub(crate) fn for_job(table: &'t Table<E>) -> Self {
        Self::with(table, table.shared.streams.for_job())
    }

    fn with(table: &'t Table<E>, workspace: MutexGuard<'t, Workspace>) -> Self {
        let share = table.shared.counters.share(workspace.nth);
        let seconds = if E::STAMPED { clock::seconds() } else { 0 };
        Request { table, workspace, share, seconds, done: 0, fetched: &[] }
    }

    pub(crate) fn layout(&self) -> Layout {
        self.table.shared.layout
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Stop> {
        let (offset, bytes) = (offset + self.done as u64, &bytes[self.done..]);
        match self.layout().has_blocks() {
            false => self.write_slots(offset, bytes),
            true => self.write_blocks(offset, bytes),
        }
    }

    pub(crate) fn read(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), Stop> {
        let (offset, buf) = (offset + self.done as u64, &mut buf[self.done..]);
        match self.layout().has_blocks() {
            false => self.read_slots(offset, buf),
            true => self.read_blocks(offset, buf),
        }
    }

    /// Writes slots, each as an object of its own.
    pub(crate) fn write_slots(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Stop> {
        for part in parts(offset, bytes.len()) {
            let written = self.write_part(&part, Some(&bytes[part.request.clone()]));
            written.inspect_err(|stop| stop.count(&self.share.failed_writes))?;
            self.done += part.request.len();
        }
        Ok(())
    }

    /// Writes to a slot, zeros without `data`.
    fn write_part(&mut self, part: &Part, data: Option<&[u8]>) -> Result<(), Stop> {
        // Between two looks at it, a slot can become part of a block, or leave it.
        while !self.try_write_part(part, data)? {}
        Ok(())
    }

    fn try_write_part(&mut self, part: &Part, data: Option<&[u8]>) -> Result<bool, Stop> {
        if self.table.has_block(part.slot) && self.table.is_empty_word(part.slot) {
            return self.write_in_block(part, data);
        }
        match data {
            Some(data) if part.is_whole() => self.write_whole(part.slot, data),
            Some(_) => {
                let word = self.table.lock(part.slot, self.seconds)?;
                self.rewrite(word, part, data)
            }
            // One that holds nothing is left alone.
            None => match self.table.pool.lock_existing(part.slot) {
                Some(word) if slot::held_now(word.content()) != Held::Nothing => {
                    word.beside().stamp(self.seconds);
                    self.rewrite(word, part, None)
                }
                _ => Ok(true),
            },
        }
    }

    fn read_slots(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), Stop> {
        // While one slot is decompressed the next one's bytes come from memory.
        let pins = self.table.pool.read_ahead(slots(offset, buf.len()));
        for (part, pin) in parts(offset, buf.len()).zip(pins) {
            let (at, buf) = (part.within.start, &mut buf[part.request.clone()]);
            let content = match pin.content() {
                // What is here and has no sum, as most have not, is spared the way of an error.
                object @ Content::Object { .. } if !E::SUMMED => object,
                other => {
                    let here = self.here(part.slot, other, pin.beside());
                    here.inspect_err(|stop| stop.count(&self.share.failed_reads))?
                }
            };
            let read = slot::decode(content, at, buf, &mut self.workspace, part.slot);
            read.inspect_err(|_| self.share.failed_reads.add(1))?;
            self.share.of_slots.count_read(part.is_whole());
            self.done += part.request.len();
            self.note_access(&pin);
        }
        Ok(())
    }

    /// Takes note that what is pinned was read.
    pub(crate) fn note_access(&self, pin: &EntryReadGuard<'_, E>) {
        if let Some(beside) = pin.beside() {
            beside.stamp(self.seconds);
        }
        if slot::flags_of(pin.content()) & IDLE != 0 {
            pin.clear_flags(IDLE);
        }
    }

    /// Frees the first of some slots; from where to go on.
    fn free_some(&self, slots: Range<u64>) -> u64 {
        let pool = &self.table.pool;
        let mut next = slots.start;
        for _ in 0..RUNS {
            let made = pool.first_made(next).unwrap_or(slots.end).min(slots.end);
            next = (made + RUN).min(slots.end);
            for slot in made..next {
                if let Some(word) = pool.lock_existing(slot as u32) {
                    self.table.set(self.share, word, 0);
                }
            }
            if next == slots.end {
                break;
            }
        }
        self.share.notify_free.add((next - slots.start) as i64);
        next
    }

    /// Writes zeros to a range within one slot.
    fn zero_part(&mut self, start: u64, end: u64) -> Result<(), Stop> {
        for part in parts(start, (end - start) as usize) {
            let written = self.write_part(&part, None);
            written.inspect_err(|stop| stop.count(&self.share.failed_writes))?;
        }
        Ok(())
    }

    /// False: the slot has become part of a block meanwhile. So for all that is tried.
    fn write_whole(&mut self, slot: u32, data: &[u8]) -> Result<bool, Stop> {
        let Workspace { codecs, scratch, is_alike, .. } = &mut *self.workspace;
        if *is_alike {
            // The place that the slot will go to comes from memory while it is compressed.
            self.table.pool.prefetch(slot);
        }
        let huge_size = self.table.shared.huge_size;
        let encoded = slot::encode(data, codecs.own(), &mut **scratch, huge_size)?;
        let word = self.table.lock(slot, self.seconds)?;
        if word.content() == Content::Inline(0) && self.table.has_block(slot) {
            return Ok(false);
        }
        let old = put(self.table, self.share, (slot, word), encoded, ACCESSED)?;
        self.share.of_slots.count_write(true);
        *is_alike = encoded.len().is_some_and(|len| slot::are_alike(old, len));
        Ok(true)
    }

    /// Reads a slot, changes part of it (to zeros, without `data`) and stores it, locked throughout.
    fn rewrite(
        &mut self,
        word: EntryWriteGuard<'_, E>,
        part: &Part,
        data: Option<&[u8]>,
    ) -> Result<bool, Stop> {
        if word.content() == Content::Inline(0) && self.table.has_block(part.slot) {
            return Ok(false);
        }
        let mut slot = [0; BLOCK];
        let content = self.here(part.slot, word.content(), Some(word.beside()))?;
        slot::decode(content, 0, &mut slot, &mut self.workspace, part.slot)?;
        part.change(&mut slot, data);
        let Workspace { codecs, scratch, .. } = &mut *self.workspace;
        let huge_size = self.table.shared.huge_size;
        let encoded = slot::encode(&slot, codecs.own(), &mut **scratch, huge_size)?;
        put(self.table, self.share, (part.slot, word), encoded, ACCESSED)?;
        self.share.of_slots.count_write(false);
        Ok(true)
    }
}

/// Gives a slot what it is to hold, and counts it; what it held.
pub(crate) fn put<E: BesideSlot>(
    table: &Table<E>,
    share: &Share,
    (slot, word): (u32, EntryWriteGuard<'_, E>),
    encoded: Encoded<'_>,
    flags: u8,
) -> Result<Old, Error> {
    let old = match encoded {
        Encoded::Inline(payload) => word.set_payload(payload),
        Encoded::Object(bytes) => {
            let room = word.reserve(bytes).map_err(|error| table.shared.full(slot, error))?;
            table.commit(word, room, bytes, flags)
        }
    };
    share.changed(slot::held_before(old), encoded.held());
    table.gone(old);
    Ok(old)
}
