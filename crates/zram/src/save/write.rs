//! Writes what a device holds as a saved file.

use super::aside::Aside;
use super::buffers::Buffers;
use super::fetch::{Fetcher, Fetches};
use super::format::{
    ALGORITHMS, ALIGN, CHUNK_HEAD, CHUNK_MAX, ChunkHead, ENTRY, Entry, HEAD, Head, Kind, NAME,
    padding,
};
use super::options::{SaveOptions, Saved};
use crate::algorithms::Algorithm;
use crate::blocks::{Members, Stored};
use crate::cold::{Away, Job, JobKind};
use crate::layout::Layout;
use crate::slot::{self, PRIORITY};
use crate::stat::Held;
use crate::stop::Stop;
use crate::table::Table;
use crate::{BLOCK, Error};
use rustix::io::Errno;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::path::Path;
use zsmalloc::{BesideSlot, Content, ORDER_MAX};

/// Room that there must be for a block and all its slots.
const BLOCK_MOST: usize = (2 * (BLOCK + ENTRY)) << ORDER_MAX;

/// Saves to a file, which takes its place when it is whole, if that `is_free` then.
pub(crate) fn save_file<E: BesideSlot>(
    table: &Table<E>,
    path: &Path,
    options: &SaveOptions,
    is_free: &dyn Fn() -> bool,
) -> Result<Saved, Error> {
    // It lasts until the file is in its place: what begins then finds it there.
    let job = begin(table)?;
    let failed = |error: io::Error| Error::path("save to", path, &error);
    let mut aside = Aside::new(path).map_err(failed)?;
    let saved = Saver::new(table, &job, &mut aside, options).and_then(Saver::save);
    let placed = saved.and_then(|mut saved| {
        aside.sync()?;
        job.go_on()?;
        if !is_free() {
            return Err(io::Error::from(Errno::EXIST).into());
        }
        saved.before = aside.put_in_place(saved.is_whole())?;
        Ok(saved)
    });
    placed.map_err(|failure| {
        aside.abandon();
        failure.at(path)
    })
}

/// Saves to wherever.
pub(crate) fn save_to<E: BesideSlot>(
    table: &Table<E>,
    out: &mut dyn Write,
    options: &SaveOptions,
) -> Result<Saved, Error> {
    let job = begin(table)?;
    let saved = Saver::new(table, &job, out, options).and_then(Saver::save);
    saved.map_err(|failure| failure.at(Path::new("-")))
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

/// Whether a block's object has the slots that are live. One that memory damaged would have all the file be refused.
fn is_object(bytes: &[u8], flags: u8, layout: Layout, live: Members) -> bool {
    let stored = Stored::new(bytes, flags, layout.slots());
    let members = stored.filter(|_| bytes.len() <= layout.block_bytes()).map(|of| of.members);
    members.is_some_and(|members| live.without(members) == Members::default())
}

/// A save under way.
struct Saver<'t, E: BesideSlot> {
    table: &'t Table<E>,
    job: &'t Job<'t>,
    out: &'t mut dyn Write,
    options: &'t SaveOptions,
    fetcher: Fetcher,
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
    /// All memory that it takes is made here.
    fn new(
        table: &'t Table<E>,
        job: &'t Job<'t>,
        out: &'t mut dyn Write,
        options: &'t SaveOptions,
    ) -> Result<Self, Failure> {
        let patience = options.patience.filter(|_| table.shared.store.is_some());
        let saved = Saved::new()?;
        let (Buffers { entries, objects }, are_kept) = table.shared.save_buffers.take()?;
        Ok(Saver {
            table,
            job,
            out,
            options,
            fetcher: Fetcher::new(patience),
            id: RandomState::new().build_hasher().finish(),
            saved,
            number: 0,
            first: 0,
            entries,
            objects,
            are_kept,
        })
    }

    fn save(mut self) -> Result<Saved, Failure> {
        let mut fetches = Fetches::new(self.table.shared.layout)?;
        self.header()?;
        let (table, layout) = (self.table, self.table.shared.layout);
        let mut blocks = table.blocks_from(0).peekable();
        while let Some(block) = blocks.next() {
            // The next one comes from memory while this one is copied.
            blocks.peek().inspect(|&&next| table.pool.prefetch(layout.first_word(next)));
            self.block(block, &mut fetches)?;
        }
        let end = (self.table.shared.disksize / BLOCK as u64) as u32;
        if !self.entries.is_empty() || self.first < end {
            self.chunk(end)?;
        }
        if !self.saved.is_whole() {
            Entry::lost(0, self.saved.lost_slots).encode(&mut self.entries);
        }
        self.write_chunk(end)?;
        self.job.reached(end.into())?;
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
    fn block(&mut self, block: u32, fetches: &mut Fetches) -> Result<(), Failure> {
        let layout = self.table.shared.layout;
        if self.entries.len() + self.objects.len() + BLOCK_MOST > CHUNK_MAX {
            self.chunk(layout.first_slot(block))?;
        }
        let (entries, objects) = (self.entries.len(), self.objects.len());
        while let Err(again) = self.try_block(block, fetches) {
            self.entries.truncate(entries);
            self.objects.truncate(objects);
            match again {
                Again::Made => {}
                Again::Stopped(Stop::Away(away)) => self.fetch(away, fetches)?,
                Again::Stopped(Stop::Failed(error)) => return Err(error.into()),
            }
        }
        fetches.clear();
        Ok(())
    }

    /// Fetches an object, or takes note that it can't be read.
    fn fetch(&self, away: Away, fetches: &mut Fetches) -> Result<(), Error> {
        let slot = self.table.shared.layout.slot_of(away.word);
        let (of, buffer) = ((away.word, away.place), fetches.spare_for(away.place.len));
        match self.fetcher.fetch(away, slot, buffer, self.job) {
            Ok(fetched) => fetches.fetched.push(fetched),
            Err((error, buffer)) if self.options.skips(&error) => fetches.note_unread(of, buffer),
            Err((error, _)) => return Err(error),
        }
        Ok(())
    }

    /// What a word holds that is locked; `None` if that can't be read, and is left out.
    fn here<'c>(
        &self,
        word: u32,
        content: Content<'c>,
        beside: Option<&E>,
        fetches: &'c Fetches,
    ) -> Result<Option<Content<'c>>, Again> {
        match self.table.here(word, content, beside, &fetches.fetched) {
            Ok(content) => Ok(Some(content)),
            Err(Stop::Away(away)) if fetches.is_unread(&away) => Ok(None),
            Err(Stop::Failed(error)) if self.options.skips(&error) => Ok(None),
            Err(stop) => Err(stop.into()),
        }
    }

    fn try_block(&mut self, block: u32, fetches: &Fetches) -> Result<(), Again> {
        let (table, layout) = (self.table, self.table.shared.layout);
        let first = layout.first_slot(block);
        let (mut live, mut lost) = (Members::default(), Members::default());
        let block_pin = layout.has_blocks().then(|| table.pool.read(layout.block_word(block)));
        if let Some(pin) = &block_pin {
            let word = layout.block_word(block);
            match self.here(word, pin.content(), pin.beside(), fetches)? {
                Some(Content::Object { bytes, flags }) => {
                    live = table.live(block);
                    if is_object(bytes, flags, layout, live) {
                        self.add(first, Kind::Block, flags, live.bits(), bytes);
                    } else if self.options.skips(&table.damaged(block)) {
                        lost = live;
                    } else {
                        return Err(Stop::from(table.damaged(block)).into());
                    }
                }
                Some(Content::Inline(_)) => {}
                None => (live, lost) = (table.live(block), table.live(block)),
            }
        }
        let is_unpinned = block_pin.as_ref().is_some_and(|pin| pin.beside().is_none());
        for slot in layout.slots_of(block) {
            if lost.has(slot - first) {
                Entry::lost(slot, 0).encode(&mut self.entries);
            }
            if live.has(slot - first) {
                continue;
            }
            // Most of a block's slots hold nothing of their own: no pin for those.
            let pin = (!table.is_empty_word(slot)).then(|| table.pool.read(slot));
            let Some(pin) = pin.filter(|pin| pin.content() != Content::Inline(0)) else {
                if is_unpinned && !table.holds_nothing(slot) {
                    return Err(Again::Made);
                }
                continue;
            };
            match self.here(slot, pin.content(), pin.beside(), fetches)? {
                None => Entry::lost(slot, 0).encode(&mut self.entries),
                Some(Content::Object { bytes, flags }) if slot::held(bytes.len()) != Held::Same => {
                    self.add(slot, Kind::Slot, flags, 0, bytes);
                }
                Some(content) => {
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

    fn add(&mut self, slot: u32, kind: Kind, flags: u8, live: u16, bytes: &[u8]) {
        let value = bytes.len() as u64;
        Entry { slot, kind, priority: flags & PRIORITY, live, value }.encode(&mut self.entries);
        self.objects.extend_from_slice(bytes);
    }

    /// Writes what was added as a chunk, which has all up to slot `end`.
    fn chunk(&mut self, end: u32) -> Result<(), Failure> {
        self.job.reached(self.first.into())?;
        for entry in self.entries.as_chunks::<ENTRY>().0.iter().filter_map(Entry::decode) {
            self.saved.slots += u64::from(entry.slots());
            if entry.kind == Kind::Lost {
                self.saved.lose(entry.slot);
            }
        }
        self.write_chunk(end)
    }

    fn write_chunk(&mut self, end: u32) -> Result<(), Failure> {
        let bytes = self.entries.len() + self.objects.len();
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
