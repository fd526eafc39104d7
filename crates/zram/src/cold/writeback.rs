//! Write-back: objects go to the backing store, many at a time, and leave memory when they are durable there.
//!
//! ```text
//!   chosen -> pinned, copied behind one another into a run of free blocks -> run written (1 MiB)
//!     -> ... a group of runs -> sync, while the next group is copied and written -> each run read back
//!     -> word locked, compared with it, swung
//! ```

use super::place::{Place, UNIT};
use super::selection::Chosen;
use super::store::{SUM, Store, room_for, sum};
use super::{Job, JobKind, Selection, is_untouched};
use crate::blocks::Stored;
use crate::layout::Whose;
use crate::request::Request;
use crate::slot::PRIORITY;
use crate::table::Table;
use crate::{BLOCK, Error};
use rustix::io::Errno;
use std::io;
use std::ops::{Add, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use zsmalloc::{BesideSlot, Content};

/// Most blocks that are written at once.
const RUN: usize = 256;

/// How much may be written back, and how: may change while it is.
#[derive(Debug)]
pub struct WritebackLimit {
    is_enabled: AtomicBool,
    /// Blocks of 4 KiB that may still be written.
    left: AtomicU64,
    batch: AtomicU32,
}

impl Default for WritebackLimit {
    fn default() -> Self {
        let (is_enabled, left) = (AtomicBool::new(false), AtomicU64::new(0));
        WritebackLimit { is_enabled, left, batch: AtomicU32::new(32) }
    }
}

impl WritebackLimit {
    /// Whether the limit holds.
    pub fn is_enabled(&self) -> bool {
        self.is_enabled.load(Relaxed)
    }

    /// Has the limit hold, or not.
    pub fn enable(&self, is_enabled: bool) {
        self.is_enabled.store(is_enabled, Relaxed);
    }

    /// Blocks of 4 KiB that may still be written.
    pub fn left(&self) -> u64 {
        self.left.load(Relaxed)
    }

    /// Sets what [`left`](Self::left) tells.
    pub fn set_left(&self, blocks: u64) {
        self.left.store(blocks, Relaxed);
    }

    /// Writes of 1 MiB that are made durable together.
    pub fn batch(&self) -> u32 {
        self.batch.load(Relaxed)
    }

    /// Sets what [`batch`](Self::batch) tells, 1 at least.
    pub fn set_batch(&self, writes: u32) {
        self.batch.store(writes.max(1), Relaxed);
    }

    /// Takes up to `most` blocks of what is left.
    fn charge(&self, most: u64) -> u64 {
        if !self.is_enabled() {
            return most;
        }
        let take = |left: u64| Some(left - left.min(most));
        self.left.fetch_update(Relaxed, Relaxed, take).map_or(0, |left| left.min(most))
    }

    fn give_back(&self, blocks: u64) {
        if self.is_enabled() {
            self.left.fetch_add(blocks, Relaxed);
        }
    }
}

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

/// An object on its way.
struct Pending {
    word: u32,
    mark: u8,
    place: Place,
}

/// Blocks that are written to.
struct Run {
    blocks: Range<usize>,
    /// How many of the pending objects come before those here.
    first: usize,
}

/// What is made durable together.
#[derive(Default)]
struct Group {
    runs: Vec<Run>,
    pending: Vec<Pending>,
}

struct Work<'t, E: BesideSlot> {
    table: &'t Table<E>,
    job: Job<'t>,
    /// Objects that were looked at.
    looked_at: u64,
    store: Arc<Store>,
    limit: &'t WritebackLimit,
    selection: &'t Selection,
    done: WrittenBack,
    buffer: Vec<u8>,
    /// Where `buffer` is to be written, once there is something in it.
    open: Option<Range<usize>>,
    group: Group,
    /// What was written before that, while it is made durable.
    syncing: Option<(Group, io::Result<JoinHandle<io::Result<()>>>)>,
    /// The last fault; it does not end the job.
    fault: Option<Error>,
}

impl<E: BesideSlot> Table<E> {
    /// Writes back what is chosen.
    pub(crate) fn write_back_all(
        &self,
        selection: &Selection,
        limit: &WritebackLimit,
    ) -> Result<WrittenBack, Error> {
        let store = self.shared.store.clone().ok_or(Error::NoBacking)?;
        store.is_here()?;
        let mut work = Work {
            table: self,
            job: self.shared.jobs.begin(JobKind::WriteBack, 0)?,
            store,
            limit,
            selection,
            looked_at: 0,
            done: WrittenBack::default(),
            buffer: Vec::with_capacity(RUN * BLOCK),
            open: None,
            group: Group::default(),
            syncing: None,
            fault: None,
        };
        let layout = self.shared.layout;
        let takes = |whose, len, mark| selection.takes(layout, whose, len, mark);
        let mut chosen = Chosen::new(self, takes).peekable();
        let ended = std::iter::from_fn(|| {
            let word = chosen.next()?;
            // The next one comes from memory while this one is copied.
            chosen.peek().inspect(|&&next| self.pool.prefetch(next));
            Some(word)
        })
        .try_for_each(|word| work.add(word));
        work.close();
        work.sync_group();
        work.commit_group();
        match work.fault.or(ended.err()) {
            Some(error) => Err(error),
            None => Ok(work.done),
        }
    }
}

impl<E: BesideSlot> Work<'_, E> {
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
        self.buffer.extend(sum(word, priority, bytes).to_le_bytes());
        self.buffer.resize(end, 0);
        self.group.pending.push(Pending { word, mark, place });
        Ok(())
    }

    /// Finds free blocks, for `least` bytes at least, as far as the limit goes.
    fn next_run(&mut self, least: usize) -> Result<(), Error> {
        if self.group.runs.len() >= self.limit.batch() as usize {
            self.sync_group();
        }
        if let Some(Error::Backing { errno, .. }) = &self.fault
            && *errno == Errno::NOSPC.raw_os_error()
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
                self.done.blocks += blocks;
            }
            Err(error) => {
                self.limit.give_back((self.buffer.len() / BLOCK) as u64);
                self.fail(run, &error);
                if let Some(Run { blocks, .. }) = self.group.runs.pop() {
                    self.store.give_back(blocks);
                }
            }
        }
        self.buffer.clear();
    }

    /// A fault of the store: what is pending from `first` on stays in memory.
    fn fail(&mut self, first: usize, error: &io::Error) {
        if let Some(&Pending { word, .. }) = self.group.pending.get(first) {
            self.note(word, error);
        }
        self.group.pending.truncate(first);
    }

    fn note(&mut self, word: u32, error: &io::Error) {
        self.store.counts.failed_writes.fetch_add(1, Relaxed);
        self.fault = Some(Error::backing("write", self.table.shared.layout.slot_of(word), error));
    }

    /// Has what was written be made durable while more is; what was before that leaves memory.
    fn sync_group(&mut self) {
        self.commit_group();
        if self.group.runs.is_empty() {
            return;
        }
        let (group, store) = (std::mem::take(&mut self.group), self.store.clone());
        let syncing = thread::Builder::new().spawn(move || store.backing.sync());
        self.syncing = Some((group, syncing));
    }

    /// Waits until what was written is durable, and has it leave memory.
    fn commit_group(&mut self) {
        let Some((Group { runs, mut pending }, syncing)) = self.syncing.take() else { return };
        let synced = match syncing {
            Ok(thread) => thread.join().unwrap_or_else(|_| Err(Errno::IO.into())),
            // There can be no thread now.
            Err(_) => self.store.backing.sync(),
        };
        if let (Err(error), Some(first)) = (&synced, pending.first()) {
            self.note(first.word, error);
            pending.clear();
        }
        let mut read = std::mem::take(&mut self.buffer);
        let ends: Vec<_> =
            runs.iter().skip(1).map(|run| run.first).chain([pending.len()]).collect();
        for (run, end) in runs.iter().zip(ends) {
            // None, where the sync failed.
            if let Some(here) = pending.get(run.first..end).filter(|here| !here.is_empty()) {
                read.resize(run.blocks.len() * BLOCK, 0);
                let offset = (run.blocks.start * BLOCK) as u64;
                match self.store.backing.read_at(&mut read, offset) {
                    Ok(()) => here.iter().for_each(|pending| self.commit(pending, &read, offset)),
                    Err(error) => self.note(here[0].word, &error),
                }
            }
            self.store.give_back(run.blocks.clone());
        }
        // Once for all: it may wait for every processor.
        let (start, end) =
            (runs.iter().map(|run| run.blocks.start), runs.iter().map(|run| run.blocks.end));
        if let (Some(start), Some(end)) = (start.min(), end.max()) {
            let bytes = |blocks: usize| (blocks * BLOCK) as u64;
            self.store.backing.forget(bytes(start), bytes(end - start));
        }
        read.clear();
        self.buffer = read;
    }

    /// Has an object leave memory, if it is what lies in the store (X1, X4).
    fn commit(&mut self, pending: &Pending, read: &[u8], offset: u64) {
        let Pending { word, mark, place } = *pending;
        let at = (place.offset() - offset) as usize;
        let (bytes, there) = read[at..].split_at(place.len);
        if there[..SUM] != sum(word, place.priority, bytes).to_le_bytes() {
            return self.note(word, &Errno::IO.into());
        }
        let request = Request::for_job(self.table);
        let locked = self.table.pool.lock_existing(word);
        let untouched = locked
            .filter(|locked| is_untouched(locked.content(), bytes, mark, self.selection.which));
        let Some(locked) = untouched else {
            self.done.touched += 1;
            return;
        };
        self.store.put(place);
        let whose = self.table.shared.layout.whose(word);
        let before = self.table.held(whose, locked.content());
        let payload = place.to_payload();
        locked.set_inline(payload);
        request.share.changed(before, self.table.held(whose, Content::Inline(payload)));
        self.done.bytes += place.len as u64;
        self.done.slots += u64::from(place.slots);
    }
}
