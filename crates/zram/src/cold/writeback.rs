//! Write-back: objects go to the backing store, many at a time, and leave memory when they are durable there.
//!
//! ```text
//!   chosen -> pinned, copied behind one another into a run of free blocks -> run written (1 MiB)
//!     -> ... a group of runs -> sync                         | by a thread of the group,
//!     -> each run read back -> word locked, compared, swung  | while the two after it are written
//! ```

use super::commit::{Committer, Group, Pending, Run, forget};
use super::limit::WritebackLimit;
use super::place::{Place, UNIT};
use super::selection::Chosen;
use super::store::{Store, room_for, sum};
use super::{Job, JobKind, Selection};
use crate::blocks::Stored;
use crate::layout::Whose;
use crate::slot::PRIORITY;
use crate::table::Table;
use crate::{BLOCK, Error};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ops::{Add, Range};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, Scope, ScopedJoinHandle};
use zsmalloc::{BesideSlot, Content};

/// Most blocks that are written at once.
const RUN: usize = 256;
/// Writes that are brought to disk while others are copied, so that the sync has little to wait for.
const STARTED: usize = 8;
/// Most groups of writes that are made durable, or leave memory, while one more is written.
const BEFORE: usize = 2;

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
}

impl Add for WrittenBack {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        WrittenBack {
            slots: self.slots + other.slots,
            bytes: self.bytes + other.bytes,
            blocks: self.blocks + other.blocks,
            touched: self.touched + other.touched,
        }
    }
}

struct Work<'s, 't: 's, E: BesideSlot> {
    table: &'t Table<E>,
    job: Job<'t>,
    /// Objects that were looked at.
    looked_at: u64,
    store: &'t Arc<Store>,
    limit: &'t WritebackLimit,
    selection: &'t Selection,
    /// Blocks that were written.
    blocks: u64,
    buffer: Vec<u8>,
    /// Where `buffer` is to be written, once there is something in it.
    open: Option<Range<usize>>,
    group: Group,
    committer: &'s Committer<'t, E>,
    scope: &'s Scope<'s, 't>,
    /// The threads of the groups that were written before.
    before: VecDeque<ScopedJoinHandle<'s, ()>>,
}

impl<E: BesideSlot> Table<E> {
    /// Writes back what is chosen.
    pub(crate) fn write_back_all(
        &self,
        selection: &Selection,
        limit: &WritebackLimit,
    ) -> Result<WrittenBack, Error> {
        let store = self.shared.store.as_ref().ok_or(Error::NoBacking)?;
        store.is_here()?;
        let job = self.shared.jobs.begin(JobKind::WriteBack, 0)?;
        let committer = &Committer::new(self, store, selection.which);
        let (blocks, ended) = thread::scope(|scope| {
            let work = Work {
                table: self,
                job,
                looked_at: 0,
                store,
                limit,
                selection,
                blocks: 0,
                buffer: Vec::with_capacity(RUN * BLOCK),
                open: None,
                group: Group::default(),
                committer,
                scope,
                before: VecDeque::with_capacity(BEFORE),
            };
            work.all()
        });
        match committer.fault().or(ended.err()) {
            Some(error) => Err(error),
            None => Ok(WrittenBack { blocks, ..committer.done() }),
        }
    }
}

impl<E: BesideSlot> Work<'_, '_, E> {
    /// Writes all; the blocks that it took, and what ended it early.
    fn all(mut self) -> (u64, Result<(), Error>) {
        let (table, layout, selection) = (self.table, self.table.shared.layout, self.selection);
        let takes = |whose, len, mark| selection.takes(layout, whose, len, mark);
        let mut chosen = Chosen::new(table, takes).peekable();
        let ended = std::iter::from_fn(|| {
            let word = chosen.next()?;
            // The next one comes from memory while this one is copied.
            chosen.peek().inspect(|&&next| table.pool.prefetch(next));
            Some(word)
        })
        .try_for_each(|word| self.add(word));
        self.close();
        self.hand_over();
        (self.blocks, ended)
    }

    /// Copies the object of a word to the others that are to be written. An error ends the job.
    fn add(&mut self, word: u32) -> Result<(), Error> {
        self.looked_at += 1;
        self.job.reached(self.looked_at)?;
        let layout = self.table.shared.layout;
        let whose = layout.whose(word);
        let pin = self.table.pool.pin(word);
        let Content::Object { bytes, mark } = pin.content() else { return Ok(()) };
        if !self.selection.takes(layout, whose, bytes.len(), mark) {
            return Ok(());
        }
        self.table.verify(word, pin.content(), pin.beside())?;
        let slots = match whose {
            Whose::Slot(_) => 1,
            Whose::Block(block) => {
                let stored = Stored::new(bytes, mark, layout.slots());
                stored.ok_or(self.table.damaged(block))?.members.count()
            }
        };
        let (room, priority) = (room_for(bytes.len()), mark & PRIORITY);
        let is_full = |run: &Range<usize>| self.buffer.len() + room > run.len() * BLOCK;
        if self.open.as_ref().is_none_or(is_full) {
            let seen = bytes.len();
            drop(pin);
            self.close();
            self.next_run(room_for(seen))?;
            return self.add(word);
        }
        let Some(run) = &self.open else { return Ok(()) };
        let unit = (run.start * BLOCK + self.buffer.len()) / UNIT;
        let place = Place { unit: unit as u64, len: bytes.len(), slots, priority };
        let end = self.buffer.len() + room;
        self.buffer.extend_from_slice(bytes);
        let sum = sum(word, priority, bytes);
        self.buffer.extend(sum.to_le_bytes());
        self.buffer.resize(end, 0);
        self.group.pending.push(Pending { word, mark, place, sum });
        Ok(())
    }

    /// Finds free blocks, for `least` bytes at least, as far as the limit goes.
    fn next_run(&mut self, least: usize) -> Result<(), Error> {
        if self.group.runs.len() >= self.limit.batch() as usize {
            self.hand_over();
        }
        if let Some(Error::Backing { errno, .. }) = self.committer.fault()
            && errno == Errno::NOSPC.raw_os_error()
        {
            return Err(Error::BackingFull);
        }
        let charged = self.limit.charge(RUN as u64);
        if (charged as usize) < least.div_ceil(BLOCK) {
            self.limit.give_back(charged);
            return Err(Error::WritebackLimit);
        }
        let taken = self.store.take(least, charged as usize);
        let blocks = taken.as_ref().map_or(0, Range::len);
        self.limit.give_back(charged - blocks as u64);
        self.open = Some(taken.ok_or(Error::BackingFull)?);
        self.group.runs.push(Run { blocks: 0..0, first: self.group.pending.len() });
        Ok(())
    }

    /// Writes what was copied. Where that fails, it stays in memory.
    fn close(&mut self) {
        let (Some(blocks), Some(run)) = (self.open.take(), self.group.runs.last_mut()) else {
            return;
        };
        self.buffer.resize(self.buffer.len().next_multiple_of(BLOCK), 0);
        let used = blocks.start..blocks.start + self.buffer.len() / BLOCK;
        self.store.give_back(used.end..blocks.end);
        self.limit.give_back((blocks.end - used.end) as u64);
        let offset = (used.start * BLOCK) as u64;
        run.blocks = used;
        let (run, written) = (run.first, self.store.backing.write_at(&self.buffer, offset));
        match written {
            Ok(()) => {
                let blocks = (self.buffer.len() / BLOCK) as u64;
                self.store.counts.writes.fetch_add(blocks, Relaxed);
                self.blocks += blocks;
                if self.group.runs.len().is_multiple_of(STARTED) {
                    forget(self.store, &self.group.runs[self.group.runs.len() - STARTED..]);
                }
            }
            Err(error) => {
                self.limit.give_back((self.buffer.len() / BLOCK) as u64);
                if let Some(&Pending { word, .. }) = self.group.pending.get(run) {
                    self.committer.note(word, &error);
                }
                self.group.pending.truncate(run);
                if let Some(Run { blocks, .. }) = self.group.runs.pop() {
                    self.store.give_back(blocks);
                }
            }
        }
        self.buffer.clear();
    }

    /// Has what was written be made durable, and leave memory, while more is written.
    fn hand_over(&mut self) {
        if self.group.runs.is_empty() {
            return;
        }
        if self.before.len() == BEFORE
            && let Some(first) = self.before.pop_front()
        {
            first.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
        let (group, committer) = (Arc::new(std::mem::take(&mut self.group)), self.committer);
        let its = group.clone();
        let thread =
            thread::Builder::new().spawn_scoped(self.scope, move || committer.commit(&its));
        match thread {
            Ok(thread) => self.before.push_back(thread),
            // There can be no more threads now.
            Err(_) => committer.commit(&group),
        }
    }
}
