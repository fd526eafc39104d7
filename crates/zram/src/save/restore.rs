//! Restores a device from a saved file. Several threads take turns to read a chunk, and each thread
//! loads the chunks that it read. A restore spends most of its time in page faults on new memory.
//! With several threads, these faults are handled in parallel.

use super::format::{ALIGN, CHUNK_HEAD_BYTES, CHUNK_MAX};
use super::load::Loader;
use super::options::add_range;
use super::read::{Chunk, SavedReader};
use crate::job::{Job, JobKind};
use crate::layout::byte_range;
use crate::policy::{JOB_STACK, RESTORE_THREADS_MAX};
use crate::table::{Table, is_unused};
use crate::try_vec::with_room;
use crate::{Error, SLOT_BYTES, request};
use rustix_futex_sync::Mutex;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::thread;

/// The offset of the dictionaries in a file, in bytes.
const DICTIONARIES: u64 = super::format::FILE_HEAD_BYTES as u64;
/// The maximum length of a chunk with its padding, in bytes.
const CHUNK_ROOM: usize = CHUNK_HEAD_BYTES + CHUNK_MAX + ALIGN;

/// How a restore handles a damaged file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Damage {
    /// The file is rejected, and the device remains empty.
    #[default]
    Refuse,
    /// The intact chunks are restored, and the ranges of the damaged chunks are listed.
    Salvage,
}

/// The result of a restore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// The number of slots whose data were restored.
    pub slots: u64,
    /// The ranges of the device whose data were lost, in bytes. Lost ranges read as zeros.
    pub lost: Vec<Range<u64>>,
}

/// Restores the device from `from`. `path` is the name of the file in errors.
pub(crate) fn restore(
    table: &Table,
    from: &mut (dyn Read + Send),
    path: &Path,
    damage: Damage,
) -> Result<Restored, Error> {
    let job = table.jobs.begin(JobKind::Restore, table.disksize / SLOT_BYTES as u64)?;
    if !is_unused(table) {
        return Err(Error::NotEmpty);
    }
    let reader = SavedReader::new(from, path)?;
    let (disksize, needed) = (table.disksize, reader.head.disksize);
    if disksize < needed {
        return Err(Error::TooSmall { disksize, needed });
    }
    let (order, algorithms) = (reader.head.order, reader.algorithms.clone());
    let loader = || Ok((Loader::new(table, order, &algorithms)?, with_room(CHUNK_ROOM)?));
    let first = loader().map_err(|error| match error {
        // The codec rejects the bytes as a dictionary.
        Error::Codec(source) => reader.damaged(DICTIONARIES, source.to_string()),
        error => error,
    })?;
    let restore = Mutex::new(Restore::new(reader, damage, &job));
    thread::scope(|scope| {
        let processors = thread::available_parallelism().map_or(1, |count| count.get());
        for _ in 1..processors.min(RESTORE_THREADS_MAX) {
            // If a thread can't be started, or can't allocate its buffers, the restore continues
            // with fewer threads.
            let other =
                || loader().into_iter().for_each(|loader| load_chunks(&restore, &job, loader));
            let _ = thread::Builder::new().stack_size(JOB_STACK).spawn_scoped(scope, other);
        }
        load_chunks(&restore, &job, first);
    });
    restore.into_inner().end().inspect_err(|_| {
        // The device was empty before the restore, so it is emptied again. The device of an
        // abandoned job is not changed, because another job may use it already.
        if !job.is_given_up() {
            let _ = request::discard(table, 0, disksize);
        }
    })
}

/// The state that the restoring threads share.
struct Restore<'r> {
    reader: SavedReader<'r>,
    damage: Damage,
    job: &'r Job<'r>,
    /// Whether all chunks have been read.
    is_at_end: bool,
    slots: u64,
    /// The lost byte ranges of the device, in any order.
    lost: Vec<Range<u64>>,
    /// The failure that is first in the file, and the offset of this failure.
    failure: Option<(u64, Error)>,
}

fn load_chunks(
    restore: &Mutex<Restore<'_>>,
    job: &Job<'_>,
    (mut loader, mut bytes): (Loader<'_>, Vec<u8>),
) {
    loop {
        let mut turn = restore.lock();
        let Some(chunk) = turn.next(&mut bytes) else { return };
        drop(turn);
        let done = loader.load_chunk(&chunk);
        if done.is_err() && !job.is_given_up() {
            loader.discard_chunk(&chunk);
        }
        restore.lock().note(&chunk, done);
    }
}

impl<'r> Restore<'r> {
    fn new(reader: SavedReader<'r>, damage: Damage, job: &'r Job<'r>) -> Self {
        Restore { reader, damage, job, is_at_end: false, slots: 0, lost: Vec::new(), failure: None }
    }

    /// Reads the next chunk into `bytes` and returns it, or returns `None` at the end or after a
    /// failure.
    fn next<'b>(&mut self, bytes: &'b mut Vec<u8>) -> Option<Chunk<'b>> {
        if self.is_at_end || self.failure.is_some() {
            return None;
        }
        // The chunks that other threads are still loading precede this failure in the file. A
        // failure of such an earlier chunk has priority.
        self.read_next(bytes).map_err(|wrong| self.fail(u64::MAX, wrong)).ok().flatten()
    }

    fn read_next<'b>(&mut self, bytes: &'b mut Vec<u8>) -> Result<Option<Chunk<'b>>, Error> {
        let (slots, reached) = self.reader.slots();
        self.job.report_progress(reached.into())?;
        let next = match self.damage {
            Damage::Refuse => self.reader.next(bytes),
            Damage::Salvage => self.reader.next_intact(bytes),
        };
        // If the job was abandoned during the read, another job may use the device already.
        self.job.check_cancelled()?;
        let next = next?;
        self.is_at_end = next.is_none();
        // With `Damage::Refuse`, this range is always empty.
        self.add_lost(reached..next.as_ref().map_or(slots, |chunk| chunk.slots.start));
        Ok(next)
    }

    /// Records the result of loading a chunk.
    fn note(&mut self, chunk: &Chunk<'_>, done: Result<u64, Error>) {
        match done {
            Ok(slots) => {
                self.slots += slots;
                chunk.lost().for_each(|slot| self.add_lost(slot..slot + 1));
            }
            Err(error @ Error::Corrupt { .. }) => match self.damage {
                Damage::Salvage => self.add_lost(chunk.slots.clone()),
                Damage::Refuse => {
                    let reason = format!("in this chunk, {error}");
                    self.fail(chunk.offset, self.reader.damaged(chunk.offset, reason));
                }
            },
            Err(error) => self.fail(chunk.offset, error),
        }
    }

    fn add_lost(&mut self, slots: Range<u32>) {
        // A hostile file can claim a lost range for every second slot.
        if self.lost.try_reserve(1).is_err() {
            let bytes = (self.lost.len() + 1) * size_of::<Range<u64>>();
            return self.fail(u64::MAX, Error::NoBuffer { bytes });
        }
        if !slots.is_empty() {
            add_range(&mut self.lost, byte_range(&slots), usize::MAX);
        }
    }

    fn fail(&mut self, offset: u64, failure: Error) {
        if self.failure.as_ref().is_none_or(|(first, _)| offset < *first) {
            self.failure = Some((offset, failure));
        }
    }

    fn end(mut self) -> Result<Restored, Error> {
        if let Some((_, failure)) = self.failure {
            return Err(failure);
        }
        self.lost.sort_unstable_by_key(|range| range.start);
        self.lost.dedup_by(|range, before| {
            let goes_on = before.end == range.start;
            before.end = if goes_on { range.end } else { before.end };
            goes_on
        });
        Ok(Restored { slots: self.slots, lost: self.lost })
    }
}
