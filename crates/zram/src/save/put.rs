//! Puts what a saved file has on a device: as it lies where the device would have made the same of it, else as a
//! request would.

use super::format::{Entry, Kind};
use super::read::Chunk;
use super::restore::bytes_of;
use crate::algorithms::{Algorithm, AlgorithmList, Codecs, PreparedSet};
use crate::blocks::{Change, Members, Stored};
use crate::request::{Request, put};
use crate::slot::{ACCESSED, Encoded};
use crate::table::{AnyTable, Table};
use crate::{BLOCK, Error, fill};
use std::ops::Range;
use zsmalloc::{BesideSlot, Content};

/// Who puts chunks on a device, one at a time.
pub(super) struct Placer<'t, E: BesideSlot> {
    table: &'t Table<E>,
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

impl<'t, E: BesideSlot> Placer<'t, E> {
    /// For what was saved of blocks of `order`, made by `algorithms`.
    pub(super) fn new(
        table: &'t Table<E>,
        order: u32,
        algorithms: &AlgorithmList,
    ) -> Result<Self, Error> {
        let layout = table.shared.layout;
        let codecs = |bytes| PreparedSet::of(algorithms, bytes)?.codecs();
        let is_same_order = order == layout.order();
        let alike = alike(algorithms, &table.shared.algorithms);
        let as_they_lie = alike.map(|alike| alike && is_same_order);
        let mut each = algorithms.iter().zip(as_they_lie);
        Ok(Placer {
            table,
            as_they_lie,
            is_all_alike: each.all(|(algorithm, lies)| lies || algorithm.is_none()),
            slots: 1 << order,
            of_slots: codecs(BLOCK)?,
            of_blocks: (order > 0).then(|| codecs(BLOCK << order)).transpose()?,
            run: (0, Vec::with_capacity(layout.block_bytes())),
            block: vec![0; BLOCK << order],
        })
    }

    /// Puts all there that a chunk has; slots.
    pub(super) fn chunk(&mut self, chunk: &Chunk<'_>) -> Result<u64, Error> {
        self.run.1.clear();
        // Not where something is written as a request would: that needs a stream itself.
        let share = self.is_all_alike.then(|| Request::begin(self.table));
        let mut slots = 0;
        for (entry, object) in chunk.entries() {
            slots += u64::from(entry.slots());
            self.entry(entry, object, share.as_ref())?;
        }
        drop(share);
        self.flush()?;
        Ok(slots)
    }

    /// Frees what of a chunk is there.
    pub(super) fn take_away(&self, chunk: &Chunk<'_>) {
        let Range { start, end } = bytes_of(&chunk.slots);
        // What can't be freed, for want of memory, is listed as lost all the same.
        let _ = self.table.discard(start, end - start);
    }

    fn entry(
        &mut self,
        entry: Entry,
        object: &[u8],
        request: Option<&Request<'_, E>>,
    ) -> Result<(), Error> {
        let Entry { slot, kind, priority, live, value } = entry;
        let live = if kind == Kind::Block { Members::of(live) } else { Members::default() };
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
            Kind::Lost => Ok(()),
        }
    }

    fn put_slot(
        &self,
        request: Option<&Request<'_, E>>,
        slot: u32,
        encoded: Encoded<'_>,
        flags: u8,
    ) -> Result<(), Error> {
        let own = request.is_none().then(|| Request::begin(self.table));
        let Some(request) = request.or(own.as_ref()) else { return Ok(()) };
        let word = self.table.lock(slot, request.seconds)?;
        let is_free = match word.content() {
            Content::Inline(0) => !self.table.has_block(slot),
            content => content == Content::Inline(fill::HOLE),
        };
        if !is_free {
            return Err(Error::NotEmpty);
        }
        put(self.table, request.share, (slot, word), encoded, flags).map(drop)
    }

    fn put_block(
        &self,
        request: Option<&Request<'_, E>>,
        first: u32,
        live: Members,
        object: &[u8],
        flags: u8,
    ) -> Result<(), Error> {
        let (table, layout) = (self.table, self.table.shared.layout);
        let own = request.is_none().then(|| Request::begin(table));
        let Some(request) = request.or(own.as_ref()) else { return Ok(()) };
        let block = layout.block_of(first);
        let word = table.lock_block(block, request.seconds)?;
        if word.content() != Content::Inline(0) {
            return Err(Error::NotEmpty);
        }
        let room = word.reserve(object).map_err(|error| table.shared.full(first, error))?;
        // What is not live is a hole until it is come to.
        let mut words = Vec::with_capacity(self.slots as usize);
        for slot in layout.slots_of(block).filter(|slot| !live.has(slot - first)) {
            words.push((table.lock(slot, request.seconds)?, fill::HOLE));
        }
        words.extend(table.lock_words_of(block, live).map(|(_, word)| (word, 0)));
        if words.iter().any(|(word, _)| word.content() != Content::Inline(0)) {
            return Err(Error::NotEmpty);
        }
        let (block, new) = ((block, word), Some((room, object, flags)));
        Change { block, words, new, live: [0, live.count()] }.make(table, request.share);
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
        if self.run.1.is_empty() {
            return Ok(());
        }
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
