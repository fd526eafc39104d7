//! A request on slots: what writes, reads and frees do to each of them.
//!
//! A whole slot is compressed before its word is locked; a slot that is written in part is locked from reading its
//! old data to storing the new, so that writers of different bytes of it both keep theirs.

use crate::parts::{Part, parts, slots, whole_slots};
use crate::slot::{self, ACCESSED, Encoded, IDLE};
use crate::stat::{Held, Share};
use crate::streams::Workspace;
use crate::table::Table;
use crate::{BLOCK, Error, clock};
use rustix_futex_sync::MutexGuard;
use std::ops::Range;
use zsmalloc::{BesideSlot, Exclusive, Old};

/// Runs of slots that a discard frees before it gives its stream back.
const RUNS: usize = 128;
/// Slots that it tries before it asks again where the next is that there is.
const RUN: u64 = 512;

/// A request at work. While it has its stream, no fork comes in between.
pub(crate) struct Request<'t, E: BesideSlot> {
    table: &'t Table<E>,
    workspace: MutexGuard<'t, Workspace>,
    share: &'t Share,
    /// When it began, if slots keep that.
    seconds: u32,
}

/// Frees the slots that `len` bytes at `offset` cover whole.
pub(crate) fn free_whole<E: BesideSlot>(table: &Table<E>, offset: u64, len: u64) {
    let slots = whole_slots(offset, len);
    let mut next = slots.start;
    while next < slots.end {
        // The stream, not used otherwise, is given back now and then, for those who wait.
        next = Request::begin(table).free_some(next..slots.end);
    }
}

/// Makes `len` bytes at `offset` zeros. Whole slots are freed first, which needs no memory; those at the ends are
/// written, which may fail.
pub(crate) fn zero<E: BesideSlot>(table: &Table<E>, offset: u64, len: u64) -> Result<(), Error> {
    free_whole(table, offset, len);
    let (whole, end) = (whole_slots(offset, len), offset + len);
    let [first, last] = [whole.start, whole.end].map(|slot| (slot * BLOCK as u64).min(end));
    let mut request = Request::begin(table);
    request.zero_part(offset, first)?;
    request.zero_part(last, end)
}

impl<'t, E: BesideSlot> Request<'t, E> {
    /// Begins when there is a stream for it.
    pub(crate) fn begin(table: &'t Table<E>) -> Self {
        let workspace = table.shared.streams.get();
        let share = table.shared.counters.share(workspace.nth);
        let seconds = if E::STAMPED { clock::seconds() } else { 0 };
        Request { table, workspace, share, seconds }
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        for part in parts(offset, bytes.len()) {
            let data = &bytes[part.request.clone()];
            let written = if part.is_whole() {
                self.write_whole(part.slot, data)
            } else {
                let word = lock(self.table, part.slot, self.seconds);
                word.and_then(|word| self.rewrite(word, &part, Some(data)))
            };
            written.inspect_err(|_| self.failed_write())?;
        }
        Ok(())
    }

    pub(crate) fn read(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        // While one slot is decompressed the next one's bytes come from memory.
        let pins = self.table.pool.pins(slots(offset, buf.len()));
        for (part, pin) in parts(offset, buf.len()).zip(pins) {
            let (at, buf) = (part.within.start, &mut buf[part.request]);
            let read = slot::decode(pin.content(), at, buf, &mut self.workspace, part.slot);
            read.inspect_err(|_| self.share.failed_reads.add(1))?;
            if let Some(beside) = pin.beside() {
                beside.stamp(self.seconds);
            }
            if slot::mark_of(pin.content()) & IDLE != 0 {
                pin.unmark(IDLE);
            }
        }
        Ok(())
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
                    self.share.changed(slot::held_before(word.set_inline(0)), Held::Nothing);
                }
            }
            if next == slots.end {
                break;
            }
        }
        self.share.notify_free.add((next - slots.start) as i64);
        next
    }

    /// Writes zeros to a range within one slot. One that holds nothing is left alone.
    fn zero_part(&mut self, start: u64, end: u64) -> Result<(), Error> {
        for part in parts(start, (end - start) as usize) {
            let word = self.table.pool.lock_existing(part.slot);
            let held = |word: &Exclusive<'_, E>| slot::held_now(word.content()) != Held::Nothing;
            if let Some(word) = word.filter(held) {
                word.beside().stamp(self.seconds);
                self.rewrite(word, &part, None).inspect_err(|_| self.failed_write())?;
            }
        }
        Ok(())
    }

    fn failed_write(&self) {
        self.share.failed_writes.add(1);
    }

    fn write_whole(&mut self, slot: u32, block: &[u8]) -> Result<(), Error> {
        let Workspace { codec, scratch, is_alike, .. } = &mut *self.workspace;
        if *is_alike {
            // The place that the block will go to comes from memory while it is compressed.
            self.table.pool.prefetch(slot);
        }
        let huge_size = self.table.shared.huge_size;
        let encoded = slot::encode(block, &mut **codec, &mut **scratch, huge_size)?;
        let word = lock(self.table, slot, self.seconds)?;
        let old = put(self.table, self.share, (slot, word), encoded)?;
        *is_alike = slot::is_alike(old, &encoded);
        Ok(())
    }

    /// Reads a slot, changes part of it (to zeros, without `data`) and stores it, locked throughout.
    fn rewrite(
        &mut self,
        word: Exclusive<'_, E>,
        part: &Part,
        data: Option<&[u8]>,
    ) -> Result<(), Error> {
        let mut block = [0; BLOCK];
        slot::decode(word.content(), 0, &mut block, &mut self.workspace, part.slot)?;
        match data {
            Some(data) => block[part.within.clone()].copy_from_slice(data),
            None => block[part.within.clone()].fill(0),
        }
        let Workspace { codec, scratch, .. } = &mut *self.workspace;
        let huge_size = self.table.shared.huge_size;
        let encoded = slot::encode(&block, &mut **codec, &mut **scratch, huge_size)?;
        put(self.table, self.share, (part.slot, word), encoded).map(|_| ())
    }
}

/// Locks a slot that is written to.
fn lock<E: BesideSlot>(
    table: &Table<E>,
    slot: u32,
    seconds: u32,
) -> Result<Exclusive<'_, E>, Error> {
    let word = table.pool.lock(slot).map_err(|error| table.shared.full(slot, error))?;
    word.beside().stamp(seconds);
    Ok(word)
}

/// Gives a slot what it is to hold, and counts it; what it held.
fn put<E: BesideSlot>(
    table: &Table<E>,
    share: &Share,
    (slot, word): (u32, Exclusive<'_, E>),
    encoded: Encoded<'_>,
) -> Result<Old, Error> {
    let old = match encoded {
        Encoded::Inline(payload) => word.set_inline(payload),
        Encoded::Object(bytes) => {
            word.store(bytes, ACCESSED).map_err(|error| table.shared.full(slot, error))?
        }
    };
    share.changed(slot::held_before(old), encoded.held());
    Ok(old)
}
