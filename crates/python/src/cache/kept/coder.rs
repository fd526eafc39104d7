//! Compression of values, piece by piece, by a few streams that threads share.

use super::refusal::Refusal;
use std::sync::Arc;
use uzram::page::fork::{Mutex, Step};
use uzram::zcomp::{Prepared, Stream};
use uzram::{Codec, Dictionary, Error, Params};

/// Room beyond the piece that a codec is given, since zstd wants some bytes more than it writes.
const SLACK: usize = 64;

/// The most threads that compress or decompress at once with one coder.
const LANES_MAX: usize = 4;
/// Streams of a coder beyond the first take this part of the limit at most.
const LANES_SHARE: usize = 128;

/// How values are compressed.
#[derive(Clone, Debug)]
pub struct Method {
    /// The algorithm.
    pub codec: &'static dyn Codec,
    /// Its level; `None` is its default.
    pub level: Option<i32>,
    /// Most bytes of a piece.
    pub block: usize,
    /// The cache's limit in bytes.
    pub limit: usize,
}

/// Which coder a piece was compressed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Form {
    /// With none: compression would not make it smaller.
    Raw = 0,
    /// With the one that the cache began with.
    First = 1,
    /// With the one whose dictionary was trained.
    Trained = 2,
}

impl Form {
    /// Returns the form that a pool's flags say.
    pub fn of_flags(flags: u8) -> Self {
        match flags {
            0 => Form::Raw,
            1 => Form::First,
            _ => Form::Trained,
        }
    }
}

/// A piece of a packed value: its form, and where it ends among the bytes.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// What it was compressed with.
    pub form: Form,
    /// The end of its bytes.
    pub end: usize,
}

/// A value as it is kept: each block of it compressed, or as it is.
#[derive(Debug)]
pub struct Packed {
    /// Bytes of the value.
    pub len: usize,
    /// The pieces, none of an empty value.
    pub pieces: Vec<Piece>,
    /// Their bytes, one after the other.
    pub bytes: Vec<u8>,
    /// What decompresses them, by form.
    pub coders: Coders,
}

/// The coders of forms `First` and `Trained`, as far as they are needed.
pub type Coders = [Option<Arc<Coder>>; 2];

/// A stream, made when it is needed first.
type Lane = Mutex<Option<Box<dyn Stream>>>;

/// A codec with a dictionary or without, and its streams.
pub struct Coder {
    /// The form of what it compresses.
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
    /// Returns a coder, whose streams are made as they are needed.
    ///
    /// # Errors
    /// The level or the dictionary is none of the algorithm's, or there is no memory.
    pub fn new(method: &Method, dictionary: Option<Dictionary>, form: Form) -> Result<Self, Error> {
        let dictionary_bytes = dictionary.as_ref().map_or(0, |content| content.bytes().len());
        let params = Params { level: method.level, dictionary };
        let prepared = method.codec.prepare(&params, method.block)?;
        let lanes = 1 + (method.limit / LANES_SHARE / prepared.stream_bytes()).min(LANES_MAX - 1);
        let lanes = (0..lanes).map(|_| Mutex::new(None)).collect();
        Ok(Coder { form, block: method.block, prepared, lanes, dictionary_bytes })
    }

    /// Returns the bytes of memory that it may take: its streams, the dictionary and its digest.
    pub fn bytes(&self) -> usize {
        self.prepared.bytes() + self.lanes.len() * self.prepared.stream_bytes()
    }

    /// Returns the bytes of its dictionary, 0 without one.
    pub fn dictionary_bytes(&self) -> usize {
        self.dictionary_bytes
    }

    /// Returns `value` packed, which no more than `most` bytes are kept of.
    ///
    /// # Errors
    /// It comes out longer, or there is no memory.
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

    /// Appends `block`, compressed if that makes it smaller, and returns how.
    ///
    /// # Errors
    /// There is no memory.
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

    /// Decompresses a block of which the compressed bytes are these.
    ///
    /// # Errors
    /// There is no memory for a stream, or they are damaged.
    pub fn unpack_block(&self, bytes: &[u8], block: &mut [u8]) -> Result<(), Error> {
        self.with_stream(|stream| stream.decompress(bytes, block))
    }

    /// Returns the most bytes of a piece.
    pub fn block(&self) -> usize {
        self.block
    }

    /// Does `work` with a stream, which may have to be waited for.
    fn with_stream<T>(
        &self,
        work: impl FnOnce(&mut dyn Stream) -> Result<T, uzram::zcomp::Error>,
    ) -> Result<T, Error> {
        let free = self.lanes.iter().find_map(|lane| lane.try_lock());
        let mut lane = free.unwrap_or_else(|| self.lanes[0].lock());
        let stream = match &mut *lane {
            Some(stream) => stream,
            none => none.insert(self.prepared.stream_owned()?),
        };
        Ok(work(&mut **stream)?)
    }

    /// Takes or releases all streams.
    pub fn at_fork(&self, step: Step) {
        self.lanes.iter().for_each(|lane| lane.at_fork(step));
    }
}

impl Packed {
    /// Writes the value to `out`, which has its length.
    ///
    /// # Errors
    /// There is no memory for a stream, or the value is damaged.
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

    /// Returns the value.
    ///
    /// # Errors
    /// As [`unpack`](Self::unpack).
    pub fn value(&self) -> Result<Vec<u8>, Error> {
        let mut value = vec![0; self.len];
        self.unpack(&mut value)?;
        Ok(value)
    }
}
