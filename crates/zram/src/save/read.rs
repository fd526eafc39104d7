//! Reads the chunks of saved files. A chunk is accepted only if its checksums, position and records
//! are valid. Each reading thread needs memory for only one chunk, even if the file is hostile.

use super::format::{
    ALIGN, CHUNK_HEAD_BYTES, ChunkHead, FileHead, RECORD_BYTES, Record, RecordKind, padding,
};
use super::header::{Source, read_header};
use crate::algorithms::AlgorithmList;
use crate::block::{BlockObject, Members};
use crate::layout::Layout;
use crate::slot::{self, Flags};
use crate::{Error, SLOT_BYTES};
use std::fmt::Display;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

/// A saved file that is read chunk by chunk.
pub(crate) struct SavedReader<'r> {
    source: Source<'r>,
    pub(crate) head: FileHead,
    pub(crate) algorithms: AlgorithmList,
    layout: Layout,
    /// The number of chunks that were read, and the first slot of the next chunk.
    number: u32,
    slot: u32,
}

/// A valid chunk.
pub(crate) struct Chunk<'c> {
    /// The chunk's offset in the file.
    pub(crate) offset: u64,
    /// The slots that the chunk covers.
    pub(crate) slots: Range<u32>,
    records: &'c [[u8; RECORD_BYTES]],
    objects: &'c [u8],
}

impl<'r> SavedReader<'r> {
    pub(crate) fn new(from: &'r mut (dyn Read + Send), path: &'r Path) -> Result<Self, Error> {
        let mut source = Source::new(from, path);
        let (head, algorithms, layout) = read_header(&mut source)?;
        Ok(SavedReader { source, head, algorithms, layout, number: 0, slot: 0 })
    }

    pub(crate) fn damaged(&self, offset: u64, reason: impl Display) -> Error {
        self.source.damaged(offset, reason)
    }

    /// Returns the number of slots of the saved device, and the slot up to which all chunks have
    /// been read.
    pub(crate) fn slots(&self) -> (u32, u32) {
        ((self.head.disksize / SLOT_BYTES as u64) as u32, self.slot)
    }

    /// Reads the next chunk into `bytes`. Returns `None` at a valid end of the file.
    pub(crate) fn next<'b>(&mut self, bytes: &'b mut Vec<u8>) -> Result<Option<Chunk<'b>>, Error> {
        let offset = self.source.at;
        let head = self.read_chunk(bytes)?;
        let (source, ChunkHead { number, first, .. }) = (&mut self.source, head);
        let (expected, slot) = (self.number, self.slot);
        let reason = format_args!("chunk {number} is here, but chunk {expected} is expected");
        source.expect(number == expected, offset, reason)?;
        let reason = format_args!("the chunk begins with slot {first}, not {slot}");
        source.expect(first == slot, offset, reason)?;
        if self.is_trailer(&head) {
            let source = &mut self.source;
            let reason = "the trailer counts lost slots, but no chunk has any";
            source.expect(head.records == 0, offset, reason)?;
            let behind = source.from.read(&mut [0]).map_err(|error| source.failed(&error))?;
            source.expect(behind == 0, source.at, "there are bytes after the trailer")?;
            return Ok(None);
        }
        self.check(offset, &head, bytes)?;
        let chunk = Chunk::new(offset, &head, bytes);
        if let Some(slot) = chunk.lost().next() {
            let reason = format_args!("slot {slot} could not be read when this was saved");
            return Err(self.damaged(offset, reason));
        }
        (self.number, self.slot) = (head.number.saturating_add(1), head.end);
        Ok(Some(chunk))
    }

    /// Reads the next valid chunk, and skips damaged parts. Returns `None` if no further valid
    /// chunk follows.
    pub(crate) fn next_intact<'b>(
        &mut self,
        bytes: &'b mut Vec<u8>,
    ) -> Result<Option<Chunk<'b>>, Error> {
        loop {
            let offset = self.source.at;
            let head = match self.read_chunk(bytes) {
                Ok(head) => head,
                Err(Error::Saved { .. }) if self.source.at > offset => continue,
                Err(Error::Saved { .. }) => return Ok(None),
                Err(io) => return Err(io),
            };
            // The chunk is a duplicate, or is not in its original position.
            if head.number < self.number || head.first < self.slot {
                continue;
            }
            if self.is_trailer(&head) {
                return Ok(None);
            }
            if self.check(offset, &head, bytes).is_ok() {
                (self.number, self.slot) = (head.number.saturating_add(1), head.end);
                return Ok(Some(Chunk::new(offset, &head, bytes)));
            }
        }
    }

    /// Reads a chunk's header and contents, without a check of the records.
    fn read_chunk(&mut self, bytes: &mut Vec<u8>) -> Result<ChunkHead, Error> {
        let offset = self.source.at;
        bytes.resize(ALIGN, 0);
        self.source.read(bytes)?;
        let head = bytes.first_chunk::<CHUNK_HEAD_BYTES>();
        let head = head.ok_or("it is too short").and_then(|of| ChunkHead::decode(of, self.head.id));
        let mut head = head.map_err(|reason| self.damaged(offset, reason))?;
        // In files of earlier versions, the last chunk can end beyond the end of the device,
        // because a last block with fewer slots was counted as a complete block.
        let slots = self.slots().0;
        for border in [&mut head.first, &mut head.end] {
            if *border < slots.saturating_add(self.layout.slots()) {
                *border = slots.min(*border);
            }
        }
        let end = CHUNK_HEAD_BYTES + head.bytes as usize;
        bytes.resize(end + padding(end), 0);
        self.source.read(&mut bytes[ALIGN..])?;
        let is_sum = crc32fast::hash(&bytes[CHUNK_HEAD_BYTES..end]) == head.sum;
        self.source.expect(is_sum, offset, "the checksum of the chunk differs")?;
        let is_zero = bytes[end..].iter().all(|&byte| byte == 0);
        let reason = "the padding after the chunk is not zero";
        self.source.expect(is_zero, offset + end as u64, reason)?;
        Ok(head)
    }

    /// Returns true if the chunk is the trailer.
    fn is_trailer(&self, head: &ChunkHead) -> bool {
        let (slots, _) = self.slots();
        let is_size = matches!((head.records, head.bytes as usize), (0, 0) | (1, RECORD_BYTES));
        (head.first, head.end) == (slots, slots) && is_size
    }

    /// Checks each record of a chunk.
    fn check(&self, offset: u64, head: &ChunkHead, bytes: &[u8]) -> Result<(), Error> {
        let (slots, _) = self.slots();
        let is_border = |slot: u32| slot == slots || slot.is_multiple_of(self.layout.slots());
        let is_last = (head.first..=slots).contains(&head.end) && is_border(head.end);
        self.source.expect(is_last, offset, "the chunk's last slot is invalid")?;
        let chunk = Chunk::new(offset, head, bytes);
        let (mut checked, mut bytes) = (RecordOrder { floor: head.first, live: (0, 0) }, 0);
        for (nth, record) in chunk.records.iter().enumerate() {
            let at = offset + (CHUNK_HEAD_BYTES + nth * RECORD_BYTES) as u64;
            let wrong = |reason| self.damaged(at, format_args!("entry {nth}: {reason}"));
            let record = Record::decode(record).ok_or_else(|| wrong("its kind is unknown"))?;
            let object = usize::try_from(record.bytes()).ok().and_then(|len| {
                let object = chunk.objects.get(bytes..)?.get(..len)?;
                bytes += len;
                Some(object)
            });
            let object = object.ok_or_else(|| wrong("its object is longer than the chunk"))?;
            self.check_record(&mut checked, head, record, object).map_err(wrong)?;
        }
        let reason = "the chunk has bytes that belong to no entry";
        self.source.expect(bytes == chunk.objects.len(), offset, reason)
    }

    fn check_record(
        &self,
        checked: &mut RecordOrder,
        head: &ChunkHead,
        record: Record,
        object: &[u8],
    ) -> Result<(), &'static str> {
        let Record { slot, kind, priority, live, value } = record;
        let (first, slots) = (slot & !(self.layout.slots() - 1), self.layout.slots());
        if !checked.admits(slot, head.end, first) {
            return Err("its slot is not above the one before");
        }
        let is_known = self.algorithms.get(priority as usize).is_some_and(Option::is_some);
        match kind {
            RecordKind::Pattern if (priority, live) == (0, 0) => {}
            RecordKind::Lost if (priority, live, value) == (0, 0, 0) => {}
            RecordKind::Slot if live == 0 && is_known && slot::is_object_len(object.len()) => {}
            RecordKind::Block if checked.has_block(first) => {
                return Err("its block occurs twice");
            }
            RecordKind::Block if self.layout.has_blocks() && slot == first && is_known => {
                let stored = BlockObject::new(object, Flags::of_priority(priority), slots);
                let stored = stored.filter(|_| object.len() <= self.layout.block_bytes());
                let (members, live) = (stored.map(|of| of.members), Members::of(live));
                let has = |nth| members.is_some_and(|members| members.has(nth));
                let is_there = |nth| slot.checked_add(nth).is_some_and(|slot| slot < head.end);
                if live == Members::default() || !live.iter().all(|nth| has(nth) && is_there(nth)) {
                    return Err("its block does not hold the slots that it lists");
                }
                *checked = RecordOrder { floor: slot, live: (slot, live.bits()) };
                return Ok(());
            }
            _ => return Err("its fields are invalid"),
        }
        checked.floor = slot + 1;
        Ok(())
    }
}

/// The state while a chunk's records are checked: the lowest slot that the next record is allowed
/// to have, and the live members of the last block.
struct RecordOrder {
    floor: u32,
    live: (u32, u16),
}

impl RecordOrder {
    fn has_block(&self, first: u32) -> bool {
        let (block, live) = self.live;
        live != 0 && block == first
    }

    fn admits(&self, slot: u32, end: u32, first: u32) -> bool {
        let is_live = self.has_block(first) && Members::of(self.live.1).has(slot - first);
        (self.floor..end).contains(&slot) && !is_live
    }
}

impl<'c> Chunk<'c> {
    /// Creates a chunk with the header `head`. The caller has checked `head`.
    fn new(offset: u64, head: &ChunkHead, bytes: &'c [u8]) -> Self {
        let all = &bytes[CHUNK_HEAD_BYTES..CHUNK_HEAD_BYTES + head.bytes as usize];
        let (records, objects) = all.split_at(head.records as usize * RECORD_BYTES);
        Chunk { offset, slots: head.first..head.end, records: records.as_chunks().0, objects }
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = (Record, &'c [u8])> {
        let (records, objects) = (self.records.iter(), self.objects);
        records.filter_map(Record::decode).scan(objects, |rest, record| {
            let (object, behind) = rest.split_at_checked(record.bytes() as usize)?;
            *rest = behind;
            Some((record, object))
        })
    }

    /// Returns the slots of the chunk that could not be read when the device was saved.
    pub(crate) fn lost(&self) -> impl Iterator<Item = u32> {
        let records = self.records.iter().filter_map(Record::decode);
        records.filter(|record| record.kind == RecordKind::Lost).map(|record| record.slot)
    }
}
