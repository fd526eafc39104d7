//! Write-back: objects go to the backing store, many at a time, and leave memory when they are
//! durable there.
//!
//! ```text
//!   chosen -> pinned, copied behind one another to a run for free blocks (1 MiB) -> ... a group of runs
//!     -> each run written -> sync -> entry locked, compared with it, swung   by a thread of the group,
//!                                                                           while those after it are copied and written
//! ```

use super::commit::{Committer, PendingObject, WRITE_RUN_BLOCKS_MAX, WriteRun};
use super::limit::WritebackLimit;
use super::place::{BACKING_GRAIN, BackingPlace};
use super::select::Candidates;
use super::store::{Store, bytes_stored, checksum};
use super::{DamagedLeft, Job, JobKind, Selection};
use crate::blocks::BlockObject;
use crate::layout::Item;
use crate::slot::PRIORITY;
use crate::table::Table;
use crate::{Error, SLOT_BYTES};
use rustix::io::Errno;
use rustix_futex_sync::Mutex;
use std::collections::VecDeque;
use std::ops::{Add, Range};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::{self, Scope, ScopedJoinHandle};
use zsmalloc::Content;

/// Most groups of runs that are written, or leave memory, while one more is copied.
const WRITE_GROUPS_IN_FLIGHT: usize = 4;

/// Bytes of their threads' stacks.
const STACK: usize = 512 << 10;

/// What was written back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WrittenBack {
    /// Slots that left memory.
    pub slots: u64,
    /// Bytes of objects that did.
    pub bytes: u64,
    /// Blocks of 4 KiB that were written.
    pub blocks: u64,
    /// Objects that were touched meanwhile, and so stay in memory.
    pub touched: u64,
    /// Objects that are damaged, and so stay in memory.
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

struct WritebackJob<'s, 't: 's> {
    table: &'t Table,
    job: &'s Job<'t>,
    /// Objects that were looked at.
    looked_at: u64,
    damaged: DamagedLeft,
    store: &'t Arc<Store>,
    limit: &'t WritebackLimit,
    selection: &'t Selection,
    /// What is copied to at the moment.
    open: Option<WriteRun>,
    /// What was copied before, and is to be made durable with it.
    group: Vec<WriteRun>,
    committer: &'s Committer<'t>,
    scope: &'s Scope<'s, 't>,
    /// The threads of the groups before.
    before: VecDeque<ScopedJoinHandle<'s, ()>>,
}

impl Table {
    /// Writes back what is chosen.
    pub(crate) fn write_back_all(
        &self,
        selection: &Selection,
        limit: &WritebackLimit,
    ) -> Result<WrittenBack, Error> {
        let store = self.shared.store.as_ref().ok_or(Error::NoBacking)?;
        store.check_not_left_behind()?;
        let job = self.shared.jobs.begin(JobKind::WriteBack, 0)?;
        let committer = &Committer::new(self, &job, store, limit, selection.which);
        let (ended, damaged) = thread::scope(|scope| {
            let work = WritebackJob {
                table: self,
                job: &job,
                looked_at: 0,
                damaged: DamagedLeft::default(),
                store,
                limit,
                selection,
                open: None,
                group: Vec::new(),
                committer,
                scope,
                before: VecDeque::with_capacity(WRITE_GROUPS_IN_FLIGHT),
            };
            work.all()
        });
        match committer.fault().or(ended.err()) {
            Some(error) => Err(error),
            None => Ok(WrittenBack { damaged, ..committer.done() }),
        }
    }
}

impl WritebackJob<'_, '_> {
    /// Writes all; what ended it early, and what is damaged.
    fn all(mut self) -> (Result<(), Error>, DamagedLeft) {
        let (table, layout, selection) = (self.table, self.table.shared.layout, self.selection);
        let takes = |item, len, flags| selection.matches_kind(layout, item, len, flags);
        let mut candidates = match Candidates::new(table, takes) {
            Ok(candidates) => candidates.peekable(),
            Err(error) => return (Err(error), self.damaged),
        };
        let ended = std::iter::from_fn(|| {
            let entry = candidates.next()?;
            // The next one comes from memory while this one is copied.
            candidates.peek().inspect(|&&next| table.pool.prefetch(next));
            Some(entry)
        })
        .try_for_each(|entry| {
            self.looked_at += 1;
            self.job.report_progress(self.looked_at)?;
            let slot = layout.slot_of(entry);
            self.copy_object(entry).or_else(|error| self.damaged.note(error, slot))
        });
        self.close_run();
        self.submit_group();
        (ended, self.damaged)
    }

    /// Copies the object of an entry to the others that are to be written. An error ends the job.
    fn copy_object(&mut self, entry: u32) -> Result<(), Error> {
        let layout = self.table.shared.layout;
        let item = layout.item_of(entry);
        let pin = self.table.pool.read(entry);
        let Content::Object { bytes, flags } = pin.content() else { return Ok(()) };
        if !self.selection.matches_object(layout, item, bytes, flags) {
            return Ok(());
        }
        self.table.verify(entry, pin.content(), pin.row())?;
        let slots = match item {
            Item::Slot(_) => 1,
            Item::Block(block) => {
                let stored = BlockObject::new(bytes, flags, layout.slots());
                stored.ok_or(self.table.damaged(block))?.members.count()
            }
        };
        let (room, priority) = (bytes_stored(bytes.len()), flags & PRIORITY);
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

    /// Finds free blocks, for `least` bytes at least, as far as the limit goes.
    fn open_run(&mut self, least: usize) -> Result<(), Error> {
        if self.group.len() >= self.limit.batch() as usize {
            self.submit_group();
        }
        if let Some(Error::Backing { errno, .. }) = self.committer.fault()
            && errno == Errno::NOSPC.raw_os_error()
        {
            return Err(Error::BackingFull);
        }
        let bytes = self.committer.write_buffer()?;
        let charged = self.limit.charge(WRITE_RUN_BLOCKS_MAX as u64);
        if (charged.blocks as usize) < least.div_ceil(SLOT_BYTES) {
            self.limit.give_back(charged);
            return Err(Error::WritebackLimit);
        }
        let taken = self.store.take_blocks(least, charged.blocks as usize);
        let blocks = taken.as_ref().map_or(0, Range::len);
        let [charge, rest] = charged.split(blocks as u64);
        self.limit.give_back(rest);
        let blocks = taken.ok_or(Error::BackingFull)?;
        self.open = Some(WriteRun { blocks, charge, bytes, pending: Vec::new() });
        Ok(())
    }

    /// Has what was copied be written, and gives back what blocks there are left.
    fn close_run(&mut self) {
        let Some(mut run) = self.open.take() else { return };
        run.bytes.fill_up(SLOT_BYTES);
        let used = run.blocks.start + run.bytes.len() / SLOT_BYTES;
        self.store.return_blocks(used..run.blocks.end);
        run.blocks.end = used;
        let rest;
        [run.charge, rest] = run.charge.split(run.blocks.len() as u64);
        self.limit.give_back(rest);
        self.group.push(run);
    }

    /// Has a group be written, and leave memory, while more is copied.
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
        match thread::Builder::new().stack_size(STACK).spawn_scoped(self.scope, commit) {
            Ok(thread) => self.before.push_back(thread),
            // There can be no more threads now.
            Err(_) => committer.commit(std::mem::take(&mut *group.lock())),
        }
    }
}
