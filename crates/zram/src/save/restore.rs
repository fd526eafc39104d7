//! Puts what a saved file has on a device.

use super::format::{Entry, Kind};
use super::read::{Chunk, Reader, Wrong};
use crate::algorithms::{Algorithm, AlgorithmList, Codecs, PreparedSet};
use crate::blocks::replace;
use crate::blocks::{Members, Stored};
use crate::cold::{Job, JobKind};
use crate::request::{Request, put};
use crate::slot::{ACCESSED, Encoded};
use crate::stat::Held;
use crate::table::{AnyTable, Table};
use crate::{BLOCK, Error, fill};
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use zsmalloc::{BesideSlot, Content};

/// Where dictionaries are in a file.
const DICTIONARIES: u64 = super::format::HEAD as u64;

/// What is done about a damaged file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Damage {
    /// It is refused, and the device stays empty.
    #[default]
    Refuse,
    /// What is intact is restored, and what is not is listed.
    Salvage,
}

/// What was restored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Slots that hold something.
    pub slots: u64,
    /// Ranges of the device in bytes that were lost. They read as zeros.
    pub lost: Vec<Range<u64>>,
}

/// Restores from `from`, which is called `path` in errors.
pub(crate) fn restore<E: BesideSlot>(
    table: &Table<E>,
    from: &mut dyn Read,
    path: &Path,
    damage: Damage,
) -> Result<Restored, Error> {
    let job = table.shared.jobs.begin(JobKind::Restore, table.shared.disksize / BLOCK as u64)?;
    if !table.is_empty() {
        return Err(Error::NotEmpty);
    }
    let mut reader = Reader::new(from).map_err(|wrong| wrong.at(path))?;
    let (disksize, needed) = (table.shared.disksize, reader.head.disksize);
    if disksize < needed {
        return Err(Error::TooSmall { disksize, needed });
    }
    let mut restorer = Restorer::new(table, &reader).map_err(|error| match error {
        // A dictionary that is none.
        Error::Codec(source) => {
            Wrong::Damaged { offset: DICTIONARIES, reason: source.to_string() }.at(path)
        }
        error => error,
    })?;
    let done = restorer.all(&mut reader, damage, &job);
    done.map(|()| restorer.restored).map_err(|failure| {
        // It was empty before.
        let _ = table.discard(0, disksize);
        match failure {
            Failure::File(wrong) => wrong.at(path),
            Failure::Device(error) => error,
        }
    })
}

enum Failure {
    File(Wrong),
    Device(Error),
}

impl From<Wrong> for Failure {
    fn from(wrong: Wrong) -> Self {
        Failure::File(wrong)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Device(error)
    }
}

struct Restorer<'t, E: BesideSlot> {
    table: &'t Table<E>,
    restored: Restored,
    /// Of which priorities objects can be stored as they lie.
    as_they_lie: [bool; 4],
    /// Whether that is all there are.
    is_all_alike: bool,
    slots: u32,
    of_slots: Codecs,
    of_blocks: Option<Codecs>,
    /// Consecutive slots that were decompressed, and the first of them.
    run: (u64, Vec<u8>),
    /// A block's slots.
    block: Vec<u8>,
}

impl<'t, E: BesideSlot> Restorer<'t, E> {
    fn new(table: &'t Table<E>, reader: &Reader<'_>) -> Result<Self, Error> {
        let (order, layout) = (reader.head.order, table.shared.layout);
        let codecs = |bytes| PreparedSet::of(&reader.algorithms, bytes)?.codecs();
        let is_same_order = order == layout.order();
        let alike = alike(&reader.algorithms, &table.shared.algorithms);
        let as_they_lie = alike.map(|alike| alike && is_same_order);
        let mut each = reader.algorithms.iter().zip(as_they_lie);
        Ok(Restorer {
            table,
            restored: Restored::default(),
            as_they_lie,
            is_all_alike: each.all(|(algorithm, lies)| lies || algorithm.is_none()),
            slots: 1 << order,
            of_slots: codecs(BLOCK)?,
            of_blocks: (order > 0).then(|| codecs(BLOCK << order)).transpose()?,
            run: (0, Vec::with_capacity(layout.block_bytes())),
            block: vec![0; BLOCK << order],
        })
    }

    fn all(
        &mut self,
        reader: &mut Reader<'_>,
        damage: Damage,
        job: &Job<'_>,
    ) -> Result<(), Failure> {
        let (slots, mut reached) = reader.slots();
        loop {
            job.reached(reached.into())?;
            let chunk = match damage {
                Damage::Refuse => reader.next()?,
                Damage::Salvage => reader.next_intact()?,
            };
            let Some(chunk) = chunk else { break };
            self.lose(reached..chunk.slots.start);
            reached = chunk.slots.end;
            if let Err(error) = self.chunk(&chunk) {
                let is_of_file = matches!(error, Error::Corrupt { .. });
                match damage {
                    Damage::Salvage if is_of_file => {
                        let Range { start, end } = bytes_of(&chunk.slots);
                        let _ = self.table.discard(start, end - start);
                        self.run.1.clear();
                        self.lose(chunk.slots.clone());
                    }
                    Damage::Refuse if is_of_file => {
                        let reason = format!("of the chunk here {error}");
                        return Err(Wrong::Damaged { offset: chunk.offset, reason }.into());
                    }
                    _ => return Err(error.into()),
                }
            }
        }
        if damage == Damage::Salvage {
            self.lose(reached..slots);
        }
        Ok(())
    }

    fn lose(&mut self, slots: Range<u32>) {
        if slots.is_empty() {
            return;
        }
        let bytes = bytes_of(&slots);
        match self.restored.lost.last_mut() {
            Some(last) if last.end == bytes.start => last.end = bytes.end,
            _ => self.restored.lost.push(bytes),
        }
    }

    fn chunk(&mut self, chunk: &Chunk<'_>) -> Result<(), Error> {
        let before = self.restored.slots;
        // Not where something is written as a request would: that needs a stream itself.
        let share = self.is_all_alike.then(|| Request::for_job(self.table));
        let share = share.as_ref();
        let done = chunk.entries().try_for_each(|(entry, object)| self.entry(entry, object, share));
        let done = done.and_then(|()| self.flush());
        done.inspect_err(|_| self.restored.slots = before)
    }

    fn entry(
        &mut self,
        entry: Entry,
        object: &[u8],
        request: Option<&Request<'_, E>>,
    ) -> Result<(), Error> {
        let Entry { slot, kind, priority, live, value } = entry;
        let live = if kind == Kind::Block { Members::of(live) } else { Members::default() };
        self.restored.slots += u64::from(live.count().max(1));
        let lies = self.as_they_lie[usize::from(priority)];
        match kind {
            Kind::Slot if lies => self.put_slot(request, slot, Encoded::Object(object), priority),
            Kind::Block if lies => self.put_block(request, slot, live, object, priority),
            // Patterns are the same everywhere; but what is written with what is beside it may be one block.
            Kind::Pattern if self.as_they_lie[0] => match fill::to_payload(value) {
                Some(payload) => self.put_slot(request, slot, Encoded::Inline(payload), ACCESSED),
                None => {
                    let bytes = value.to_ne_bytes();
                    self.put_slot(request, slot, Encoded::Object(&bytes), ACCESSED)
                }
            },
            Kind::Pattern => {
                let mut block = [0; BLOCK];
                fill::fill(&mut block, value, 0);
                self.write(slot, &block)
            }
            Kind::Slot if object.len() == BLOCK => self.write(slot, object),
            Kind::Slot => {
                let mut block = [0; BLOCK];
                let decoded = self.of_slots.of(priority).decompress(object, &mut block);
                decoded.map_err(|source| Error::Corrupt { slot: slot.into(), source })?;
                self.write(slot, &block)
            }
            Kind::Block => self.write_block(slot, live, object, priority),
        }
    }

    fn put_slot(
        &self,
        request: Option<&Request<'_, E>>,
        slot: u32,
        encoded: Encoded<'_>,
        mark: u8,
    ) -> Result<(), Error> {
        let own = request.is_none().then(|| Request::for_job(self.table));
        let Some(request) = request.or(own.as_ref()) else { return Ok(()) };
        let word = self.table.lock(slot, request.seconds)?;
        if word.content() != Content::Inline(0) {
            return Err(Error::NotEmpty);
        }
        put(self.table, request.share, (slot, word), encoded, mark).map(drop)
    }

    fn put_block(
        &self,
        request: Option<&Request<'_, E>>,
        first: u32,
        live: Members,
        object: &[u8],
        mark: u8,
    ) -> Result<(), Error> {
        let (table, layout) = (self.table, self.table.shared.layout);
        let own = request.is_none().then(|| Request::for_job(table));
        let Some(request) = request.or(own.as_ref()) else { return Ok(()) };
        let block = layout.block_of(first);
        let word = table.lock_block(block, request.seconds)?;
        if word.content() != Content::Inline(0) {
            return Err(Error::NotEmpty);
        }
        let room = word.reserve(object).map_err(|error| table.shared.full(first, error))?;
        let mut words = Vec::with_capacity(self.slots as usize);
        for nth in live.iter() {
            let slot = table.lock(first + nth, request.seconds)?;
            if slot.content() != Content::Inline(0) {
                return Err(Error::NotEmpty);
            }
            words.push(slot);
        }
        for word in words {
            word.set_inline(fill::IN_BLOCK);
            request.share.changed(Held::Nothing, Held::InBlock);
        }
        replace(table, request.share, (block, word), Some((room, object, mark)));
        Ok(())
    }

    fn write_block(
        &mut self,
        first: u32,
        live: Members,
        object: &[u8],
        priority: u8,
    ) -> Result<(), Error> {
        let mut block = std::mem::take(&mut self.block);
        let written = self.decode_block(first, object, priority, &mut block).and_then(|members| {
            live.iter().try_for_each(|nth| {
                let at = members.before(nth) * BLOCK;
                self.write(first + nth, &block[at..at + BLOCK])
            })
        });
        self.block = block;
        written
    }

    fn decode_block(
        &mut self,
        first: u32,
        object: &[u8],
        priority: u8,
        block: &mut [u8],
    ) -> Result<Members, Error> {
        let damaged = Error::Damaged { slot: first.into() };
        let stored = Stored::new(object, priority, self.slots).ok_or(damaged)?;
        let codecs = self.of_blocks.as_mut().unwrap_or(&mut self.of_slots);
        let decoded = stored.decode(codecs, block);
        decoded.map_err(|source| Error::Corrupt { slot: first.into(), source })?;
        Ok(stored.members)
    }

    /// Writes a slot together with those before it, up to a block of the device's.
    fn write(&mut self, slot: u32, bytes: &[u8]) -> Result<(), Error> {
        let (first, run) = (self.run.0, self.run.1.len() / BLOCK);
        let is_next = first + run as u64 == u64::from(slot);
        let begins = slot.is_multiple_of(self.table.shared.layout.slots());
        if !is_next || begins || run == 0 {
            self.flush()?;
            self.run.0 = slot.into();
        }
        self.run.1.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        let written = self.table.write(self.run.0 * BLOCK as u64, &self.run.1);
        self.run.1.clear();
        written
    }
}

/// Which algorithms of a file are the device's of the same priority.
fn alike(file: &AlgorithmList, device: &AlgorithmList) -> [bool; 4] {
    std::array::from_fn(|nth| match (&file[nth], &device[nth]) {
        (Some(Algorithm { codec, params }), Some(of_device)) => {
            codec.name() == of_device.codec.name()
                && params.dictionary == of_device.params.dictionary
        }
        _ => false,
    })
}

fn bytes_of(slots: &Range<u32>) -> Range<u64> {
    u64::from(slots.start) * BLOCK as u64..u64::from(slots.end) * BLOCK as u64
}
