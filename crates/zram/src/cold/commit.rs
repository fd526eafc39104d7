//! The second half of write-back: what was written leaves memory once it is durable and was read back.
//!
//! Each group of writes has a thread for that, beside the one that copies and writes: so one is synced while the one
//! before leaves memory, and both halves have a processor.

use super::is_untouched;
use super::place::Place;
use super::store::{SUM, Store, sum};
use super::{Which, WrittenBack};
use crate::request::Request;
use crate::table::Table;
use crate::{BLOCK, Error};
use rustix::io::Errno;
use rustix_futex_sync::Mutex;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use zsmalloc::{BesideSlot, Content};

/// An object on its way.
pub(super) struct Pending {
    pub(super) word: u32,
    pub(super) mark: u8,
    pub(super) place: Place,
    /// What was written behind it.
    pub(super) sum: u32,
}

/// Blocks that are written to.
pub(super) struct Run {
    pub(super) blocks: Range<usize>,
    /// How many of the pending objects come before those here.
    pub(super) first: usize,
}

/// What is made durable together.
#[derive(Default)]
pub(super) struct Group {
    pub(super) runs: Vec<Run>,
    pub(super) pending: Vec<Pending>,
}

impl Group {
    /// The objects of each run.
    fn by_run(&self) -> impl Iterator<Item = (&Run, &[Pending])> {
        let ends = self.runs.iter().skip(1).map(|run| run.first).chain([self.pending.len()]);
        self.runs.iter().zip(ends).map(|(run, end)| (run, &self.pending[run.first..end]))
    }
}

/// Has the system bring runs to disk, or drop from its cache what it has brought there. Once for some of them: it may
/// wait for every processor.
pub(super) fn forget(store: &Store, runs: &[Run]) {
    let (start, end) =
        (runs.iter().map(|run| run.blocks.start), runs.iter().map(|run| run.blocks.end));
    if let (Some(start), Some(end)) = (start.min(), end.max()) {
        let bytes = |blocks: usize| (blocks * BLOCK) as u64;
        store.backing.forget(bytes(start), bytes(end - start));
    }
}

/// Has objects leave memory, and keeps count of what became of the job.
pub(super) struct Committer<'t, E: BesideSlot> {
    table: &'t Table<E>,
    store: &'t Arc<Store>,
    which: Which,
    done: Mutex<WrittenBack>,
    /// The last fault; it does not end the job.
    fault: Mutex<Option<Error>>,
}

impl<'t, E: BesideSlot> Committer<'t, E> {
    pub(super) fn new(table: &'t Table<E>, store: &'t Arc<Store>, which: Which) -> Self {
        let (done, fault) = (Mutex::new(WrittenBack::default()), Mutex::new(None));
        Committer { table, store, which, done, fault }
    }

    /// What left memory.
    pub(super) fn done(&self) -> WrittenBack {
        *self.done.lock()
    }

    pub(super) fn fault(&self) -> Option<Error> {
        self.fault.lock().clone()
    }

    /// Takes note of a fault of the store.
    pub(super) fn note(&self, word: u32, error: &io::Error) {
        self.store.counts.failed_writes.fetch_add(1, Relaxed);
        let slot = self.table.shared.layout.slot_of(word);
        *self.fault.lock() = Some(Error::backing("write", slot, error));
    }

    /// Has what was written be durable, and then leave memory.
    pub(super) fn commit(&self, group: &Group) {
        match (self.store.backing.sync(), group.pending.first()) {
            (Ok(()), _) => self.commit_durable(group),
            (Err(error), Some(first)) => self.note(first.word, &error),
            (Err(_), None) => {}
        }
        for run in &group.runs {
            self.store.give_back(run.blocks.clone());
        }
        forget(self.store, &group.runs);
    }

    /// Reads back what is durable, and has it leave memory.
    fn commit_durable(&self, group: &Group) {
        let (mut read, mut done) = (Vec::new(), WrittenBack::default());
        for (run, here) in group.by_run() {
            let Some(first) = here.first() else { continue };
            read.resize(run.blocks.len() * BLOCK, 0);
            let offset = (run.blocks.start * BLOCK) as u64;
            if let Err(error) = self.store.backing.read_at(&mut read, offset) {
                self.note(first.word, &error);
                continue;
            }
            for (nth, pending) in here.iter().enumerate() {
                // The next one comes from memory while this one is compared.
                if let Some(next) = here.get(nth + 1) {
                    self.table.pool.prefetch(next.word);
                }
                self.commit_object(pending, &read, offset, &mut done);
            }
        }
        let mut all = self.done.lock();
        all.slots += done.slots;
        all.bytes += done.bytes;
        all.touched += done.touched;
    }

    /// Has an object leave memory, if it is what lies in the store (X1, X4).
    fn commit_object(&self, pending: &Pending, read: &[u8], offset: u64, done: &mut WrittenBack) {
        let Pending { word, mark, place, sum: written } = *pending;
        let at = (place.offset() - offset) as usize;
        let (bytes, there) = read[at..].split_at(place.len);
        let request = Request::begin(self.table);
        let locked = self.table.pool.lock_existing(word);
        let untouched =
            locked.filter(|locked| is_untouched(locked.content(), bytes, mark, self.which));
        // The sum was made of what was copied: of bytes that are the same it need not be made again.
        let is_sum = there[..SUM] == written.to_le_bytes();
        let Some(locked) = untouched.filter(|_| is_sum) else {
            match is_sum && sum(word, place.priority, bytes) == written {
                true => done.touched += 1,
                false => self.note(word, &Errno::IO.into()),
            }
            return;
        };
        self.store.put(place);
        let whose = self.table.shared.layout.whose(word);
        let before = self.table.held(whose, locked.content());
        let payload = place.to_payload();
        locked.set_inline(payload);
        request.share.changed(before, self.table.held(whose, Content::Inline(payload)));
        done.bytes += place.len as u64;
        done.slots += u64::from(place.slots);
    }
}
