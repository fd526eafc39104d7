//! Write-back: objects are copied to the backing store, many at a time. When the copies are
//! durable, the objects are freed in memory.
//!
//! ```text
//!   chosen -> pinned, copied one after another to a run for free blocks (1 MiB) -> ...
//!     -> a group of runs, each written -> sync -> entry locked, compared, pointed at the store
//!        by a thread of the group, while the groups after it are copied and written
//! ```

use super::commit::{Committer, PendingObject, WriteRun, WrittenBack};
use super::select::{Candidates, Selection};
use crate::backing::{bytes_stored, checksum};
use crate::block::BlockObject;
use crate::job::{DamagedLeft, JobKind};
use crate::layout::Item;
use crate::policy::{JOB_STACK, WRITE_GROUPS_IN_FLIGHT, WRITE_RUN_BLOCKS_MAX};
use crate::slot::{BACKING_GRAIN, BackingPlace, Flags};
use crate::table::Table;
use crate::{Error, SLOT_BYTES};
use rustix::io::Errno;
use rustix_futex_sync::Mutex;
use std::collections::VecDeque;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::{self, Scope, ScopedJoinHandle};
use zsmalloc::Content;

/// The half of the job that copies objects.
struct WritebackJob<'s, 't: 's> {
    committer: &'t Committer<'t>,
    /// The number of objects that the job has visited.
    looked_at: u64,
    damaged: DamagedLeft,
    /// The run that objects are being copied to.
    open: Option<WriteRun>,
    /// The full runs of the current group.
    group: Vec<WriteRun>,
    scope: &'s Scope<'s, 't>,
    /// The threads of earlier groups.
    before: VecDeque<ScopedJoinHandle<'s, ()>>,
}

/// Writes back the selected items.
pub(crate) fn write_back(table: &Table, selection: &Selection) -> Result<WrittenBack, Error> {
    let store = table.store.as_ref().ok_or(Error::NoBacking)?;
    store.check_not_left_behind()?;
    let job = table.jobs.begin(JobKind::WriteBack, 0)?;
    let committer = &Committer::new(table, &job, store, selection);
    let (ended, damaged) = thread::scope(|scope| {
        let (open, group) = (None, Vec::new());
        let (looked_at, damaged) = (0, DamagedLeft::default());
        let before = VecDeque::with_capacity(WRITE_GROUPS_IN_FLIGHT);
        WritebackJob { committer, looked_at, damaged, open, group, scope, before }.all()
    });
    match committer.fault().or(ended.err()) {
        Some(error) => Err(error),
        None => Ok(WrittenBack { damaged, ..committer.done() }),
    }
}

impl WritebackJob<'_, '_> {
    /// Runs the job. Returns the error that ended the job early, if any, and the damaged objects.
    fn all(mut self) -> (Result<(), Error>, DamagedLeft) {
        let Committer { table, job, selection, .. } = *self.committer;
        let layout = table.layout;
        let matches = |item, len, flags| selection.matches_kind(layout, item, len, flags);
        let ended = Candidates::new(table, matches).and_then(|mut candidates| {
            candidates.try_for_each(|entry| {
                self.looked_at += 1;
                job.report_progress(self.looked_at)?;
                let slot = layout.slot_of(entry);
                self.copy_object(entry).or_else(|error| self.damaged.note(error, slot))
            })
        });
        self.close_run();
        self.submit_group();
        (ended, self.damaged)
    }

    /// Copies the object of an entry to the open run. An error ends the job.
    fn copy_object(&mut self, entry: u32) -> Result<(), Error> {
        let Committer { table, selection, .. } = *self.committer;
        let layout = table.layout;
        let item = layout.item_of(entry);
        let pin = table.pool.read(entry);
        let Content::Object { bytes, flags } = pin.content() else { return Ok(()) };
        let flags = Flags::from_bits(flags);
        if !selection.matches_object(layout, item, bytes, flags) {
            return Ok(());
        }
        table.verify(entry, pin.content(), pin.row())?;
        let slots = match item {
            Item::Slot(_) => 1,
            Item::Block(block) => {
                let stored = BlockObject::new(bytes, flags, layout.slots());
                stored.ok_or(table.damaged(block))?.members.count()
            }
        };
        let (room, priority) = (bytes_stored(bytes.len()), flags.priority());
        let has_room =
            |run: &&mut WriteRun| run.bytes.len() + room <= run.blocks.len() * SLOT_BYTES;
        let Some(run) = self.open.as_mut().filter(has_room) else {
            let seen = bytes.len();
            drop(pin);
            self.close_run();
            self.open_run(bytes_stored(seen))?;
            return self.copy_object(entry);
        };
        let grain = (run.blocks.start * SLOT_BYTES + run.bytes.len()) / BACKING_GRAIN;
        let place = BackingPlace { grain: grain as u64, len: bytes.len(), slots, priority };
        run.bytes.extend(bytes);
        run.bytes.extend(&checksum(entry, priority, bytes).to_le_bytes());
        run.bytes.fill_up(BACKING_GRAIN);
        run.pending.push(PendingObject { entry, flags, place });
        Ok(())
    }

    /// Opens a run of free blocks for at least `least` bytes. The write-back limit can reduce the
    /// length of the run.
    fn open_run(&mut self, least: usize) -> Result<(), Error> {
        let Committer { store, limit, .. } = *self.committer;
        if self.group.len() >= limit.batch() as usize {
            self.submit_group();
        }
        if let Some(Error::Backing { errno, .. }) = self.committer.fault()
            && errno == Errno::NOSPC.raw_os_error()
        {
            return Err(Error::BackingFull);
        }
        let bytes = self.committer.write_buffer()?;
        let charged = limit.charge(WRITE_RUN_BLOCKS_MAX as u64);
        if (charged.blocks as usize) < least.div_ceil(SLOT_BYTES) {
            limit.give_back(charged);
            return Err(Error::WritebackLimit);
        }
        let taken = store.take_blocks(least, charged.blocks as usize);
        let blocks = taken.as_ref().map_or(0, Range::len);
        let [charge, rest] = charged.split(blocks as u64);
        limit.give_back(rest);
        let blocks = taken.ok_or(Error::BackingFull)?;
        self.open = Some(WriteRun { blocks, charge, bytes, pending: Vec::new() });
        Ok(())
    }

    /// Adds the open run to the group, and releases its unused blocks.
    fn close_run(&mut self) {
        let Some(mut run) = self.open.take() else { return };
        run.bytes.fill_up(SLOT_BYTES);
        let used = run.blocks.start + run.bytes.len() / SLOT_BYTES;
        self.committer.store.return_blocks(used..run.blocks.end);
        run.blocks.end = used;
        let rest;
        [run.charge, rest] = run.charge.split(run.blocks.len() as u64);
        self.committer.limit.give_back(rest);
        self.group.push(run);
    }

    /// Starts a thread that writes and commits the group, while the job copies further objects.
    fn submit_group(&mut self) {
        if self.group.is_empty() {
            return;
        }
        if self.before.len() == WRITE_GROUPS_IN_FLIGHT
            && let Some(first) = self.before.pop_front()
        {
            first.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
        let group = Arc::new(Mutex::new(std::mem::take(&mut self.group)));
        let (its, committer) = (group.clone(), self.committer);
        let commit = move || committer.commit(std::mem::take(&mut *its.lock()));
        match thread::Builder::new().stack_size(JOB_STACK).spawn_scoped(self.scope, commit) {
            Ok(thread) => self.before.push_back(thread),
            // If no thread can be started, this thread commits the group.
            Err(_) => committer.commit(std::mem::take(&mut *group.lock())),
        }
    }
}
