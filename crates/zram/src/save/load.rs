//! Puts what a saved file has on a device: as it lies where the device would have made the same of
//! it, else as a request would.

use super::format::{Record, RecordKind};
use super::read::Chunk;
use super::restore::byte_range;
use crate::algorithms::{Algorithm, AlgorithmList, Codecs, PreparedSet};
use crate::blocks::{BlockObject, BlockUpdate, Members};
use crate::request::{Request, store_slot};
use crate::slot::{ACCESSED, Encoded};
use crate::table::Table;
use crate::{Error, SLOT_BYTES, fill};
use std::ops::Range;
use zsmalloc::Content;

/// Who puts chunks on a device, one at a time.
pub(super) struct Loader<'t> {
    table: &'t Table,
    /// Of which priorities objects can be stored as they lie.
    is_verbatim: [bool; 4],
    /// Whether that is all there are.
    all_verbatim: bool,
    slots: u32,
    slot_codecs: Codecs,
    block_codecs: Option<Codecs>,
    /// Consecutive slots that were decompressed, and the first of them.
    run: (u64, Vec<u8>),
    /// A block's slots.
    block: Vec<u8>,
}

impl<'t> Loader<'t> {
    /// For what was saved of blocks of `order`, made by `algorithms`.
    pub(super) fn new(
        table: &'t Table,
        order: u32,
        algorithms: &AlgorithmList,
    ) -> Result<Self, Error> {
        let layout = table.shared.layout;
        let codecs = |bytes| PreparedSet::of(algorithms, bytes)?.codecs();
        let is_same_order = order == layout.order();
        let alike = same_algorithms(algorithms, &table.shared.algorithms);
        let as_they_lie = alike.map(|alike| alike && is_same_order);
        let mut each = algorithms.iter().zip(as_they_lie);
        Ok(Loader {
            table,
            is_verbatim: as_they_lie,
            all_verbatim: each.all(|(algorithm, lies)| lies || algorithm.is_none()),
            slots: 1 << order,
            slot_codecs: codecs(SLOT_BYTES)?,
            block_codecs: (order > 0).then(|| codecs(SLOT_BYTES << order)).transpose()?,
            run: (0, Vec::with_capacity(layout.block_bytes())),
            block: vec![0; SLOT_BYTES << order],
        })
    }

    /// Puts all there that a chunk has; slots.
    pub(super) fn load_chunk(&mut self, chunk: &Chunk<'_>) -> Result<u64, Error> {
        self.run.1.clear();
        // Not where something is written as a request would: that needs a stream itself.
        let shard = self.all_verbatim.then(|| Request::begin(self.table));
        let mut slots = 0;
        for (record, object) in chunk.records() {
            slots += u64::from(record.slots());
            self.load_record(record, object, shard.as_ref())?;
        }
        drop(shard);
        self.flush()?;
        Ok(slots)
    }

    /// Frees what of a chunk is there.
    pub(super) fn discard_chunk(&self, chunk: &Chunk<'_>) {
        let Range { start, end } = byte_range(&chunk.slots);
        // What can't be freed, for want of memory, is listed as lost all the same.
        let _ = self.table.discard(start, end - start);
    }

    fn load_record(
        &mut self,
        record: Record,
        object: &[u8],
        request: Option<&Request<'_>>,
    ) -> Result<(), Error> {
        let Record { slot, kind, priority, live, value } = record;
        let live = if kind == RecordKind::Block { Members::of(live) } else { Members::default() };
        let lies = self.is_verbatim[usize::from(priority)];
        match kind {
            RecordKind::Slot if lies => {
                self.load_slot(request, slot, Encoded::Object(object), priority)
            }
            RecordKind::Block if lies => self.load_block(request, slot, live, object, priority),
            // Patterns are the same everywhere; but what is written with what is beside it may be
            // one block.
            RecordKind::Pattern if self.is_verbatim[0] => match fill::to_payload(value) {
                Some(payload) => self.load_slot(request, slot, Encoded::Inline(payload), ACCESSED),
                None => {
                    let bytes = value.to_ne_bytes();
                    self.load_slot(request, slot, Encoded::Object(&bytes), ACCESSED)
                }
            },
            RecordKind::Pattern => {
                let mut block = [0; SLOT_BYTES];
                fill::fill(&mut block, value, 0);
                self.write(slot, &block)
            }
            RecordKind::Slot if object.len() == SLOT_BYTES => self.write(slot, object),
            RecordKind::Slot => {
                let mut block = [0; SLOT_BYTES];
                let decoded = self.slot_codecs.of(priority).decompress(object, &mut block);
                decoded.map_err(|source| Error::Corrupt { slot: slot.into(), source })?;
                self.write(slot, &block)
            }
            RecordKind::Block => self.write_block(slot, live, object, priority),
            RecordKind::Lost => Ok(()),
        }
    }

    fn load_slot(
        &self,
        request: Option<&Request<'_>>,
        slot: u32,
        encoded: Encoded<'_>,
        flags: u8,
    ) -> Result<(), Error> {
        let own = request.is_none().then(|| Request::begin(self.table));
        let Some(request) = request.or(own.as_ref()) else { return Ok(()) };
        let entry = self.table.lock(slot, request.now_seconds)?;
        let is_free = match entry.content() {
            Content::Inline(0) => !self.table.is_block_active(slot),
            content => content == Content::Inline(fill::HOLE),
        };
        if !is_free {
            return Err(Error::NotEmpty);
        }
        store_slot(self.table, request.shard, (slot, entry), encoded, flags).map(drop)
    }

    fn load_block(
        &self,
        request: Option<&Request<'_>>,
        first: u32,
        live: Members,
        object: &[u8],
        flags: u8,
    ) -> Result<(), Error> {
        let (table, layout) = (self.table, self.table.shared.layout);
        let own = request.is_none().then(|| Request::begin(table));
        let Some(request) = request.or(own.as_ref()) else { return Ok(()) };
        let block = layout.block_of(first);
        let entry = table.lock_block(block, request.now_seconds)?;
        if entry.content() != Content::Inline(0) {
            return Err(Error::NotEmpty);
        }
        let room =
            entry.reserve(object).map_err(|error| table.shared.out_of_memory(first, error))?;
        // What is not live is a hole until it is come to.
        let mut entries = Vec::with_capacity(self.slots as usize);
        for slot in layout.slots_of(block).filter(|slot| !live.has(slot - first)) {
            entries.push((table.lock(slot, request.now_seconds)?, fill::HOLE));
        }
        entries.extend(table.lock_slots(block, live).map(|(_, entry)| (entry, 0)));
        if entries.iter().any(|(entry, _)| entry.content() != Content::Inline(0)) {
            return Err(Error::NotEmpty);
        }
        let (block, new) = ((block, entry), Some((room, object, flags)));
        BlockUpdate { block, slots: entries, new, live: [0, live.count()] }
            .apply(table, request.shard);
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
                let at = members.before(nth) * SLOT_BYTES;
                self.write(first + nth, &block[at..at + SLOT_BYTES])
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
        let stored = BlockObject::new(object, priority, self.slots).ok_or(damaged)?;
        let codecs = self.block_codecs.as_mut().unwrap_or(&mut self.slot_codecs);
        let decoded = stored.decode(codecs, block);
        decoded.map_err(|source| Error::Corrupt { slot: first.into(), source })?;
        Ok(stored.members)
    }

    /// Writes a slot together with those before it, up to a block of the device's.
    fn write(&mut self, slot: u32, bytes: &[u8]) -> Result<(), Error> {
        let (first, run) = (self.run.0, self.run.1.len() / SLOT_BYTES);
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
        let written = self.table.write(self.run.0 * SLOT_BYTES as u64, &self.run.1);
        self.run.1.clear();
        written
    }
}

/// Which algorithms of a file are the device's of the same priority.
fn same_algorithms(file: &AlgorithmList, device: &AlgorithmList) -> [bool; 4] {
    std::array::from_fn(|nth| match (&file[nth], &device[nth]) {
        (Some(Algorithm { codec, params }), Some(of_device)) => {
            codec.name() == of_device.codec.name()
                && params.dictionary == of_device.params.dictionary
        }
        _ => false,
    })
}
