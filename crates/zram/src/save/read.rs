//! Reads saved files. A chunk is accepted if its checksums, its place among the others and all its
//! records are right. Memory is bounded by a chunk for each reading thread, whatever a file says.

use super::format::{
    ALGORITHMS, ALIGN, CHUNK_HEAD_BYTES, ChunkHead, FILE_HEAD_BYTES, FileHead, NAME, RECORD_BYTES,
    Record, RecordKind, padding,
};
use crate::algorithms::{Algorithm, AlgorithmList};
use crate::block::{BlockObject, Members};
use crate::layout::Layout;
use crate::slot::{self, Flags};
use crate::{Config, Error, SLOT_BYTES, open_file};
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use zcomp::{Dictionary, Params};

/// What can be wrong with a file.
#[derive(Debug)]
pub(crate) enum FormatError {
    Io(io::Error),
    /// It is not, from some offset on, what it must be.
    Damaged {
        offset: u64,
        reason: String,
    },
}

impl FormatError {
    pub(crate) fn at(self, path: &Path) -> Error {
        match self {
            FormatError::Io(error) => Error::path("restore from", path, &error),
            FormatError::Damaged { offset, reason } => {
                Error::Saved { path: path.to_string_lossy().into_owned(), offset, reason }
            }
        }
    }
}

fn damaged(offset: u64, reason: impl Into<String>) -> FormatError {
    FormatError::Damaged { offset, reason: reason.into() }
}

/// What a saved file says of its device.
#[derive(Clone, Debug)]
pub struct SavedHeader {
    /// Bytes of the device.
    pub disksize: u64,
    /// Bytes of its blocks.
    pub block: usize,
    /// Its own algorithm, and those of cold data.
    pub algorithms: [Option<Algorithm>; ALGORITHMS],
}

impl SavedHeader {
    /// Reads it from a file.
    ///
    /// # Errors
    /// [`Error::Saved`], [`Error::Path`].
    pub fn read(path: &Path) -> Result<Self, Error> {
        let header = open_file::to_read(path).map_err(FormatError::Io).and_then(|mut file| {
            let reader = SavedReader::new(&mut file)?;
            let (disksize, block) = (reader.head.disksize, SLOT_BYTES << reader.head.order);
            Ok(SavedHeader { disksize, block, algorithms: reader.algorithms })
        });
        header.map_err(|wrong| wrong.at(path))
    }

    /// Settings of a device like the one that was saved; levels of algorithms are the default ones.
    pub fn config(&self) -> Config {
        let mut config = Config { disksize: self.disksize, block: self.block, ..Config::default() };
        let [own, others @ ..] = self.algorithms.clone();
        if let Some(Algorithm { codec, params }) = own {
            (config.algorithm, config.params) = (codec, params);
        }
        config.recompression = others;
        config
    }
}

/// A saved file that is read chunk by chunk.
pub(crate) struct SavedReader<'r> {
    from: &'r mut (dyn Read + Send),
    /// Bytes that were read.
    at: u64,
    pub(crate) head: FileHead,
    pub(crate) algorithms: AlgorithmList,
    layout: Layout,
    /// Chunks that were read, and where the next one begins.
    number: u32,
    slot: u32,
}

/// A chunk that is right.
pub(crate) struct Chunk<'c> {
    /// Where in the file it is.
    pub(crate) offset: u64,
    /// The slots it has all of.
    pub(crate) slots: Range<u32>,
    records: &'c [[u8; RECORD_BYTES]],
    objects: &'c [u8],
}

impl<'r> SavedReader<'r> {
    /// Reads the header.
    pub(crate) fn new(from: &'r mut (dyn Read + Send)) -> Result<Self, FormatError> {
        let mut bytes = [0; FILE_HEAD_BYTES];
        read_all(from, 0, &mut bytes)?;
        let head = FileHead::decode(&bytes).map_err(|(at, reason)| damaged(at, reason))?;
        let dictionaries = read_dictionaries(from, &head)?;
        let algorithms = algorithms(&head, &dictionaries)?;
        let slots = head.disksize / SLOT_BYTES as u64;
        let layout = Some(head.order).filter(|&order| order <= zsmalloc::ORDER_MAX);
        let layout = layout.and_then(|order| Layout::new(SLOT_BYTES << order, slots).ok());
        let layout = layout.ok_or_else(|| damaged(32, "the order of the blocks is invalid"))?;
        let is_size = slots > 0 && head.disksize.is_multiple_of(SLOT_BYTES as u64);
        if !is_size || layout.entries() > u32::MAX.into() {
            return Err(damaged(24, "the size of the device is invalid"));
        }
        let at = u64::from(head.bytes) + padding(head.bytes as usize) as u64;
        Ok(SavedReader { from, at, head, algorithms, layout, number: 0, slot: 0 })
    }

    /// Returns the slots of the device, and those before which all chunks have been read.
    pub(crate) fn slots(&self) -> (u32, u32) {
        ((self.head.disksize / SLOT_BYTES as u64) as u32, self.slot)
    }

    /// Returns the next chunk, in `bytes`; `None` at the end, if that is right.
    pub(crate) fn next<'b>(
        &mut self,
        bytes: &'b mut Vec<u8>,
    ) -> Result<Option<Chunk<'b>>, FormatError> {
        let offset = self.at;
        let head = self.read_chunk(bytes)?;
        if head.number != self.number {
            let reason =
                format!("chunk {} is here, but chunk {} is expected", head.number, self.number);
            return Err(damaged(offset, reason));
        }
        if head.first != self.slot {
            let reason = format!("the chunk begins with slot {}, not {}", head.first, self.slot);
            return Err(damaged(offset, reason));
        }
        if self.is_trailer(&head) {
            if head.records > 0 {
                return Err(damaged(offset, "the trailer counts lost slots, but no chunk has any"));
            }
            let behind = self.from.read(&mut [0]).map_err(FormatError::Io)?;
            let is_end =
                if behind == 0 { Ok(None) } else { Err("there are bytes after the trailer") };
            return is_end.map_err(|reason| damaged(self.at, reason));
        }
        self.check(offset, &head, bytes)?;
        let chunk = Chunk::new(offset, &head, bytes);
        if let Some(slot) = chunk.lost().next() {
            let reason = format!("slot {slot} could not be read when this was saved");
            return Err(damaged(offset, reason));
        }
        (self.number, self.slot) = (head.number.saturating_add(1), head.end);
        Ok(Some(chunk))
    }

    /// Returns the next chunk that is right, whatever comes before it; `None` where there is no
    /// more.
    pub(crate) fn next_intact<'b>(
        &mut self,
        bytes: &'b mut Vec<u8>,
    ) -> Result<Option<Chunk<'b>>, FormatError> {
        loop {
            let offset = self.at;
            let head = match self.read_chunk(bytes) {
                Ok(head) => head,
                Err(FormatError::Damaged { .. }) if self.at > offset => continue,
                Err(FormatError::Damaged { .. }) => return Ok(None),
                Err(io) => return Err(io),
            };
            // One that is there twice, or was moved, is not its own place's.
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

    /// Reads a chunk's head and what it has, whatever it is.
    fn read_chunk(&mut self, bytes: &mut Vec<u8>) -> Result<ChunkHead, FormatError> {
        let offset = self.at;
        bytes.resize(ALIGN, 0);
        read_all(self.from, self.at, bytes)?;
        self.at += ALIGN as u64;
        let head = bytes.first_chunk::<CHUNK_HEAD_BYTES>();
        let head = head.ok_or("it is too short").and_then(|of| ChunkHead::decode(of, self.head.id));
        let head = head.map_err(|reason| damaged(offset, reason))?;
        let end = CHUNK_HEAD_BYTES + head.bytes as usize;
        bytes.resize(end + padding(end), 0);
        let rest = &mut bytes[ALIGN..];
        read_all(self.from, self.at, rest)?;
        self.at += rest.len() as u64;
        if crc32fast::hash(&bytes[CHUNK_HEAD_BYTES..end]) != head.sum {
            return Err(damaged(offset, "the checksum of the chunk differs"));
        }
        if bytes[end..].iter().any(|&byte| byte != 0) {
            return Err(damaged(offset + end as u64, "the padding after the chunk is not zero"));
        }
        Ok(head)
    }

    /// Returns whether it is what ends a file.
    fn is_trailer(&self, head: &ChunkHead) -> bool {
        let (slots, _) = self.slots();
        let is_size = matches!((head.records, head.bytes as usize), (0, 0) | (1, RECORD_BYTES));
        (head.first, head.end) == (slots, slots) && is_size
    }

    /// Whether a chunk is what it can be, record by record.
    fn check(&self, offset: u64, head: &ChunkHead, bytes: &[u8]) -> Result<(), FormatError> {
        let (slots, _) = self.slots();
        let is_border = |slot: u32| slot == slots || slot.is_multiple_of(self.layout.slots());
        if head.first > head.end || head.end > slots || !is_border(head.end) {
            return Err(damaged(offset, "the chunk's last slot is invalid"));
        }
        let chunk = Chunk::new(offset, head, bytes);
        let (mut checked, mut bytes) = (RecordOrder { floor: head.first, live: (0, 0) }, 0);
        for (nth, record) in chunk.records.iter().enumerate() {
            let at = offset + (CHUNK_HEAD_BYTES + nth * RECORD_BYTES) as u64;
            let wrong = |reason| damaged(at, format!("entry {nth}: {reason}"));
            let record = Record::decode(record).ok_or_else(|| wrong("its kind is unknown"))?;
            let object = usize::try_from(record.bytes()).ok().and_then(|len| {
                let object = chunk.objects.get(bytes..)?.get(..len)?;
                bytes += len;
                Some(object)
            });
            let object = object.ok_or_else(|| wrong("its object is longer than the chunk"))?;
            self.check_record(&mut checked, head, record, object).map_err(wrong)?;
        }
        if bytes == chunk.objects.len() {
            return Ok(());
        }
        Err(damaged(offset, "the chunk has bytes that belong to no entry"))
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

/// What records said so far: the lowest slot that may come, and the live slots of the last block.
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
    /// The one of `head`, which has been read.
    fn new(offset: u64, head: &ChunkHead, bytes: &'c [u8]) -> Self {
        let all = &bytes[CHUNK_HEAD_BYTES..CHUNK_HEAD_BYTES + head.bytes as usize];
        let (records, objects) = all.split_at(head.records as usize * RECORD_BYTES);
        Chunk { offset, slots: head.first..head.end, records: records.as_chunks().0, objects }
    }

    /// Its records, and the object of each.
    pub(crate) fn records(&self) -> impl Iterator<Item = (Record, &'c [u8])> {
        let (records, objects) = (self.records.iter(), self.objects);
        records.filter_map(Record::decode).scan(objects, |rest, record| {
            let (object, behind) = rest.split_at_checked(record.bytes() as usize)?;
            *rest = behind;
            Some((record, object))
        })
    }

    /// Returns the slots that could not be read when it was saved.
    pub(crate) fn lost(&self) -> impl Iterator<Item = u32> {
        let records = self.records.iter().filter_map(Record::decode);
        records.filter(|record| record.kind == RecordKind::Lost).map(|record| record.slot)
    }
}

fn read_all(from: &mut dyn Read, at: u64, mut buf: &mut [u8]) -> Result<(), FormatError> {
    let mut at = at;
    while !buf.is_empty() {
        match from.read(buf) {
            Ok(0) => return Err(damaged(at, "the file is cut off here")),
            Ok(read) => {
                at += read as u64;
                buf = &mut buf[read..];
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(FormatError::Io(error)),
        }
    }
    Ok(())
}

/// Returns the bytes behind the head: dictionaries, their sum, zeros.
fn read_dictionaries(from: &mut dyn Read, head: &FileHead) -> Result<Vec<u8>, FormatError> {
    let lens = head.algorithms.map(|(_, bytes)| bytes as usize);
    let (bytes, at) = (lens.iter().sum::<usize>(), FILE_HEAD_BYTES as u64);
    let is_sum = head.bytes as usize == FILE_HEAD_BYTES + bytes + size_of::<u32>();
    if lens.iter().any(|&bytes| bytes > Dictionary::BYTES_MAX) || !is_sum {
        return Err(damaged(12, "the length of the dictionaries is invalid"));
    }
    // As many as there are, not as many as are said.
    let all = bytes + size_of::<u32>() + padding(head.bytes as usize);
    let mut read = Vec::new();
    from.take(all as u64).read_to_end(&mut read).map_err(FormatError::Io)?;
    if read.len() < all {
        return Err(damaged(at + read.len() as u64, "the file is cut off here"));
    }
    let sum = read[bytes..].first_chunk().map(|sum| u32::from_le_bytes(*sum));
    let zeros = read.split_off(bytes + size_of::<u32>());
    read.truncate(bytes);
    if sum != Some(crc32fast::hash(&read)) || zeros.iter().any(|&byte| byte != 0) {
        return Err(damaged(at, "the checksum of the dictionaries differs"));
    }
    Ok(read)
}

fn algorithms(head: &FileHead, mut dictionaries: &[u8]) -> Result<AlgorithmList, FormatError> {
    let mut list = AlgorithmList::default();
    for (nth, (name, bytes)) in head.algorithms.iter().enumerate() {
        let (dictionary, rest) = dictionaries.split_at(*bytes as usize);
        dictionaries = rest;
        let at = 36 + (nth * (NAME + 4)) as u64;
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        if name.is_empty() && nth > 0 && dictionary.is_empty() {
            continue;
        }
        let name = String::from_utf8_lossy(name);
        let codec = zcomp::by_name(&name).map_err(|error| damaged(at, error.to_string()))?;
        let dictionary = Some(dictionary).filter(|bytes| !bytes.is_empty());
        let dictionary = dictionary.map(Dictionary::new).transpose();
        let dictionary = dictionary.map_err(|error| damaged(at, error.to_string()))?;
        list[nth] = Some(Algorithm { codec, params: Params { level: None, dictionary } });
    }
    Ok(list)
}
