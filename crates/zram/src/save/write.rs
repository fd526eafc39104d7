//! Writes what a device holds as a saved file.

use super::aside::Aside;
use super::buffers::Buffers;
use super::format::{
    ALGORITHMS, ALIGN, CHUNK_HEAD, CHUNK_MAX, ChunkHead, ENTRY, Entry, HEAD, Head, Kind, NAME,
    padding,
};
use crate::algorithms::Algorithm;
use crate::blocks::Members;
use crate::cold::{Fetched, Job, JobKind};
use crate::slot::{self, PRIORITY};
use crate::stat::Held;
use crate::stop::Stop;
use crate::table::Table;
use crate::{BLOCK, Error};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::path::Path;
use zsmalloc::{BesideSlot, Content, ORDER_MAX};

/// Room that there must be for a block and all its slots.
const BLOCK_MOST: usize = (2 * (BLOCK + ENTRY)) << ORDER_MAX;

/// What was saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// Slots that hold something.
    pub slots: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// Saves to a file, which takes its place when it is whole.
pub(crate) fn save_file<E: BesideSlot>(table: &Table<E>, path: &Path) -> Result<Saved, Error> {
    let job = begin(table)?;
    let failed = |error: io::Error| Error::path("save to", path, &error);
    let mut aside = Aside::new(path).map_err(failed)?;
    let saved = Saver::new(table, &job, &mut aside).map_err(Failure::from).and_then(Saver::save);
    drop(job);
    match saved {
        Ok(saved) => aside.finish().map(|()| saved).map_err(failed),
        Err(failure) => {
            aside.abandon();
            Err(failure.at(path))
        }
    }
}

/// Saves to wherever.
pub(crate) fn save_to<E: BesideSlot>(
    table: &Table<E>,
    out: &mut dyn Write,
) -> Result<Saved, Error> {
    let job = begin(table)?;
    Saver::new(table, &job, out)?.save().map_err(|failure| failure.at(Path::new("-")))
}

fn begin<E: BesideSlot>(table: &Table<E>) -> Result<Job<'_>, Error> {
    table.shared.jobs.begin(JobKind::Save, table.shared.disksize / BLOCK as u64)
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
enum Again {
    /// It was made meanwhile, and so not pinned.
    Made,
    /// It can't be read, or only with something from the backing store.
    Stopped(Stop),
}

impl From<Stop> for Again {
    fn from(stop: Stop) -> Self {
        Again::Stopped(stop)
    }
}

/// A save under way.
struct Saver<'t, E: BesideSlot> {
    table: &'t Table<E>,
    job: &'t Job<'t>,
    out: &'t mut dyn Write,
    id: u64,
    saved: Saved,
    number: u32,
    /// Where the chunk begins.
    first: u32,
    entries: Vec<u8>,
    objects: Vec<u8>,
    /// Whether the two are kept for the next save.
    are_kept: bool,
}

impl<'t, E: BesideSlot> Saver<'t, E> {
    fn new(table: &'t Table<E>, job: &'t Job<'t>, out: &'t mut dyn Write) -> Result<Self, Error> {
        let (Buffers { entries, objects }, are_kept) = table.shared.save_buffers.take()?;
        Ok(Saver {
            table,
            job,
            out,
            id: RandomState::new().build_hasher().finish(),
            saved: Saved::default(),
            number: 0,
            first: 0,
            entries,
            objects,
            are_kept,
        })
    }

    fn save(mut self) -> Result<Saved, Failure> {
        self.header()?;
        let (table, layout) = (self.table, self.table.shared.layout);
        let mut blocks = table.blocks_from(0).peekable();
        while let Some(block) = blocks.next() {
            // The next one comes from memory while this one is copied.
            blocks.peek().inspect(|&&next| table.pool.prefetch(layout.first_word(next)));
            self.block(block)?;
        }
        let end = (self.table.shared.disksize / BLOCK as u64) as u32;
        if !self.entries.is_empty() || self.first < end {
            self.chunk(end)?;
        }
        self.chunk(end)?;
        self.out.flush()?;
        Ok(self.saved)
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
        let (mut sum, mut bytes) = (crc32fast::Hasher::new(), HEAD + size_of::<u32>());
        for dictionary in dictionaries() {
            sum.update(dictionary);
            bytes += dictionary.len();
        }
        let (disksize, order) = (shared.disksize, shared.layout.order());
        let head = Head { bytes: bytes as u32, id: self.id, disksize, order, algorithms };
        self.write(&head.encode())?;
        dictionaries().try_for_each(|dictionary| self.write(dictionary))?;
        self.write(&sum.finalize().to_le_bytes())?;
        self.write(&[0; ALIGN][..padding(bytes)])
    }

    /// Adds a block, and its slots.
    fn block(&mut self, block: u32) -> Result<(), Failure> {
        let layout = self.table.shared.layout;
        if self.entries.len() + self.objects.len() + BLOCK_MOST > CHUNK_MAX {
            self.chunk(layout.first_slot(block))?;
        }
        let (entries, objects) = (self.entries.len(), self.objects.len());
        let mut fetched = Vec::new();
        while let Err(again) = self.try_block(block, &fetched) {
            self.entries.truncate(entries);
            self.objects.truncate(objects);
            match again {
                Again::Made => {}
                Again::Stopped(Stop::Away(away)) => {
                    fetched.push(away.fetch(layout.first_slot(block))?);
                }
                Again::Stopped(Stop::Failed(error)) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn try_block(&mut self, block: u32, fetched: &[Fetched]) -> Result<(), Again> {
        let (table, layout) = (self.table, self.table.shared.layout);
        let (first, mut live) = (layout.first_slot(block), Members::default());
        let block_pin = layout.has_blocks().then(|| table.pool.pin(layout.block_word(block)));
        if let Some(pin) = &block_pin
            && let word = layout.block_word(block)
            && let Content::Object { bytes, mark } =
                table.here(word, pin.content(), pin.beside(), fetched)?
        {
            live = table.live(block);
            self.add(first, Kind::Block, mark, live.bits(), bytes);
        }
        let is_unpinned = block_pin.as_ref().is_some_and(|pin| pin.beside().is_none());
        let slots = layout.slots_of(block).filter(|slot| !live.has(slot - first));
        for slot in slots {
            // Most of a block's slots hold nothing of their own: no pin for those.
            let pin = (!table.is_empty_word(slot)).then(|| table.pool.pin(slot));
            let Some(pin) = pin.filter(|pin| pin.content() != Content::Inline(0)) else {
                if is_unpinned && !table.holds_nothing(slot) {
                    return Err(Again::Made);
                }
                continue;
            };
            match table.here(slot, pin.content(), pin.beside(), fetched)? {
                Content::Object { bytes, mark } if slot::held(bytes.len()) != Held::Same => {
                    self.add(slot, Kind::Slot, mark, 0, bytes);
                }
                content => {
                    if let Some(pattern) = slot::pattern(content) {
                        let entry = Entry {
                            slot,
                            kind: Kind::Pattern,
                            priority: 0,
                            live: 0,
                            value: pattern,
                        };
                        entry.encode(&mut self.entries);
                    }
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, slot: u32, kind: Kind, mark: u8, live: u16, bytes: &[u8]) {
        let value = bytes.len() as u64;
        Entry { slot, kind, priority: mark & PRIORITY, live, value }.encode(&mut self.entries);
        self.objects.extend_from_slice(bytes);
    }

    /// Writes what was added as a chunk, which has all up to slot `end`.
    fn chunk(&mut self, end: u32) -> Result<(), Failure> {
        self.job.reached(self.first.into())?;
        let bytes = self.entries.len() + self.objects.len();
        for entry in self.entries.as_chunks::<ENTRY>().0.iter().filter_map(Entry::decode) {
            let is_block = entry.kind == Kind::Block;
            self.saved.slots += if is_block { entry.live.count_ones().into() } else { 1 };
        }
        let mut sum = crc32fast::Hasher::new();
        sum.update(&self.entries);
        sum.update(&self.objects);
        let head = ChunkHead {
            id: self.id,
            number: self.number,
            entries: (self.entries.len() / ENTRY) as u32,
            bytes: bytes as u32,
            sum: sum.finalize(),
            first: self.first,
            end,
        };
        let (mut entries, mut objects) =
            (std::mem::take(&mut self.entries), std::mem::take(&mut self.objects));
        entries.splice(..0, head.encode());
        objects.resize(objects.len() + padding(CHUNK_HEAD + bytes), 0);
        self.write(&entries)?;
        self.write(&objects)?;
        entries.clear();
        objects.clear();
        (self.entries, self.objects) = (entries, objects);
        (self.number, self.first) = (self.number + 1, end);
        Ok(())
    }
}

impl<E: BesideSlot> Drop for Saver<'_, E> {
    fn drop(&mut self) {
        if self.are_kept {
            let [mut entries, mut objects] =
                [&mut self.entries, &mut self.objects].map(std::mem::take);
            entries.clear();
            objects.clear();
            self.table.shared.save_buffers.put_back(Buffers { entries, objects });
        }
    }
}
