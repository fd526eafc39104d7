//! Reads saved files. A chunk is accepted only if its checksums, position and records are valid.
//! Each reading thread needs memory for only one chunk, whatever the file claims.

use super::format::{
    ALGORITHMS, ALIGN, CHUNK_HEAD_BYTES, ChunkHead, FILE_HEAD_BYTES, FileHead, NAME, RECORD_BYTES,
    Record, RecordKind, padding,
};
use crate::algorithms::{Algorithm, AlgorithmList};
use crate::block::{BlockObject, Members};
use crate::layout::Layout;
use crate::slot::{self, Flags};
use crate::{Config, Error, SLOT_BYTES, open_file};
use std::fmt::Display;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use zcomp::{Dictionary, Params};

/// The reader of a saved file's bytes, the name of the file in errors, and the current offset.
struct Source<'r> {
    from: &'r mut (dyn Read + Send),
    path: &'r Path,
    at: u64,
}

impl Source<'_> {
    fn failed(&self, error: &io::Error) -> Error {
        Error::path("restore from", self.path, error)
    }

    /// Returns the error for a file that is damaged at `offset`.
    fn damaged(&self, offset: u64, reason: impl Display) -> Error {
        let path = self.path.to_string_lossy().into_owned();
        Error::Saved { path, offset, reason: reason.to_string() }
    }

    /// Returns an error for a file that is damaged at `offset`, unless `is_so` is true.
    fn expect(&self, is_so: bool, offset: u64, reason: impl Display) -> Result<(), Error> {
        if is_so { Ok(()) } else { Err(self.damaged(offset, reason)) }
    }

    fn is_cut_off(&self) -> Error {
        self.damaged(self.at, "the file is cut off here")
    }

    fn read(&mut self, mut buf: &mut [u8]) -> Result<(), Error> {
        while !buf.is_empty() {
            match self.from.read(buf) {
                Ok(0) => return Err(self.is_cut_off()),
                Ok(read) => {
                    self.at += read as u64;
                    buf = &mut buf[read..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(&error)),
            }
        }
        Ok(())
    }
}

/// The description of the saved device in the header of a saved file.
#[derive(Clone, Debug)]
pub struct SavedHeader {
    /// The size of the device in bytes.
    pub disksize: u64,
    /// The size of a block in bytes.
    pub block: usize,
    /// The device's own algorithm, and those for cold data.
    pub algorithms: [Option<Algorithm>; ALGORITHMS],
}

impl SavedHeader {
    /// Reads the header of the saved file at `path`.
    ///
    /// # Errors
    /// [`Error::Saved`], [`Error::Path`].
    pub fn read(path: &Path) -> Result<Self, Error> {
        let mut file = open_file::to_restore(path)?;
        let SavedReader { head, algorithms, .. } = SavedReader::new(&mut file, path)?;
        Ok(SavedHeader { disksize: head.disksize, block: SLOT_BYTES << head.order, algorithms })
    }

    /// Returns the configuration of a device like the saved device, but with the default levels of
    /// the algorithms.
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
        let (mut source, mut bytes) = (Source { from, path, at: 0 }, [0; FILE_HEAD_BYTES]);
        source.read(&mut bytes)?;
        let head = FileHead::decode(&bytes);
        let head = head.map_err(|(at, reason)| source.damaged(at, reason))?;
        let dictionaries = read_dictionaries(&mut source, &head)?;
        let algorithms = algorithms(&source, &head, &dictionaries)?;
        let slots = head.disksize / SLOT_BYTES as u64;
        let layout = Some(head.order).filter(|&order| order <= zsmalloc::ORDER_MAX);
        let layout = layout.and_then(|order| Layout::new(SLOT_BYTES << order, slots).ok());
        let layout =
            layout.ok_or_else(|| source.damaged(32, "the order of the blocks is invalid"))?;
        let is_size = slots > 0 && head.disksize.is_multiple_of(SLOT_BYTES as u64);
        let is_numbered = layout.entries() <= u32::MAX.into();
        source.expect(is_size && is_numbered, 24, "the size of the device is invalid")?;
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
        // In files of earlier versions, the end of a chunk may lie beyond the end of the device, at
        // the end that a complete last block would have.
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

/// The state of the check of a chunk's records: the lowest slot that the next record may have, and
/// the live members of the last block.
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
    /// Creates the chunk with the header `head`, which the caller has checked.
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

/// Reads the rest of the file's header: dictionaries, their checksum, zeros.
fn read_dictionaries(source: &mut Source<'_>, head: &FileHead) -> Result<Vec<u8>, Error> {
    let lens = head.algorithms.map(|(_, bytes)| bytes as usize);
    let bytes = lens.iter().sum::<usize>();
    let is_sum = head.bytes as usize == FILE_HEAD_BYTES + bytes + size_of::<u32>();
    let are_short = lens.iter().all(|&bytes| bytes <= Dictionary::BYTES_MAX);
    source.expect(is_sum && are_short, 12, "the length of the dictionaries is invalid")?;
    // Memory is allocated for the bytes that exist, not for those that the header claims.
    let all = bytes + size_of::<u32>() + padding(head.bytes as usize);
    let mut read = Vec::new();
    let taken = (&mut *source.from).take(all as u64).read_to_end(&mut read);
    source.at += taken.map_err(|error| source.failed(&error))? as u64;
    if read.len() < all {
        return Err(source.is_cut_off());
    }
    let sum = read[bytes..].first_chunk().map(|sum| u32::from_le_bytes(*sum));
    let zeros = read.split_off(bytes + size_of::<u32>());
    read.truncate(bytes);
    let is_right = sum == Some(crc32fast::hash(&read)) && zeros.iter().all(|&byte| byte == 0);
    source.expect(is_right, FILE_HEAD_BYTES as u64, "the checksum of the dictionaries differs")?;
    Ok(read)
}

fn algorithms(
    source: &Source<'_>,
    head: &FileHead,
    mut dictionaries: &[u8],
) -> Result<AlgorithmList, Error> {
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
        let unfit = |error: zcomp::Error| source.damaged(at, error);
        let codec = zcomp::by_name(&name).map_err(unfit)?;
        let dictionary = Some(dictionary).filter(|bytes| !bytes.is_empty());
        let dictionary = dictionary.map(Dictionary::new).transpose().map_err(unfit)?;
        list[nth] = Some(Algorithm { codec, params: Params { level: None, dictionary } });
    }
    Ok(list)
}
