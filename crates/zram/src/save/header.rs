//! Reads the header of a saved file: the description of the saved device, and its dictionaries.

use super::format::{ALGORITHMS, FILE_HEAD_BYTES, FileHead, NAME, padding};
use crate::algorithms::{Algorithm, AlgorithmList};
use crate::layout::Layout;
use crate::{Config, Error, SLOT_BYTES, open_file};
use std::fmt::Display;
use std::io::{self, Read};
use std::path::Path;
use zcomp::{Dictionary, Params};

/// A saved file that is being read: a reader, the file's name in errors, and the current offset.
pub(super) struct Source<'r> {
    pub(super) from: &'r mut (dyn Read + Send),
    path: &'r Path,
    pub(super) at: u64,
}

impl<'r> Source<'r> {
    pub(super) fn new(from: &'r mut (dyn Read + Send), path: &'r Path) -> Self {
        Source { from, path, at: 0 }
    }

    pub(super) fn failed(&self, error: &io::Error) -> Error {
        Error::path("restore from", self.path, error)
    }

    /// Returns the error for a file that is damaged at `offset`.
    pub(super) fn damaged(&self, offset: u64, reason: impl Display) -> Error {
        let path = self.path.to_string_lossy().into_owned();
        Error::Saved { path, offset, reason: reason.to_string() }
    }

    /// Returns an error for a file that is damaged at `offset` if `is_so` is false.
    pub(super) fn expect(
        &self,
        is_so: bool,
        offset: u64,
        reason: impl Display,
    ) -> Result<(), Error> {
        if is_so { Ok(()) } else { Err(self.damaged(offset, reason)) }
    }

    fn is_cut_off(&self) -> Error {
        self.damaged(self.at, "the file is cut off here")
    }

    pub(super) fn read(&mut self, mut buf: &mut [u8]) -> Result<(), Error> {
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
        let (head, algorithms, _) = read_header(&mut Source::new(&mut file, path))?;
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

/// Reads the header of a file, with the dictionaries. Returns the header, and the algorithms and
/// the layout of the saved device.
pub(super) fn read_header(
    source: &mut Source<'_>,
) -> Result<(FileHead, AlgorithmList, Layout), Error> {
    let mut bytes = [0; FILE_HEAD_BYTES];
    source.read(&mut bytes)?;
    let head = FileHead::decode(&bytes);
    let head = head.map_err(|(at, reason)| source.damaged(at, reason))?;
    let dictionaries = read_dictionaries(source, &head)?;
    let algorithms = algorithms(source, &head, &dictionaries)?;
    let slots = head.disksize / SLOT_BYTES as u64;
    let layout = Some(head.order).filter(|&order| order <= zsmalloc::ORDER_MAX);
    let layout = layout.and_then(|order| Layout::new(SLOT_BYTES << order, slots).ok());
    let layout = layout.ok_or_else(|| source.damaged(32, "the order of the blocks is invalid"))?;
    let is_size = slots > 0 && head.disksize.is_multiple_of(SLOT_BYTES as u64);
    let is_numbered = layout.entries() <= u32::MAX.into();
    source.expect(is_size && is_numbered, 24, "the size of the device is invalid")?;
    Ok((head, algorithms, layout))
}

/// Reads the dictionaries of the file's header, the checksum of the dictionaries, and the padding.
fn read_dictionaries(source: &mut Source<'_>, head: &FileHead) -> Result<Vec<u8>, Error> {
    let lens = head.algorithms.map(|(_, bytes)| bytes as usize);
    let bytes = lens.iter().sum::<usize>();
    let is_sum = head.bytes as usize == FILE_HEAD_BYTES + bytes + size_of::<u32>();
    let are_short = lens.iter().all(|&bytes| bytes <= Dictionary::BYTES_MAX);
    source.expect(is_sum && are_short, 12, "the length of the dictionaries is invalid")?;
    // The length in the header may be false, so memory is allocated only for bytes that exist.
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
