//! Writes what a device holds as a saved file.

use super::atomic_file::AtomicFile;
use super::backed_reads::{BackingReader, BlockReads};
use super::buffers::ChunkBuffers;
use super::format::{
    ALGORITHMS, ALIGN, CHUNK_HEAD_BYTES, CHUNK_MAX, ChunkHead, FILE_HEAD_BYTES, FileHead, NAME,
    RECORD_BYTES, Record, RecordKind, padding,
};
use super::options::{SaveOptions, Saved};
use crate::algorithms::Algorithm;
use crate::blocks::{BlockObject, Members};
use crate::cold::{Job, JobKind, PlaceGuard};
use crate::layout::Layout;
use crate::slot::{self, PRIORITY};
use crate::stats::Held;
use crate::stop::Blocked;
use crate::table::Table;
use crate::{Error, SLOT_BYTES};
use rustix::io::Errno;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::path::Path;
use zsmalloc::{Content, ORDER_MAX, Row};

/// Room that there must be for a block and all its slots.
const BLOCK_ROOM: usize = (2 * (SLOT_BYTES + RECORD_BYTES)) << ORDER_MAX;

/// Saves to a file, which takes its place when it is whole, if that `is_free` then.
pub(crate) fn save_file(
    table: &Table,
    path: &Path,
    options: &SaveOptions,
    is_free: &dyn Fn() -> bool,
) -> Result<Saved, Error> {
    // It lasts until the file is in its place: what begins then finds it there.
    let job = begin(table)?;
    let failed = |error: io::Error| Error::path("save to", path, &error);
    let mut file = AtomicFile::new(path).map_err(failed)?;
    let saved = Saver::new(table, &job, &mut file, options).and_then(Saver::save);
    let placed = saved.and_then(|mut saved| {
        file.sync()?;
        job.check_cancelled()?;
        if !is_free() {
            return Err(io::Error::from(Errno::EXIST).into());
        }
        saved.before = file.put_in_place(saved.is_whole())?;
        Ok(saved)
    });
    placed.map_err(|failure| {
        file.abandon();
        failure.at(path)
    })
}

/// Saves to wherever.
pub(crate) fn save_to(
    table: &Table,
    out: &mut dyn Write,
    options: &SaveOptions,
) -> Result<Saved, Error> {
    let job = begin(table)?;
    let saved = Saver::new(table, &job, out, options).and_then(Saver::save);
    saved.map_err(|failure| failure.at(Path::new("-")))
}

fn begin(table: &Table) -> Result<Job<'_>, Error> {
    table.shared.jobs.begin(JobKind::Save, table.shared.disksize / SLOT_BYTES as u64)
}

/// Why nothing was saved.
enum Failure {
    Out(io::Error),
    Device(Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Out(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Device(error)
    }
}

impl Failure {
    fn at(self, path: &Path) -> Error {
        match self {
            Failure::Out(error) => Error::path("save to", path, &error),
            Failure::Device(error) => error,
        }
    }
}

/// Why a block is begun again.
enum Retry {
    /// It was made meanwhile, and so not pinned.
    Made,
    /// It can't be read, or only with something from the backing store.
    Stopped(Blocked),
}

impl From<Blocked> for Retry {
    fn from(stop: Blocked) -> Self {
        Retry::Stopped(stop)
    }
}

/// Whether a block's object has the slots that are live. One that memory damaged would have all the
/// file be refused.
fn holds_members(bytes: &[u8], flags: u8, layout: Layout, live: Members) -> bool {
    let stored = BlockObject::new(bytes, flags, layout.slots());
    let members = stored.filter(|_| bytes.len() <= layout.block_bytes()).map(|of| of.members);
    members.is_some_and(|members| live.without(members) == Members::default())
}

/// A save under way.
struct Saver<'t> {
    table: &'t Table,
    job: &'t Job<'t>,
    out: &'t mut dyn Write,
    options: &'t SaveOptions,
    reader: BackingReader,
    id: u64,
    saved: Saved,
    number: u32,
    /// Where the chunk begins.
    first: u32,
    records: Vec<u8>,
    objects: Vec<u8>,
    /// Whether the two are kept for the next save.
    are_kept: bool,
}

impl<'t> Saver<'t> {
    /// All memory that it takes is made here.
    fn new(
        table: &'t Table,
        job: &'t Job<'t>,
        out: &'t mut dyn Write,
        options: &'t SaveOptions,
    ) -> Result<Self, Failure> {
        let patience = options.patience.filter(|_| table.shared.store.is_some());
        let saved = Saved::new()?;
        let (ChunkBuffers { records, objects }, are_kept) = table.shared.save_buffers.take()?;
        Ok(Saver {
            table,
            job,
            out,
            options,
            reader: BackingReader::new(patience),
            id: RandomState::new().build_hasher().finish(),
            saved,
            number: 0,
            first: 0,
            records,
            objects,
            are_kept,
        })
    }

    fn save(mut self) -> Result<Saved, Failure> {
        let mut reads = BlockReads::new(self.table.shared.layout)?;
        self.header()?;
        let (table, layout) = (self.table, self.table.shared.layout);
        let mut blocks = table.blocks_from(0).peekable();
        while let Some(block) = blocks.next() {
            // The next one comes from memory while this one is copied.
            blocks.peek().inspect(|&&next| table.pool.prefetch(layout.first_entry(next)));
            self.add_block(block, &mut reads)?;
        }
        let end = (self.table.shared.disksize / SLOT_BYTES as u64) as u32;
        if !self.records.is_empty() || self.first < end {
            self.finish_chunk(end)?;
        }
        if !self.saved.is_whole() {
            Record::lost(0, self.saved.lost_slots).encode(&mut self.records);
        }
        self.write_chunk(end)?;
        self.job.report_progress(end.into())?;
        self.out.flush()?;
        Ok(std::mem::take(&mut self.saved))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.saved.bytes += bytes.len() as u64;
        Ok(self.out.write_all(bytes)?)
    }

    fn header(&mut self) -> Result<(), Failure> {
        let shared = &self.table.shared;
        let of = |algorithm: &Option<Algorithm>| {
            let Some(Algorithm { codec, params }) = algorithm else { return Default::default() };
            let mut name = [0; NAME];
            name[..codec.name().len()].copy_from_slice(codec.name().as_bytes());
            (name, params.dictionary.as_ref().map_or(0, |of| of.bytes().len() as u32))
        };
        let algorithms: [_; ALGORITHMS] = shared.algorithms.each_ref().map(of);
        let dictionaries = || {
            let params = shared.algorithms.iter().flatten().map(|Algorithm { params, .. }| params);
            params.filter_map(|params| Some(params.dictionary.as_ref()?.bytes()))
        };
        let (mut sum, mut bytes) = (crc32fast::Hasher::new(), FILE_HEAD_BYTES + size_of::<u32>());
        for dictionary in dictionaries() {
            sum.update(dictionary);
            bytes += dictionary.len();
        }
        let (disksize, order) = (shared.disksize, shared.layout.order());
        let head = FileHead { bytes: bytes as u32, id: self.id, disksize, order, algorithms };
        self.write(&head.encode())?;
        dictionaries().try_for_each(|dictionary| self.write(dictionary))?;
        self.write(&sum.finalize().to_le_bytes())?;
        self.write(&[0; ALIGN][..padding(bytes)])
    }

    /// Adds a block, and its slots.
    fn add_block(&mut self, block: u32, reads: &mut BlockReads) -> Result<(), Failure> {
        let layout = self.table.shared.layout;
        if self.records.len() + self.objects.len() + BLOCK_ROOM > CHUNK_MAX {
            self.finish_chunk(layout.first_slot(block))?;
        }
        let (records, objects) = (self.records.len(), self.objects.len());
        while let Err(again) = self.add_block_once(block, reads) {
            self.records.truncate(records);
            self.objects.truncate(objects);
            match again {
                Retry::Made => {}
                Retry::Stopped(Blocked::OnBacking(guard)) => self.read_object(guard, reads)?,
                Retry::Stopped(Blocked::Failed(error)) => return Err(error.into()),
            }
        }
        reads.clear();
        Ok(())
    }

    /// Reads an object back, or takes note that it can't be read.
    fn read_object(&self, guard: PlaceGuard, reads: &mut BlockReads) -> Result<(), Error> {
        let slot = self.table.shared.layout.slot_of(guard.entry);
        let (of, buffer) = ((guard.entry, guard.place), reads.spare_for(guard.place.len));
        match self.reader.read(guard, slot, buffer, self.job) {
            Ok(read_back) => reads.read_back.push(read_back),
            Err((error, buffer)) if self.options.skips(&error) => reads.note_unread(of, buffer),
            Err((error, _)) => return Err(error),
        }
        Ok(())
    }

    /// What an entry holds that is locked; `None` if that can't be read, and is left out.
    fn resolve<'c>(
        &self,
        entry: u32,
        content: Content<'c>,
        row: Option<Row<'_>>,
        reads: &'c BlockReads,
    ) -> Result<Option<Content<'c>>, Retry> {
        match self.table.resolve(entry, content, row, &reads.read_back) {
            Ok(content) => Ok(Some(content)),
            Err(Blocked::OnBacking(guard)) if reads.is_unread(&guard) => Ok(None),
            Err(Blocked::Failed(error)) if self.options.skips(&error) => Ok(None),
            Err(stop) => Err(stop.into()),
        }
    }

    fn add_block_once(&mut self, block: u32, reads: &BlockReads) -> Result<(), Retry> {
        let (table, layout) = (self.table, self.table.shared.layout);
        let first = layout.first_slot(block);
        let (mut live, mut lost) = (Members::default(), Members::default());
        let block_pin = layout.has_blocks().then(|| table.pool.read(layout.block_entry(block)));
        if let Some(pin) = &block_pin {
            let entry = layout.block_entry(block);
            match self.resolve(entry, pin.content(), pin.row(), reads)? {
                Some(Content::Object { bytes, flags }) => {
                    live = table.live_members(block);
                    if holds_members(bytes, flags, layout, live) {
                        self.add(first, RecordKind::Block, flags, live.bits(), bytes);
                    } else if self.options.skips(&table.damaged(block)) {
                        lost = live;
                    } else {
                        return Err(Blocked::from(table.damaged(block)).into());
                    }
                }
                Some(Content::Inline(_)) => {}
                None => (live, lost) = (table.live_members(block), table.live_members(block)),
            }
        }
        let is_unpinned = block_pin.as_ref().is_some_and(|pin| pin.row().is_none());
        for slot in layout.slots_of(block) {
            if lost.has(slot - first) {
                Record::lost(slot, 0).encode(&mut self.records);
            }
            if live.has(slot - first) {
                continue;
            }
            // Most of a block's slots hold nothing of their own: no pin for those.
            let pin = (!table.is_slot_empty(slot)).then(|| table.pool.read(slot));
            let Some(pin) = pin.filter(|pin| pin.content() != Content::Inline(0)) else {
                if is_unpinned && !table.is_unstored(slot) {
                    return Err(Retry::Made);
                }
                continue;
            };
            match self.resolve(slot, pin.content(), pin.row(), reads)? {
                None => Record::lost(slot, 0).encode(&mut self.records),
                Some(Content::Object { bytes, flags }) if slot::held(bytes.len()) != Held::Same => {
                    self.add(slot, RecordKind::Slot, flags, 0, bytes);
                }
                Some(content) => {
                    if let Some(pattern) = slot::pattern(content) {
                        let record = Record {
                            slot,
                            kind: RecordKind::Pattern,
                            priority: 0,
                            live: 0,
                            value: pattern,
                        };
                        record.encode(&mut self.records);
                    }
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, slot: u32, kind: RecordKind, flags: u8, live: u16, bytes: &[u8]) {
        let value = bytes.len() as u64;
        Record { slot, kind, priority: flags & PRIORITY, live, value }.encode(&mut self.records);
        self.objects.extend_from_slice(bytes);
    }

    /// Writes what was added as a chunk, which has all up to slot `end`.
    fn finish_chunk(&mut self, end: u32) -> Result<(), Failure> {
        self.job.report_progress(self.first.into())?;
        for record in self.records.as_chunks::<RECORD_BYTES>().0.iter().filter_map(Record::decode) {
            self.saved.slots += u64::from(record.slots());
            if record.kind == RecordKind::Lost {
                self.saved.add_lost(record.slot);
            }
        }
        self.write_chunk(end)
    }

    fn write_chunk(&mut self, end: u32) -> Result<(), Failure> {
        let bytes = self.records.len() + self.objects.len();
        let mut sum = crc32fast::Hasher::new();
        sum.update(&self.records);
        sum.update(&self.objects);
        let head = ChunkHead {
            id: self.id,
            number: self.number,
            records: (self.records.len() / RECORD_BYTES) as u32,
            bytes: bytes as u32,
            sum: sum.finalize(),
            first: self.first,
            end,
        };
        let (mut records, mut objects) =
            (std::mem::take(&mut self.records), std::mem::take(&mut self.objects));
        records.splice(..0, head.encode());
        objects.resize(objects.len() + padding(CHUNK_HEAD_BYTES + bytes), 0);
        self.write(&records)?;
        self.write(&objects)?;
        records.clear();
        objects.clear();
        (self.records, self.objects) = (records, objects);
        (self.number, self.first) = (self.number + 1, end);
        Ok(())
    }
}

impl Drop for Saver<'_> {
    fn drop(&mut self) {
        if self.are_kept {
            let [mut records, mut objects] =
                [&mut self.records, &mut self.objects].map(std::mem::take);
            records.clear();
            objects.clear();
            self.table.shared.save_buffers.put_back(ChunkBuffers { records, objects });
        }
    }
}
