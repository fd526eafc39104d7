//! Compresses values in pieces, by a few codec streams that the threads share.

use super::refusal::Refusal;
use crate::Error;
use page::fork::{Mutex, Step};
use std::sync::Arc;
use zcomp::{Codec, Dictionary, Params, Prepared, Stream};

/// The number of bytes by which a codec's output buffer exceeds a piece, because zstd needs a few
/// bytes more than it writes.
const SLACK: usize = 64;

/// The maximum number of threads that compress or decompress at the same time with one coder.
const LANES_MAX: usize = 4;
/// The streams of a coder beyond the first one may use at most 1/LANES_SHARE of the limit.
const LANES_SHARE: usize = 128;

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
    /// No coder: the piece is stored uncompressed, because compression would not make it smaller.
    Raw = 0,
    /// The first coder of the cache.
    First = 1,
    /// The coder with the trained dictionary.
    Trained = 2,
}

impl Form {
    /// Returns the form that a pool's flags encode.
    pub fn of_flags(flags: u8) -> Self {
        match flags {
            0 => Form::Raw,
            1 => Form::First,
            _ => Form::Trained,
        }
    }
}

/// A piece of a packed value: its form, and its end in [`Packed::bytes`].
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// The coder that compressed the piece.
    pub form: Form,
    /// The offset of the end of the piece's bytes.
    pub end: usize,
}

/// A value in its stored form: each block of the value is compressed or unchanged.
#[derive(Debug)]
pub struct Packed {
    /// The length of the value in bytes.
    pub len: usize,
    /// The pieces of the value; an empty value has no pieces.
    pub pieces: Vec<Piece>,
    /// The bytes of the pieces, one after another.
    pub bytes: Vec<u8>,
    /// The coders that decompress the pieces, by form.
    pub coders: Coders,
}

/// The coders of forms `First` and `Trained`, if pieces need them.
pub type Coders = [Option<Arc<Coder>>; 2];

/// A stream, created at its first use.
type Lane = Mutex<Option<Box<dyn Stream>>>;

/// A codec with or without a dictionary, and its streams.
pub struct Coder {
    /// The form of the pieces that this coder compresses.
    form: Form,
    block: usize,
    prepared: Box<dyn Prepared>,
    lanes: Box<[Lane]>,
    dictionary_bytes: usize,
}

impl std::fmt::Debug for Coder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Coder").field("form", &self.form).finish_non_exhaustive()
    }
}

impl Coder {
    /// Returns a coder, whose streams are created as they are needed.
    ///
    /// # Errors
    /// If the algorithm does not accept the level or the dictionary, or memory can't be allocated.
    pub fn new(method: &Method, dictionary: Option<Dictionary>, form: Form) -> Result<Self, Error> {
        let dictionary_bytes = dictionary.as_ref().map_or(0, |content| content.bytes().len());
        let params = Params { level: method.level, dictionary };
        let prepared = method.codec.prepare(&params, method.block)?;
        let lanes = 1 + (method.limit / LANES_SHARE / prepared.stream_bytes()).min(LANES_MAX - 1);
        let lanes = (0..lanes).map(|_| Mutex::new(None)).collect();
        Ok(Coder { form, block: method.block, prepared, lanes, dictionary_bytes })
    }

    /// Returns the maximum number of bytes of memory that the coder uses: its streams, the
    /// dictionary, and the digest of the dictionary.
    pub fn bytes(&self) -> usize {
        self.prepared.bytes() + self.lanes.len() * self.prepared.stream_bytes()
    }

    /// Returns the number of bytes of the coder's dictionary, or 0 if the coder has no dictionary.
    pub fn dictionary_bytes(&self) -> usize {
        self.dictionary_bytes
    }

    /// Packs `value` into at most `most` bytes.
    ///
    /// # Errors
    /// If the result is longer, or memory can't be allocated.
    pub fn pack(self: &Arc<Self>, value: &[u8], most: usize) -> Result<Packed, Refusal> {
        let mut packed = Packed {
            len: value.len(),
            pieces: Vec::new(),
            bytes: Vec::new(),
            coders: [None, None],
        };
        packed.pieces.try_reserve(value.len().div_ceil(self.block))?;
        for block in value.chunks(self.block) {
            let form = self.pack_block(block, &mut packed.bytes)?;
            if packed.bytes.len() > most {
                return Err(Refusal::NoRoom);
            }
            packed.pieces.push(Piece { form, end: packed.bytes.len() });
            if form != Form::Raw {
                packed.coders[form as usize - 1].get_or_insert_with(|| self.clone());
            }
        }
        Ok(packed)
    }

    /// Appends `block` to `to`, compressed if compression makes the block smaller. Returns the
    /// form.
    ///
    /// # Errors
    /// If memory can't be allocated.
    pub fn pack_block(&self, block: &[u8], to: &mut Vec<u8>) -> Result<Form, Refusal> {
        let start = to.len();
        to.try_reserve(block.len() + SLACK)?;
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
    /// If memory for a stream can't be allocated, or the bytes are damaged.
    pub fn unpack_block(&self, bytes: &[u8], block: &mut [u8]) -> Result<(), Error> {
        self.with_stream(|stream| stream.decompress(bytes, block))
    }

    /// Returns the maximum length of a piece in bytes.
    pub fn block(&self) -> usize {
        self.block
    }

    /// Calls `work` with a stream. Waits until a stream is free, if necessary.
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

impl Packed {
    /// Unpacks the value into `out`, which must have the length of the value.
    ///
    /// # Errors
    /// If memory for a stream can't be allocated, or the value is damaged.
    pub fn unpack(&self, out: &mut [u8]) -> Result<(), Error> {
        let (mut start, mut rest) = (0, out);
        for piece in &self.pieces {
            let coder = self.coders.iter().flatten().find(|coder| coder.form == piece.form);
            let bytes = &self.bytes[start..piece.end];
            let len = coder.map_or(bytes.len(), |coder| coder.block);
            let (block, behind) = rest.split_at_mut(len.min(rest.len()));
            match coder {
                Some(coder) => coder.unpack_block(bytes, block)?,
                None => block.copy_from_slice(bytes),
            }
            (start, rest) = (piece.end, behind);
        }
        debug_assert!(rest.is_empty());
        Ok(())
    }

    /// Unpacks the first bytes of the value, at most `out.len()`, into `out`. Returns the length of
    /// the value.
    ///
    /// # Errors
    /// As for [`value`](Self::value).
    pub fn read(&self, out: &mut [u8]) -> Result<usize, Error> {
        if self.len <= out.len() {
            self.unpack(&mut out[..self.len])?;
        } else if !out.is_empty() {
            out.copy_from_slice(&self.value()?[..out.len()]);
        }
        Ok(self.len)
    }

    /// Returns the unpacked value.
    ///
    /// # Errors
    /// As for [`unpack`](Self::unpack), or if memory for the value can't be allocated.
    pub fn value(&self) -> Result<Vec<u8>, Error> {
        let mut value = Vec::new();
        let reserved = value.try_reserve_exact(self.len);
        reserved.map_err(|_| Error::NoMemory { bytes: self.len })?;
        value.resize(self.len, 0);
        self.unpack(&mut value)?;
        Ok(value)
    }
}
