//! The second half of write-back. The copied objects are written to the store. Objects that are
//! durable in the store are freed in memory.
//!
//! Each group of writes has its own thread, which writes and commits the group while the job's
//! thread copies further objects.

use super::select::Selection;
use crate::backing::{LimitCharge, Store, WritebackLimit};
use crate::job::{DamagedLeft, Job};
use crate::policy::WRITE_RUN_BLOCKS_MAX;
use crate::request::Request;
use crate::slot::{BackingPlace, Flags, Payload};
use crate::table::{Table, weight_of};
use crate::try_vec::with_room;
use crate::{Error, SLOT_BYTES};
use rustix_futex_sync::Mutex;
use std::io;
use std::ops::{Add, Range};
use std::sync::Arc;
use zsmalloc::Content;

/// The result of a write-back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WrittenBack {
    /// The number of slots whose data were freed in memory.
    pub slots: u64,
    /// The size of the objects that were freed in memory, in bytes.
    pub bytes: u64,
    /// The number of 4 KiB blocks that were written.
    pub blocks: u64,
    /// The number of objects that remain in memory because they were accessed during the
    /// write-back.
    pub touched: u64,
    /// The damaged objects, which remain in memory.
    pub damaged: DamagedLeft,
}

impl Add for WrittenBack {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        WrittenBack {
            slots: self.slots + other.slots,
            bytes: self.bytes + other.bytes,
            blocks: self.blocks + other.blocks,
            touched: self.touched + other.touched,
            damaged: self.damaged.and(other.damaged),
        }
    }
}

/// The bytes of one write to the store. The buffer begins at a page boundary, as writes with
/// O_DIRECT require.
pub(super) struct WriteBuffer {
    bytes: Vec<u8>,
    start: usize,
}

impl WriteBuffer {
    /// Allocates a buffer that is large enough for any run.
    fn new() -> Result<Self, Error> {
        let mut bytes: Vec<u8> = with_room((WRITE_RUN_BLOCKS_MAX + 1) * SLOT_BYTES)?;
        let start = bytes.as_ptr().align_offset(SLOT_BYTES).min(SLOT_BYTES);
        bytes.resize(start, 0);
        Ok(WriteBuffer { bytes, start })
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Pads the bytes with zeros to a multiple of `unit`.
    pub(super) fn fill_up(&mut self, unit: usize) {
        self.bytes.resize(self.start + self.len().next_multiple_of(unit), 0);
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn clear(&mut self) {
        self.bytes.truncate(self.start);
    }
}

/// An object that was copied but is not committed yet.
pub(super) struct PendingObject {
    pub(super) entry: u32,
    pub(super) flags: Flags,
    pub(super) place: BackingPlace,
}

/// The blocks that one write call writes, and the objects in these blocks.
pub(super) struct WriteRun {
    pub(super) blocks: Range<usize>,
    /// The charge of the blocks to the write-back limit.
    pub(super) charge: LimitCharge,
    pub(super) bytes: WriteBuffer,
    /// The objects in the blocks.
    pub(super) pending: Vec<PendingObject>,
}

/// Commits groups of writes, and collects the job's results.
pub(super) struct Committer<'t> {
    pub(super) table: &'t Table,
    pub(super) job: &'t Job<'t>,
    pub(super) store: &'t Arc<Store>,
    pub(super) limit: &'t WritebackLimit,
    pub(super) selection: &'t Selection,
    done: Mutex<WrittenBack>,
    /// The last failure of the store. A failure does not end the job.
    fault: Mutex<Option<Error>>,
    /// Buffers of earlier runs, for reuse.
    spare_buffers: Mutex<Vec<WriteBuffer>>,
}

impl<'t> Committer<'t> {
    pub(super) fn new(
        table: &'t Table,
        job: &'t Job<'t>,
        store: &'t Arc<Store>,
        selection: &'t Selection,
    ) -> Self {
        let (done, fault, spare_buffers) = Default::default();
        let limit = &*table.writeback;
        Committer { table, job, store, limit, selection, done, fault, spare_buffers }
    }

    /// Returns the results so far.
    pub(super) fn done(&self) -> WrittenBack {
        *self.done.lock()
    }

    pub(super) fn fault(&self) -> Option<Error> {
        self.fault.lock().clone()
    }

    /// Returns a buffer for a run: the buffer of an earlier run, or a new one.
    pub(super) fn write_buffer(&self) -> Result<WriteBuffer, Error> {
        let spare = self.spare_buffers.lock().pop();
        spare.map_or_else(WriteBuffer::new, Ok)
    }

    /// Counts a failed write, and records the failure as the last one.
    fn note(&self, run: &WriteRun, error: &io::Error) {
        self.store.count(|stat| stat.failed_writes += 1);
        let slot = run.pending.first().map_or(0, |of| self.table.layout.slot_of(of.entry));
        *self.fault.lock() = Some(Error::backing("write", slot, error));
    }

    /// Writes a group of runs, makes them durable, and commits them. Objects that can't be written
    /// or committed remain in memory.
    pub(super) fn commit(&self, mut runs: Vec<WriteRun>) {
        let mut done = WrittenBack::default();
        let failed = self.store.failed_syncs();
        let written: Vec<_> = runs.iter().map(|run| self.write(run, &mut done)).collect();
        let written = || runs.iter().zip(&written).filter_map(|(run, &is)| is.then_some(run));
        match written().next().map(|first| (first, self.store.sync_since(failed))) {
            Some((_, Ok(()))) => written().for_each(|run| self.commit_run(run, &mut done)),
            Some((first, Err(error))) => self.note(first, &error),
            None => {}
        }
        let mut all = self.done.lock();
        *all = *all + done;
        drop(all);
        for run in &mut runs {
            self.store.return_blocks(run.blocks.clone());
            run.bytes.clear();
        }
        self.spare_buffers.lock().extend(runs.into_iter().map(|run| run.bytes));
    }

    /// Writes a run. Returns true if the write succeeded.
    fn write(&self, run: &WriteRun, done: &mut WrittenBack) -> bool {
        let blocks = run.blocks.len() as u64;
        let written = self
            .store
            .backing
            .write_at(run.bytes.as_slice(), (run.blocks.start * SLOT_BYTES) as u64);
        match &written {
            Ok(()) => {
                self.store.count(|stat| stat.bd_writes += blocks);
                done.blocks += blocks;
            }
            Err(error) => {
                self.limit.give_back(run.charge);
                self.note(run, error);
            }
        }
        written.is_ok()
    }

    /// Commits the objects of a durable run.
    fn commit_run(&self, run: &WriteRun, done: &mut WrittenBack) {
        let Some(_leaving) = self.job.commit_permit() else { return };
        for (nth, pending) in run.pending.iter().enumerate() {
            // The next object is fetched into the cache while the current object is compared.
            if let Some(next) = run.pending.get(nth + 1) {
                self.table.pool.prefetch(next.entry);
            }
            let at = pending.place.offset() as usize - run.blocks.start * SLOT_BYTES;
            let written = &run.bytes.as_slice()[at..at + pending.place.len];
            self.commit_object(pending, written, done);
        }
    }

    /// Sets an object's entry to the place in the store, if the entry still contains the object
    /// that was written (zr-X1, zr-X4).
    fn commit_object(&self, pending: &PendingObject, written: &[u8], done: &mut WrittenBack) {
        let PendingObject { entry, flags, place } = *pending;
        let request = Request::begin(self.table);
        let locked = self.table.pool.lock_existing(entry);
        let seen = Content::Object { bytes: written, flags: flags.bits() };
        let which = self.selection.which;
        let Some(locked) = locked.filter(|now| which.is_unchanged(now.content(), seen)) else {
            done.touched += 1;
            return;
        };
        self.store.add_object(place);
        let item = self.table.layout.item_of(entry);
        let before = weight_of(self.table, item, locked.content());
        let payload = Payload::from(place).bits();
        locked.set_payload(payload);
        request.shard.changed(before, weight_of(self.table, item, Content::Inline(payload)));
        done.bytes += place.len as u64;
        done.slots += u64::from(place.slots);
    }
}
