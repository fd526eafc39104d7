//! Requests: writes, reads and discards of slots and blocks.
//!
//! This file decides whether a request processes single slots or blocks. The following files
//! process the slots and blocks:
//!
//! ```text
//!   write     block covered whole: whole | slot in its block: part | other slot: slots
//!   read      device of blocks: read | of slots: slots
//!   discard   device of blocks: part | of slots: slots; the ends of its range are written
//! ```
//! Only `part` calls another of these files: it calls `rewrite` to remove dead members from a
//! block.

mod part;
mod read;
mod rewrite;
mod slots;
mod whole;

pub(crate) use rewrite::rewrite_all;

use crate::backing::ReadBack;
use crate::counters::{Counter, Shard};
use crate::layout::{Part, slots_covered, split_slots};
use crate::slot::{BackingPlace, Flags, Slot};
use crate::stats::Written;
use crate::streams::Workspace;
use crate::table::{Blocked, Table, boot_seconds, is_block_active, is_slot_empty};
use crate::{Error, SLOT_BYTES};
use rustix_futex_sync::MutexGuard;
use zsmalloc::{Content, EntryReadGuard, ORDER_MAX};

const SLOTS_MAX: usize = 1 << ORDER_MAX;
/// The counters of failed requests.
const WRITE_FAILURES: fn(&Shard) -> &Counter = |shard| &shard.failed_writes;
const READ_FAILURES: fn(&Shard) -> &Counter = |shard| &shard.failed_reads;

/// A request under way. A fork waits until the request releases its stream.
pub(crate) struct Request<'t> {
    pub(crate) table: &'t Table,
    pub(crate) workspace: MutexGuard<'t, Workspace>,
    pub(crate) shard: &'t Shard,
    /// The start of the request in seconds since boot; 0 if access times are not tracked.
    pub(crate) now_seconds: u32,
    /// The number of bytes that the request has read or written.
    pub(crate) done: usize,
    /// The objects that were read from the backing store for this request.
    pub(crate) read_back: &'t [ReadBack],
}

impl<'t> Request<'t> {
    /// Begins a request. Waits for a free stream.
    pub(crate) fn begin(table: &'t Table) -> Self {
        Self::with(table, table.streams.get())
    }

    /// Begins a request of a job, with the stream that is reserved for jobs.
    pub(crate) fn for_job(table: &'t Table) -> Self {
        Self::with(table, table.streams.for_job())
    }

    #[inline]
    fn with(table: &'t Table, workspace: MutexGuard<'t, Workspace>) -> Self {
        let shard = table.counters.shard(workspace.index);
        let now_seconds = if table.columns.access_time { boot_seconds() } else { 0 };
        Request { table, workspace, shard, now_seconds, done: 0, read_back: &[] }
    }

    /// Reads from a slot with data in its own entry. The caller has pinned that entry.
    #[inline]
    fn read_slot(
        &mut self,
        pin: &EntryReadGuard<'_>,
        part: &Part,
        buf: &mut [u8],
    ) -> Result<(), Blocked> {
        let content = match pin.content() {
            // An object in memory without a checksum, the common case, needs no call of `resolve`.
            object @ Content::Object { .. } if !self.table.columns.checksum => object,
            other => self.table.resolve(part.nth, other, pin.row(), self.read_back)?,
        };
        self.workspace.decode(Slot::of(content), part.within.start, buf, part.nth)?;
        self.shard.slot_io.count_read(part.is_whole_slot());
        self.touch(pin);
        Ok(())
    }

    /// Records the access time of the pinned entry, and removes the idle mark of the entry.
    fn touch(&self, pin: &EntryReadGuard<'_>) {
        if self.table.columns.access_time
            && let Some(row) = pin.row()
        {
            row.set_access_time(self.now_seconds);
        }
        if Flags::of(pin.content()).has(Flags::IDLE) {
            pin.clear_flags(Flags::IDLE.bits());
        }
    }
}

pub(crate) fn write(table: &Table, offset: u64, bytes: &[u8]) -> Result<Written, Error> {
    table.check_range(offset, bytes.len() as u64)?;
    let mut written = Written::default();
    until_done(table, offset, WRITE_FAILURES, |request| {
        let (offset, bytes) = (offset + request.done as u64, &bytes[request.done..]);
        let raw_before = request.shard.raw_ever();
        let write = if table.layout.has_blocks() { write_blocks } else { write_slots };
        let stopped = write(request, offset, bytes);
        written.raw += request.shard.raw_ever() - raw_before;
        stopped
    })
    .map(|()| written)
}

pub(crate) fn read(table: &Table, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
    table.check_range(offset, buf.len() as u64)?;
    until_done(table, offset, READ_FAILURES, |request| {
        let (offset, buf) = (offset + request.done as u64, &mut buf[request.done..]);
        match table.layout.has_blocks() {
            false => slots::read(request, offset, buf),
            true => read::read_blocks(request, offset, buf),
        }
    })
}

/// Makes `len` bytes at `offset` read as zeros. First frees the slots that lie completely in the
/// range, then overwrites the slots that lie partly in the range. If a slot can't be removed from
/// its block for lack of an entry, returns an error after the first step.
pub(crate) fn discard(table: &Table, offset: u64, len: u64) -> Result<(), Error> {
    table.check_range(offset, len)?;
    let freed = free_covered(table, offset, len);
    freed.inspect_err(|_| Request::begin(table).shard.failed_writes.add(1))?;
    let (whole, end) = (slots_covered(offset, len), offset + len);
    let [first, last] = [whole.start, whole.end].map(|slot| (slot * SLOT_BYTES as u64).min(end));
    [offset..first, last..end].into_iter().try_for_each(|part| {
        let len = (part.end - part.start) as usize;
        until_done(table, part.start, WRITE_FAILURES, |request| {
            split_slots(part.start, len).try_for_each(|range| write_slot(request, &range, None))
        })
    })
}

fn free_covered(table: &Table, offset: u64, len: u64) -> Result<(), Error> {
    let slots = slots_covered(offset, len);
    let (mut next, mut done) = (slots.start, Ok(()));
    while next < slots.end {
        // Each step is its own request, so waiting requests can use the stream between the steps.
        let mut request = Request::begin(table);
        next = match table.layout.has_blocks() {
            false => slots::free_slots(&request, next..slots.end),
            true => part::free_blocks(&mut request, next..slots.end, &mut done),
        };
    }
    done
}

/// Returns true if a request for `len` bytes at `offset` may have to wait for the backing store.
/// The result may be outdated at once.
pub(crate) fn may_wait(table: &Table, offset: u64, len: u64) -> bool {
    if table.store.is_none() || len == 0 || table.check_range(offset, len).is_err() {
        return false;
    }
    let layout = table.layout;
    let slot = |at: u64| (at / SLOT_BYTES as u64) as u32;
    let (first, last) = (slot(offset), slot(offset + len - 1));
    let blocks = layout.block_of(first)..=layout.block_of(last);
    let mut entries = (first..=last).chain(blocks.map(|block| layout.first_entry(block)));
    let is_backed = |entry| table.pool.look_at(entry, |old, _| BackingPlace::of(old).is_some());
    entries.any(|entry| is_backed(entry) == Some(true))
}

/// Calls `work` until it completes or fails. Each call continues where the previous call stopped.
/// Between the calls, reads objects from the backing store. Counts a failure of `work` in
/// `failures`. The slot in the error does not precede the slot at which the request stopped.
fn until_done(
    table: &Table,
    offset: u64,
    failures: fn(&Shard) -> &Counter,
    mut work: impl FnMut(&mut Request<'_>) -> Result<(), Blocked>,
) -> Result<(), Error> {
    let (mut done, mut read_back) = (0, Vec::new());
    let stopped_at = |done: usize| (offset + done as u64) / SLOT_BYTES as u64;
    loop {
        let mut request = Request::begin(table);
        (request.done, request.read_back) = (done, &read_back);
        let stopped = work(&mut request);
        let reached = request.done;
        if let Err(Blocked::Failed(_)) = stopped {
            failures(request.shard).add(1);
        }
        drop(request);
        // A block can need several objects: its own object, and the objects of the block's single
        // slots. Objects that were read are kept until the request has processed the block.
        if reached > done {
            read_back.clear();
            done = reached;
        }
        match stopped {
            Ok(()) => return Ok(()),
            Err(Blocked::Failed(error)) => return Err(error.not_before(stopped_at(done))),
            Err(Blocked::Changed) => {}
            Err(Blocked::OnBacking(guard)) => {
                let slot = table.layout.slot_of(guard.entry);
                let read = guard.read_into(Vec::new(), slot);
                read_back.push(read.map_err(|(error, _)| error.not_before(stopped_at(done)))?);
            }
        }
    }
}

/// Writes to blocks. If memory suffices, a block that the range covers becomes one object.
fn write_blocks(request: &mut Request<'_>, offset: u64, bytes: &[u8]) -> Result<(), Blocked> {
    for range in request.table.layout.split_blocks(offset, bytes.len()) {
        let at = offset + range.request.start as u64;
        let data = &bytes[range.request.clone()];
        if range.within.len() == request.table.layout.block_bytes() {
            if whole::write_block(request, range.nth, data)? {
                request.done += data.len();
                continue;
            }
            request.shard.block_io.splits.add(1);
        }
        write_slots(request, at, data)?;
    }
    Ok(())
}

/// Writes slots, each as a separate object.
fn write_slots(request: &mut Request<'_>, offset: u64, bytes: &[u8]) -> Result<(), Blocked> {
    for range in split_slots(offset, bytes.len()) {
        write_slot(request, &range, Some(&bytes[range.request.clone()]))?;
        request.done += range.request.len();
    }
    Ok(())
}

/// Writes `data` to a slot, or zeros if `data` is `None`.
fn write_slot(request: &mut Request<'_>, range: &Part, data: Option<&[u8]>) -> Result<(), Blocked> {
    if is_block_active(request.table, range.nth) && is_slot_empty(request.table, range.nth) {
        return part::write_member(request, range, data);
    }
    slots::write(request, range, data)
}
