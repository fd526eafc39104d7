//! Saves a device: writes its contents to a file in the format of [`format`].

use super::backed_reads::{BackingReader, BlockReads};
use super::buffers::{ChunkBuffers, SpareBuffers};
use super::format::{
    self, ALGORITHMS, ALIGN, BLOCK_ROOM, CHUNK_HEAD_BYTES, CHUNK_MAX, ChunkHead, FILE_HEAD_BYTES,
    FileHead, NAME, RECORD_BYTES, Record, RecordKind, padding,
};
use super::options::{SaveOptions, SaveTo, Saved};
use crate::algorithms::Algorithm;
use crate::atomic_file::AtomicFile;
use crate::backing::PlaceGuard;
use crate::block::{BlockObject, Members};
use crate::job::{Job, JobKind};
use crate::layout::Layout;
use crate::open_file::PRIVATE;
use crate::slot::{Flags, Slot};
use crate::table::{Blocked, Origin, Table, blocks_from, live_members, origin, own_entry};
use crate::{Error, SLOT_BYTES};
use rustix::io::Errno;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::path::Path;
use zsmalloc::{Content, Row};

/// Saves the device. A file is renamed to its path when it is complete and durable.
pub(crate) fn save(
    table: &Table,
    buffers: &SpareBuffers,
    to: SaveTo<'_>,
    options: &SaveOptions,
) -> Result<Saved, Error> {
    // The job lasts until after the rename, so that a later job finds the file at its path.
    let job = table.jobs.begin(JobKind::Save, table.disksize / SLOT_BYTES as u64)?;
    let (path, is_free): (_, &dyn Fn() -> bool) = match to {
        SaveTo::Writer(out) => {
            return Saver::new(table, buffers, &job, (out, Path::new("-")), options)?.save();
        }
        SaveTo::File(path) => (path, &|| true),
        SaveTo::FileIf(path, is_free) => (path, is_free),
    };
    let failed = |error| failed(path, &error);
    let mut file = AtomicFile::new(path, PRIVATE).map_err(failed)?;
    let mut saved = Saver::new(table, buffers, &job, (&mut file, path), options)?.save()?;
    file.sync().map_err(failed)?;
    job.check_cancelled()?;
    if !is_free() {
        return Err(failed(Errno::EXIST.into()));
    }
    if !saved.is_whole() {
        saved.before = file.keep_old(format::is_whole).map_err(failed)?;
    }
    file.put_in_place().map_err(failed)?;
    Ok(saved)
}

fn failed(path: &Path, error: &io::Error) -> Error {
    Error::path("save to", path, error)
}

/// Returns true if a block's object is valid and contains all live members. An object that was
/// damaged in memory must not be written, because a restore would reject the whole file.
fn holds_members(bytes: &[u8], flags: Flags, layout: Layout, live: Members) -> bool {
    let stored = BlockObject::new(bytes, flags, layout.slots());
    let members = stored.filter(|_| bytes.len() <= layout.block_bytes()).map(|of| of.members);
    members.is_some_and(|members| live.without(members) == Members::default())
}

/// A save under way.
struct Saver<'t> {
    table: &'t Table,
    /// The buffers for the chunks of a save, if the device keeps such buffers.
    buffers: &'t SpareBuffers,
    job: &'t Job<'t>,
    out: &'t mut dyn Write,
    /// The name of `out` in errors.
    path: &'t Path,
    options: &'t SaveOptions,
    reader: BackingReader,
    id: u64,
    saved: Saved,
    number: u32,
    /// The first slot that the current chunk covers.
    first: u32,
    /// The encoded records of the current chunk.
    records: Vec<u8>,
    /// The objects of these records, in the same order.
    objects: Vec<u8>,
    /// Whether `records` and `objects` must be put back into `buffers`.
    are_kept: bool,
}

impl<'t> Saver<'t> {
    /// Prepares a save, and allocates all memory that its chunks need.
    fn new(
        table: &'t Table,
        buffers: &'t SpareBuffers,
        job: &'t Job<'t>,
        (out, path): (&'t mut dyn Write, &'t Path),
        options: &'t SaveOptions,
    ) -> Result<Self, Error> {
        let patience = options.patience.filter(|_| table.store.is_some());
        let saved = Saved::new()?;
        let (ChunkBuffers { records, objects }, are_kept) = buffers.take()?;
        Ok(Saver {
            table,
            buffers,
            job,
            out,
            path,
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

    /// Writes the header, all chunks, and the trailer.
    fn save(mut self) -> Result<Saved, Error> {
        let mut reads = BlockReads::new(self.table.layout)?;
        self.header()?;
        let (table, layout) = (self.table, self.table.layout);
        let mut blocks = blocks_from(table, 0).peekable();
        while let Some(block) = blocks.next() {
            // The object of the next block is fetched into the cache while this block is copied.
            blocks.peek().inspect(|&&next| table.pool.prefetch(layout.first_entry(next)));
            self.add_block(block, &mut reads)?;
        }
        let end = (self.table.disksize / SLOT_BYTES as u64) as u32;
        if !self.records.is_empty() || self.first < end {
            self.finish_chunk(end)?;
        }
        if !self.saved.is_whole() {
            self.add((Record::lost(0, self.saved.lost_slots), &[]));
        }
        self.write_chunk(end)?;
        self.job.report_progress(end.into())?;
        self.out.flush().map_err(|error| failed(self.path, &error))?;
        Ok(std::mem::take(&mut self.saved))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.saved.bytes += bytes.len() as u64;
        self.out.write_all(bytes).map_err(|error| failed(self.path, &error))
    }

    /// Writes the header of the file, with the dictionaries.
    fn header(&mut self) -> Result<(), Error> {
        let table = self.table;
        let of = |algorithm: &Option<Algorithm>| {
            let Some(Algorithm { codec, params }) = algorithm else { return Default::default() };
            let mut name = [0; NAME];
            name[..codec.name().len()].copy_from_slice(codec.name().as_bytes());
            (name, params.dictionary.as_ref().map_or(0, |of| of.bytes().len() as u32))
        };
        let algorithms: [_; ALGORITHMS] = table.algorithms.each_ref().map(of);
        let dictionaries = || {
            let params = table.algorithms.iter().flatten().map(|Algorithm { params, .. }| params);
            params.filter_map(|params| Some(params.dictionary.as_ref()?.bytes()))
        };
        let (mut sum, mut bytes) = (crc32fast::Hasher::new(), FILE_HEAD_BYTES + size_of::<u32>());
        for dictionary in dictionaries() {
            sum.update(dictionary);
            bytes += dictionary.len();
        }
        let (disksize, order) = (table.disksize, table.layout.order());
        let head = FileHead { bytes: bytes as u32, id: self.id, disksize, order, algorithms };
        self.write(&head.encode())?;
        dictionaries().try_for_each(|dictionary| self.write(dictionary))?;
        self.write(&sum.finalize().to_le_bytes())?;
        self.write(&[0; ALIGN][..padding(bytes)])
    }

    /// Adds a block and its slots to the current chunk, or to a new chunk if the current one is
    /// full. After each read of an object from the store, adds this block again from its beginning.
    fn add_block(&mut self, block: u32, reads: &mut BlockReads) -> Result<(), Error> {
        let layout = self.table.layout;
        if self.records.len() + self.objects.len() + BLOCK_ROOM > CHUNK_MAX {
            self.finish_chunk(layout.first_slot(block))?;
        }
        let (records, objects) = (self.records.len(), self.objects.len());
        loop {
            match self.add_block_once(block, reads) {
                Ok(()) => break,
                Err(Blocked::Changed) => {}
                Err(Blocked::OnBacking(guard)) => self.read_object(guard, reads)?,
                Err(Blocked::Failed(error)) => return Err(error),
            }
            self.records.truncate(records);
            self.objects.truncate(objects);
        }
        reads.clear();
        Ok(())
    }

    /// Reads an object from the store. If the read fails, and the options allow that, records the
    /// object as unreadable.
    fn read_object(&self, guard: PlaceGuard, reads: &mut BlockReads) -> Result<(), Error> {
        let slot = self.table.layout.slot_of(guard.entry);
        let (of, buffer) = ((guard.entry, guard.place), reads.spare_for(guard.place.len));
        match self.reader.read(guard, slot, buffer, self.job) {
            Ok(read_back) => reads.read_back.push(read_back),
            Err((error, buffer)) if self.options.skips(&error) => reads.note_unread(of, buffer),
            Err((error, _)) => return Err(error),
        }
        Ok(())
    }

    /// Returns the content of an entry that the caller has locked. Returns `None` if the data can't
    /// be read and the save omits them.
    fn resolve<'c>(
        &self,
        entry: u32,
        content: Content<&'c [u8]>,
        row: Option<Row<'_>>,
        reads: &'c BlockReads,
    ) -> Result<Option<Content<&'c [u8]>>, Blocked> {
        match self.table.resolve(entry, content, row, &reads.read_back) {
            Ok(content) => Ok(Some(content)),
            Err(Blocked::OnBacking(guard)) if reads.is_unread(&guard) => Ok(None),
            Err(Blocked::Failed(error)) if self.options.skips(&error) => Ok(None),
            Err(stop) => Err(stop),
        }
    }

    /// Adds a block and its slots to the current chunk. If this fails, returns the reason, and may
    /// leave some of the block's records in the chunk.
    fn add_block_once(&mut self, block: u32, reads: &BlockReads) -> Result<(), Blocked> {
        let (table, layout) = (self.table, self.table.layout);
        let first = layout.first_slot(block);
        let (mut live, mut lost) = (Members::default(), Members::default());
        let block_pin = layout.has_blocks().then(|| table.pool.read(layout.block_entry(block)));
        if let Some(pin) = &block_pin {
            let entry = layout.block_entry(block);
            match self.resolve(entry, pin.content(), pin.row(), reads)? {
                Some(Content::Object { bytes, flags }) => {
                    let flags = Flags::from_bits(flags);
                    live = live_members(table, block);
                    if holds_members(bytes, flags, layout, live) {
                        self.add((Record::of_block(first, live, bytes, flags), bytes));
                    } else if self.options.skips(&table.damaged(block)) {
                        lost = live;
                    } else {
                        return Err(table.damaged(block).into());
                    }
                }
                Some(Content::Inline(_)) => {}
                None => (live, lost) = (live_members(table, block), live_members(table, block)),
            }
        }
        let is_unpinned = block_pin.as_ref().is_some_and(|pin| pin.row().is_none());
        for slot in layout.slots_of(block) {
            if lost.has(slot - first) {
                self.add((Record::lost(slot, 0), &[]));
            }
            let member = live.has(slot - first).then_some(());
            let pin = match origin(table, slot, is_unpinned, member, own_entry(table, slot)) {
                Origin::Own(pin) => pin,
                Origin::Block(()) | Origin::Nothing => continue,
                Origin::Changed => return Err(Blocked::Changed),
            };
            match self.resolve(slot, pin.content(), pin.row(), reads)?.map(Slot::of) {
                Some(data) => Record::of(slot, data).into_iter().for_each(|of| self.add(of)),
                None => self.add((Record::lost(slot, 0), &[])),
            }
        }
        Ok(())
    }

    fn add(&mut self, (record, object): (Record, &[u8])) {
        record.encode(&mut self.records);
        self.objects.extend_from_slice(object);
    }

    /// Counts the slots in the records of the current chunk, and writes the chunk up to slot `end`.
    fn finish_chunk(&mut self, end: u32) -> Result<(), Error> {
        self.job.report_progress(self.first.into())?;
        for record in self.records.as_chunks::<RECORD_BYTES>().0.iter().filter_map(Record::decode) {
            self.saved.slots += u64::from(record.slots());
            if record.kind == RecordKind::Lost {
                self.saved.add_lost(record.slot);
            }
        }
        self.write_chunk(end)
    }

    /// Writes the current chunk, which ends before slot `end`, and begins the next chunk there.
    fn write_chunk(&mut self, end: u32) -> Result<(), Error> {
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
        self.records.splice(..0, head.encode());
        self.objects.resize(self.objects.len() + padding(CHUNK_HEAD_BYTES + bytes), 0);
        for part in [&mut self.records, &mut self.objects] {
            self.out.write_all(part).map_err(|error| failed(self.path, &error))?;
            self.saved.bytes += part.len() as u64;
            part.clear();
        }
        (self.number, self.first) = (self.number + 1, end);
        Ok(())
    }
}

impl Drop for Saver<'_> {
    fn drop(&mut self) {
        if self.are_kept {
            let [records, objects] = [&mut self.records, &mut self.objects].map(|of| {
                of.clear();
                std::mem::take(of)
            });
            self.buffers.put_back(ChunkBuffers { records, objects });
        }
    }
}
