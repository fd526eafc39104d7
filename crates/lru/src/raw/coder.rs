//! Compresses the pieces of values. The threads share a few codec streams.

use crate::Error;
use crate::policy::{LANES_MAX, LANES_SHARE, SLACK};
use page::fork::{Mutex, Step};
use std::sync::Arc;
use zcomp::{Codec, Dictionary, Params, Prepared, Stream};

/// The parameters of compression.
#[derive(Clone, Debug)]
pub struct Method {
    /// The algorithm.
    pub codec: &'static dyn Codec,
    /// The level of the algorithm; `None` selects the default level.
    pub level: Option<i32>,
    /// The maximum length of a piece in bytes.
    pub block: usize,
    /// The cache's limit in bytes.
    pub limit: usize,
}

/// The coder that compressed a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Form {
    /// The piece is stored uncompressed, because compression would not make it smaller.
    Raw = 0,
    /// The first coder of the cache.
    First = 1,
    /// The coder with the trained dictionary.
    Trained = 2,
}

impl Form {
    /// Returns the form that an object's flags in the pool encode.
    pub fn of_flags(flags: u8) -> Self {
        match flags {
            0 => Form::Raw,
            1 => Form::First,
            _ => Form::Trained,
        }
    }

    /// Returns the index of the form's coder in [`ByForm`]; `Raw` needs no coder.
    pub fn index(self) -> Option<usize> {
        (self as usize).checked_sub(1)
    }
}

/// The coders of the forms `First` and `Trained`. A coder that no piece needs is `None`.
pub type ByForm = [Option<Arc<Coder>>; 2];

/// A stream, created at its first use.
type Lane = Mutex<Option<Box<dyn Stream>>>;

/// A codec with or without a dictionary, and its streams.
pub struct Coder {
    /// The form of the pieces that this coder compresses.
    form: Form,
    /// The maximum length of a piece in bytes.
    pub block: usize,
    prepared: Box<dyn Prepared>,
    lanes: Box<[Lane]>,
    /// The number of bytes of the dictionary, or 0 if the coder has none.
    pub dictionary_bytes: usize,
}

impl std::fmt::Debug for Coder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Coder").field("form", &self.form).finish_non_exhaustive()
    }
}

impl Coder {
    /// Returns a coder. A stream is created at its first use.
    ///
    /// # Errors
    /// Fails if the algorithm does not accept the level or the dictionary, or memory can't be
    /// allocated.
    pub fn new(method: &Method, dictionary: Option<Dictionary>, form: Form) -> Result<Self, Error> {
        let dictionary_bytes = dictionary.as_ref().map_or(0, |content| content.bytes().len());
        let params = Params { level: method.level, dictionary };
        let prepared = method.codec.prepare(&params, method.block)?;
        let lanes = 1 + (method.limit / LANES_SHARE / prepared.stream_bytes()).min(LANES_MAX - 1);
        let lanes = (0..lanes).map(|_| Mutex::new(None)).collect();
        Ok(Coder { form, block: method.block, prepared, lanes, dictionary_bytes })
    }

    /// Returns the maximum number of bytes that the coder uses for its streams, the dictionary, and
    /// the digest of the dictionary.
    pub fn bytes(&self) -> usize {
        self.prepared.bytes() + self.lanes.len() * self.prepared.stream_bytes()
    }

    /// Appends `block` to `to`, compressed if compression makes the block smaller. Returns the form
    /// of the appended bytes.
    ///
    /// # Errors
    /// Fails if memory can't be allocated.
    pub fn pack_block(&self, block: &[u8], to: &mut Vec<u8>) -> Result<Form, Error> {
        let start = to.len();
        let reserved = to.try_reserve(block.len() + SLACK);
        reserved.map_err(|_| Error::NoMemory { bytes: block.len() })?;
        to.resize(start + block.len() + SLACK, 0);
        let compressed = self.with_stream(|stream| stream.compress(block, &mut to[start..]))?;
        let (form, len) = match compressed {
            Some(len) if len < block.len() => (self.form, len),
            _ => {
                to[start..start + block.len()].copy_from_slice(block);
                (Form::Raw, block.len())
            }
        };
        to.truncate(start + len);
        Ok(form)
    }

    /// Decompresses `bytes` into `block`.
    ///
    /// # Errors
    /// Fails if memory for a stream can't be allocated, or the bytes are damaged.
    pub fn unpack_block(&self, bytes: &[u8], block: &mut [u8]) -> Result<(), Error> {
        self.with_stream(|stream| stream.decompress(bytes, block))
    }

    /// Calls `work` with a free stream. If all streams are in use, waits for one.
    fn with_stream<T>(
        &self,
        work: impl FnOnce(&mut dyn Stream) -> Result<T, zcomp::Error>,
    ) -> Result<T, Error> {
        let free = self.lanes.iter().find_map(|lane| lane.try_lock());
        let mut lane = free.unwrap_or_else(|| self.lanes[0].lock());
        let stream = match &mut *lane {
            Some(stream) => stream,
            none => none.insert(self.prepared.stream()?),
        };
        Ok(work(&mut **stream)?)
    }

    /// Locks or unlocks all streams at a fork.
    pub fn at_fork(&self, step: Step) {
        self.lanes.iter().for_each(|lane| lane.at_fork(step));
    }
}
