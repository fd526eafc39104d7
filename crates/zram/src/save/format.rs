//! The format of saved files: header, chunks, trailer. Numbers are little-endian.
//!
//! ```text
//!   header   | magic 8 | version 4 | bytes 4 | id 8 | disksize 8 | order 4 |
//!            | 4 x (name 16, bytes of dictionary 4) | crc32 of all before 4
//!            | dictionaries | crc32 of the dictionaries 4 | zeros to 4 KiB |
//!   chunk    | magic 8 | id 8 | number 4 | records 4 | bytes 4 | crc32 of records and objects 4 |
//!            | first slot 4 | end 4 | crc32 of all before 4 | 0 4
//!            | records | their objects | zeros to 4 KiB |
//!   record   | slot 4 | kind 1 | priority 1 | live 2 | pattern or length 8 |
//!   trailer  a chunk whose first slot and end are both the end of the device. It has no records,
//!            or, if slots are lost, one of kind `Lost` whose value is their number
//! ```
//! A chunk holds all data of the slots from `first slot` to `end - 1`. A block never lies in two
//! chunks.

use crate::SLOT_BYTES;
use crate::algorithms::SECONDARY_MAX;
use crate::block::Members;
use crate::slot::{Flags, Slot};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use zsmalloc::{Content, ORDER_MAX};

pub(crate) const MAGIC: [u8; 8] = *b"uzram\x1a\r\n";
pub(crate) const CHUNK_MAGIC: [u8; 8] = *b"\x8bchunk\r\n";
pub(crate) const VERSION: u32 = 1;
/// The alignment of headers and chunks in a file, in bytes.
pub(crate) const ALIGN: usize = 4096;
/// The maximum total length of a chunk's records and objects, in bytes.
pub(crate) const CHUNK_MAX: usize = 1 << 20;
/// The number of algorithms in a header: the device's own and those for recompression.
pub(crate) const ALGORITHMS: usize = 1 + SECONDARY_MAX;
/// The length of an algorithm's name and the zeros that pad it, in bytes.
pub(crate) const NAME: usize = 16;
/// The length of a file's header before the dictionaries, in bytes.
pub(crate) const FILE_HEAD_BYTES: usize = 36 + ALGORITHMS * (NAME + 4) + 4;
pub(crate) const CHUNK_HEAD_BYTES: usize = 48;
pub(crate) const RECORD_BYTES: usize = 16;
/// The maximum number of bytes that one block and its slots add to a chunk.
pub(crate) const BLOCK_ROOM: usize = (2 * (SLOT_BYTES + RECORD_BYTES)) << ORDER_MAX;

/// The header of a file without the dictionaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHead {
    /// The length of the header with the dictionaries, without the padding, in bytes.
    pub(crate) bytes: u32,
    /// A random number, which each chunk of the file contains, too.
    pub(crate) id: u64,
    pub(crate) disksize: u64,
    /// The order of the saved device's blocks.
    pub(crate) order: u32,
    /// For each priority, the name of the algorithm, or zeros if there is none, and the length of
    /// the algorithm's dictionary.
    pub(crate) algorithms: [([u8; NAME], u32); ALGORITHMS],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkHead {
    pub(crate) id: u64,
    /// The number of the chunk, counted from 0.
    pub(crate) number: u32,
    pub(crate) records: u32,
    /// The length of the records and their objects in bytes.
    pub(crate) bytes: u32,
    /// The crc32 of the records and their objects.
    pub(crate) sum: u32,
    pub(crate) first: u32,
    /// The end of the chunk's range: the number of its last slot plus 1.
    pub(crate) end: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// A same-filled slot. The record contains the pattern.
    Pattern = 1,
    /// A slot with an object of its own.
    Slot = 2,
    /// The object of a block. Only the live members contain valid data.
    Block = 3,
    /// A slot whose data could not be read.
    Lost = 4,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The slot, or the first slot of the block.
    pub(crate) slot: u32,
    pub(crate) kind: RecordKind,
    pub(crate) priority: u8,
    /// The live members of the block: one bit for each slot.
    pub(crate) live: u16,
    /// The pattern, or the length of the object. For a lost slot, the value is 0. In the trailer,
    /// the value is the number of lost slots.
    pub(crate) value: u64,
}

/// A reader of little-endian numbers from the front of a slice. A read beyond the end returns 0.
struct LittleEndian<'b>(&'b [u8]);

impl LittleEndian<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (taken, rest) = self.0.split_first_chunk().unwrap_or((&[0; N], &[]));
        self.0 = rest;
        *taken
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}

/// Returns the number of zeros that pad `bytes` bytes to a multiple of [`ALIGN`].
pub(crate) fn padding(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGN) - bytes
}

impl FileHead {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FILE_HEAD_BYTES);
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend(self.bytes.to_le_bytes());
        out.extend(self.id.to_le_bytes());
        out.extend(self.disksize.to_le_bytes());
        out.extend(self.order.to_le_bytes());
        for (name, bytes) in self.algorithms {
            out.extend(name);
            out.extend(bytes.to_le_bytes());
        }
        out.extend(crc32fast::hash(&out).to_le_bytes());
        out
    }

    /// Decodes a header. An error contains the offset of the invalid field, and the reason.
    pub(crate) fn decode(bytes: &[u8; FILE_HEAD_BYTES]) -> Result<Self, (u64, String)> {
        let mut numbers = LittleEndian(bytes);
        if numbers.take() != MAGIC {
            return Err((0, "it is not a saved device".to_owned()));
        }
        let version = numbers.u32();
        if version != VERSION {
            let reason =
                format!("its format version is {version}, and this program knows {VERSION}");
            return Err((8, reason));
        }
        let head = FileHead {
            bytes: numbers.u32(),
            id: numbers.u64(),
            disksize: numbers.u64(),
            order: numbers.u32(),
            algorithms: std::array::from_fn(|_| (numbers.take(), numbers.u32())),
        };
        if numbers.u32() != crc32fast::hash(&bytes[..FILE_HEAD_BYTES - 4]) {
            return Err((0, "the header's checksum differs".to_owned()));
        }
        Ok(head)
    }
}

impl ChunkHead {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(CHUNK_HEAD_BYTES);
        out.extend(CHUNK_MAGIC);
        out.extend(self.id.to_le_bytes());
        let ChunkHead { number, records, bytes, sum, first, end, .. } = *self;
        for field in [number, records, bytes, sum, first, end] {
            out.extend(field.to_le_bytes());
        }
        out.extend(crc32fast::hash(&out).to_le_bytes());
        out.resize(CHUNK_HEAD_BYTES, 0);
        out
    }

    /// Decodes the header of a chunk, which must belong to the file with the id `id`.
    pub(crate) fn decode(bytes: &[u8; CHUNK_HEAD_BYTES], id: u64) -> Result<Self, &'static str> {
        let head = Self::decode_any(bytes)?;
        if head.id == id { Ok(head) } else { Err("the chunk belongs to another file") }
    }

    /// Decodes the header of a chunk. The bytes may come from any file.
    pub(crate) fn decode_any(bytes: &[u8; CHUNK_HEAD_BYTES]) -> Result<Self, &'static str> {
        let mut numbers = LittleEndian(bytes);
        if numbers.take() != CHUNK_MAGIC {
            return Err("no chunk begins here");
        }
        let head = ChunkHead {
            id: numbers.u64(),
            number: numbers.u32(),
            records: numbers.u32(),
            bytes: numbers.u32(),
            sum: numbers.u32(),
            first: numbers.u32(),
            end: numbers.u32(),
        };
        let (sum, zero) = (numbers.u32(), numbers.u32());
        let records = u64::from(head.records) * RECORD_BYTES as u64;
        if sum != crc32fast::hash(&bytes[..CHUNK_HEAD_BYTES - 8]) || zero != 0 {
            Err("the checksum of a chunk's header differs")
        } else if records > head.bytes.into() || head.bytes as usize > CHUNK_MAX {
            Err("the chunk's length is invalid")
        } else {
            Ok(head)
        }
    }
}

/// Returns true if a file ends with a trailer that reports no lost slots.
pub(crate) fn is_whole(file: &File) -> io::Result<bool> {
    let mut last = [0; CHUNK_HEAD_BYTES];
    let Some(at) = file.metadata()?.len().checked_sub(ALIGN as u64) else { return Ok(false) };
    file.read_exact_at(&mut last, at)?;
    Ok(ChunkHead::decode_any(&last).is_ok_and(|head| head.records == 0 && head.first == head.end))
}

impl Record {
    /// Returns the record of slot `nth`, and its object. Returns `None` if the slot holds no data
    /// of its own in memory.
    pub(crate) fn of(nth: u32, slot: Slot<'_>) -> Option<(Self, &[u8])> {
        let (kind, priority, bytes, value) = match slot {
            Slot::Same(pattern) => (RecordKind::Pattern, 0, &[][..], pattern),
            Slot::Compressed { bytes, priority } => {
                (RecordKind::Slot, priority, bytes, bytes.len() as u64)
            }
            Slot::Raw(bytes) => (RecordKind::Slot, 0, &bytes[..], bytes.len() as u64),
            Slot::Empty | Slot::Hole | Slot::Backed(_) => return None,
        };
        Some((Record { slot: nth, kind, priority, live: 0, value }, bytes))
    }

    /// Returns the record of a block's object. `first` is the block's first slot.
    pub(crate) fn of_block(first: u32, live: Members, bytes: &[u8], flags: Flags) -> Self {
        let (priority, live, value) = (flags.priority(), live.bits(), bytes.len() as u64);
        Record { slot: first, kind: RecordKind::Block, priority, live, value }
    }

    /// Returns the slot that the record and its object describe, or [`Slot::Empty`] if the record
    /// describes a block or a lost slot.
    pub(crate) fn to_slot<'o>(self, object: &'o [u8]) -> Slot<'o> {
        let flags = Flags::of_priority(self.priority).bits();
        match self.kind {
            RecordKind::Pattern => Slot::Same(self.value),
            RecordKind::Slot => Slot::of(Content::Object { bytes: object, flags }),
            RecordKind::Block | RecordKind::Lost => Slot::Empty,
        }
    }

    /// Returns the record of a lost slot; `value` is 0 except in a trailer.
    pub(crate) fn lost(slot: u32, value: u64) -> Self {
        Record { slot, kind: RecordKind::Lost, priority: 0, live: 0, value }
    }

    /// Returns the number of slots whose data the record and its object contain.
    pub(crate) fn slots(&self) -> u32 {
        match self.kind {
            RecordKind::Block => self.live.count_ones(),
            RecordKind::Pattern | RecordKind::Slot => 1,
            RecordKind::Lost => 0,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.slot.to_le_bytes());
        out.extend([self.kind as u8, self.priority]);
        out.extend(self.live.to_le_bytes());
        out.extend(self.value.to_le_bytes());
    }

    pub(crate) fn decode(bytes: &[u8; RECORD_BYTES]) -> Option<Self> {
        let mut numbers = LittleEndian(bytes);
        let slot = numbers.u32();
        let [kind, priority] = numbers.take();
        let kind = match kind {
            1 => RecordKind::Pattern,
            2 => RecordKind::Slot,
            3 => RecordKind::Block,
            4 => RecordKind::Lost,
            _ => return None,
        };
        let live = u16::from_le_bytes(numbers.take());
        Some(Record { slot, kind, priority, live, value: numbers.u64() })
    }

    /// Returns the length of the record's object in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        match self.kind {
            RecordKind::Pattern | RecordKind::Lost => 0,
            RecordKind::Slot | RecordKind::Block => self.value,
        }
    }
}
