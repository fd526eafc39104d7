//! Loads the records of a saved file into a device. An object is stored unchanged if the device has
//! the object's algorithm and blocks of the saved order. Otherwise, the object's data are
//! decompressed, and written as a request would write them.

use super::format::{Record, RecordKind};
use super::read::Chunk;
use crate::algorithms::{Algorithm, AlgorithmList, Codecs, PreparedSet};
use crate::block::{BlockObject, Members};
use crate::layout::byte_range;
use crate::request::{self, Request};
use crate::slot::{self, Flags, Payload, Slot};
use crate::table::{BlockUpdate, Table, is_block_active, lock_slots};
use crate::{Error, SLOT_BYTES};
use std::ops::Range;

/// Loads chunks into a device, one at a time.
pub(super) struct Loader<'t> {
    table: &'t Table,
    /// The request that stores objects unchanged. This request is dropped before data are written
    /// by another request, which needs a stream, too.
    request: Option<Request<'t>>,
    /// For each priority, whether objects of this priority are stored unchanged.
    is_verbatim: [bool; 4],
    /// The number of slots of a block of the saved device.
    slots: u32,
    slot_codecs: Codecs,
    block_codecs: Option<Codecs>,
    /// Consecutive slots that are not written yet: the number of the first slot, and the data of
    /// all these slots.
    run: (u64, Vec<u8>),
    /// A buffer for a decompressed block.
    block: Vec<u8>,
}

impl<'t> Loader<'t> {
    /// Creates a loader for a file with blocks of order `order` and objects that were compressed
    /// with `algorithms`.
    pub(super) fn new(
        table: &'t Table,
        order: u32,
        algorithms: &AlgorithmList,
    ) -> Result<Self, Error> {
        let layout = table.layout;
        let codecs = |bytes| PreparedSet::of(algorithms, bytes)?.codecs();
        let is_same_order = order == layout.order();
        let alike = same_algorithms(algorithms, &table.algorithms);
        Ok(Loader {
            table,
            request: None,
            is_verbatim: alike.map(|alike| alike && is_same_order),
            slots: 1 << order,
            slot_codecs: codecs(SLOT_BYTES)?,
            block_codecs: (order > 0).then(|| codecs(SLOT_BYTES << order)).transpose()?,
            run: (0, Vec::with_capacity(layout.block_bytes())),
            block: vec![0; SLOT_BYTES << order],
        })
    }

    /// Loads all records of a chunk. Returns the number of slots that hold data.
    pub(super) fn load_chunk(&mut self, chunk: &Chunk<'_>) -> Result<u64, Error> {
        self.run.1.clear();
        let loaded: Result<u64, Error> = chunk.records().try_fold(0, |slots, (record, object)| {
            self.load_record(record, object)?;
            Ok(slots + u64::from(record.slots()))
        });
        // The request's stream is released while this thread waits for its next chunk.
        self.request = None;
        let slots = loaded?;
        self.flush()?;
        Ok(slots)
    }

    /// Frees the slots of a chunk that could not be loaded completely.
    pub(super) fn discard_chunk(&self, chunk: &Chunk<'_>) {
        let Range { start, end } = byte_range(&chunk.slots);
        // Slots that can't be freed for lack of memory are also reported as lost.
        let _ = request::discard(self.table, start, end - start);
    }

    fn load_record(&mut self, record: Record, object: &[u8]) -> Result<(), Error> {
        let (slot, is_verbatim) = (record.slot, self.is_verbatim[usize::from(record.priority)]);
        match (record.kind, record.to_slot(object)) {
            (RecordKind::Lost, _) => Ok(()),
            (RecordKind::Block, _) if is_verbatim => self.load_block(record, object),
            (RecordKind::Block, _) => self.write_block(record, object),
            // If the file's own algorithm differs from the device's own algorithm, a pattern is
            // written together with its neighbours. A pattern and its neighbours then become one
            // block.
            (_, data) if is_verbatim => self.load_slot(slot, data),
            (_, Slot::Raw(bytes)) => self.write(slot, bytes),
            (_, data) => {
                let (mut block, mut spare) = ([0; SLOT_BYTES], [0; SLOT_BYTES]);
                let codecs = &mut self.slot_codecs;
                slot::decode(data, 0, &mut block, codecs, &mut spare)
                    .map_err(|source| Error::Corrupt { slot: slot.into(), source })?;
                self.write(slot, &block)
            }
        }
    }

    /// Stores a slot unchanged. The slot must be empty, or a hole that was created with the block.
    fn load_slot(&mut self, nth: u32, slot: Slot<'_>) -> Result<(), Error> {
        let request = self.request.get_or_insert_with(|| Request::begin(self.table));
        let entry = self.table.lock(nth, request.now_seconds)?;
        let is_free = match Slot::of(entry.content()) {
            Slot::Empty => !is_block_active(self.table, nth),
            held => held == Slot::Hole,
        };
        if !is_free {
            return Err(Error::NotEmpty);
        }
        self.table.store(request.shard, (nth, entry), slot).map(drop)
    }

    /// Stores a block's object unchanged.
    fn load_block(&mut self, record: Record, object: &[u8]) -> Result<(), Error> {
        let (table, layout) = (self.table, self.table.layout);
        let (first, live) = (record.slot, Members::of(record.live));
        let request = self.request.get_or_insert_with(|| Request::begin(table));
        let block = layout.block_of(first);
        let entry = table.lock(layout.block_entry(block), request.now_seconds)?;
        if !slot::is_empty(entry.content()) {
            return Err(Error::NotEmpty);
        }
        let room = entry.reserve(object).map_err(|error| table.out_of_memory(first, error))?;
        // A slot that is not a live member becomes a hole. A later record can contain data for the
        // slot.
        let mut entries = Vec::with_capacity(self.slots as usize);
        for slot in layout.slots_of(block).filter(|slot| !live.has(slot - first)) {
            entries.push((table.lock(slot, request.now_seconds)?, Payload::HOLE));
        }
        entries.extend(lock_slots(table, block, live).map(|(_, entry)| (entry, Payload::EMPTY)));
        if entries.iter().any(|(entry, _)| !slot::is_empty(entry.content())) {
            return Err(Error::NotEmpty);
        }
        let (block, new) =
            ((block, entry), Some((room, object, Flags::of_priority(record.priority))));
        BlockUpdate { block, slots: entries, new, live: [0, live.count()] }
            .apply(table, request.shard);
        Ok(())
    }

    /// Decompresses a block's object, and writes the data of its live members.
    fn write_block(&mut self, record: Record, object: &[u8]) -> Result<(), Error> {
        let (slot, flags) = (record.slot.into(), Flags::of_priority(record.priority));
        let stored = BlockObject::new(object, flags, self.slots);
        let stored = stored.ok_or(Error::Damaged { slot })?;
        let codecs = self.block_codecs.as_mut().unwrap_or(&mut self.slot_codecs);
        let decoded = stored.decode(codecs, &mut self.block);
        decoded.map_err(|source| Error::Corrupt { slot, source })?;
        let block = std::mem::take(&mut self.block);
        let written = Members::of(record.live).iter().try_for_each(|nth| {
            let at = stored.members.before(nth) * SLOT_BYTES;
            self.write(record.slot + nth, &block[at..at + SLOT_BYTES])
        });
        self.block = block;
        written
    }

    /// Adds a slot to the run if the slot continues the run within one block of the device.
    /// Otherwise, writes the run, and begins a new run with the slot.
    fn write(&mut self, slot: u32, bytes: &[u8]) -> Result<(), Error> {
        let (first, run) = (self.run.0, self.run.1.len() / SLOT_BYTES);
        let is_next = first + run as u64 == u64::from(slot);
        let begins = slot.is_multiple_of(self.table.layout.slots());
        if !is_next || begins || run == 0 {
            self.flush()?;
            self.run.0 = slot.into();
        }
        self.run.1.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes the slots of the run as a request would.
    fn flush(&mut self) -> Result<(), Error> {
        if self.run.1.is_empty() {
            return Ok(());
        }
        self.request = None;
        let written = request::write(self.table, self.run.0 * SLOT_BYTES as u64, &self.run.1);
        self.run.1.clear();
        written.map(|_| ())
    }
}

/// Returns for each priority whether the file and the device have equal algorithms and
/// dictionaries.
fn same_algorithms(file: &AlgorithmList, device: &AlgorithmList) -> [bool; 4] {
    std::array::from_fn(|nth| match (&file[nth], &device[nth]) {
        (Some(Algorithm { codec, params }), Some(of_device)) => {
            codec.name() == of_device.codec.name()
                && params.dictionary == of_device.params.dictionary
        }
        _ => false,
    })
}
