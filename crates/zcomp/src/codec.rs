//! The traits of a codec, of a codec that is prepared with parameters, and of a stream.

use crate::policy::BLOCK_BYTES_MAX;
use std::fmt::Debug;
use std::ops::RangeInclusive;

use crate::{Dictionary, Error};

/// The parameters of a codec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Params {
    /// The level, see [`Codec::levels`]; `None` selects the codec's default.
    pub level: Option<i32>,
    /// The dictionary that compressed blocks can refer to. Blocks can be decompressed only with the
    /// dictionary with which they were compressed.
    pub dictionary: Option<Dictionary>,
}

impl Params {
    /// Returns the level, or `default` if none is set.
    pub(crate) fn level_of(&self, default: i32) -> i32 {
        self.level.unwrap_or(default)
    }
}

/// A compression algorithm. Each codec is one constant, see [`codecs`](crate::codecs).
pub trait Codec: Send + Sync + Debug {
    /// Returns the codec's name in the kernel.
    fn name(&self) -> &'static str;

    /// Returns the range of levels. For lz4, the level is the acceleration, and higher levels are
    /// faster. For lz4hc and zstd, higher levels compress better. For zstd, negative levels are
    /// faster, and 0 selects the default.
    fn levels(&self) -> RangeInclusive<i32>;

    /// Returns the level that is used if [`Params::level`] is `None`.
    fn default_level(&self) -> i32;

    /// Checks that the level is one of [`levels`](Codec::levels). Only [`prepare`](Codec::prepare)
    /// checks whether the codec can use the dictionary.
    ///
    /// # Errors
    /// [`Error::Level`]: the level is out of range.
    fn check(&self, params: &Params) -> Result<(), Error> {
        let (level, range) = (params.level_of(self.default_level()), self.levels());
        if range.contains(&level) {
            return Ok(());
        }
        Err(Error::Level { codec: self.name(), level, range })
    }

    /// Checks the parameters for streams with blocks of `block` bytes, and digests the dictionary.
    /// The streams share the digest.
    ///
    /// # Errors
    /// The errors of [`check`](Codec::check); [`Error::Block`] if `block` is 0 or exceeds
    /// [`BLOCK_BYTES_MAX`]; [`Error::Dictionary`] if the codec can't use the dictionary;
    /// [`Error::NoMemory`].
    fn prepare(&self, params: &Params, block: usize) -> Result<Box<dyn Prepared>, Error>;
}

/// A codec with its parameters, which creates streams. This value and its streams share the
/// dictionary's digest, which is freed when all of them are dropped.
pub trait Prepared: Send + Sync + Debug {
    /// Returns the size of the memory that a stream needs for all its contexts, in bytes: a
    /// multiple of 8.
    fn stream_bytes(&self) -> usize;

    /// Returns the size of the memory that all streams share, in bytes: the dictionary and its
    /// digest.
    fn bytes(&self) -> usize;

    /// Returns a stream, which owns the memory of its contexts and allocates no memory later. lz4hc
    /// is an exception: from level 10 on, each call allocates 64 KiB on the heap. If that
    /// allocation fails, `compress` returns `Ok(None)`.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    fn stream(&self) -> Result<Box<dyn Stream>, Error>;
}

/// The contexts of a codec. Only one thread at a time can use them. A call that fails does not
/// affect later calls.
pub trait Stream: Send {
    /// Compresses `src` into `dst` and returns the compressed length. Returns `Ok(None)` if the
    /// result does not fit in `dst`. `src` must not be longer than the stream's blocks.
    ///
    /// The result depends only on the source, the parameters and the length of `dst`. With lz4 and
    /// lz4hc, a `dst` of the result's length suffices. With zstd, `dst` should be about ten bytes
    /// longer. Otherwise, zstd can return `Ok(None)`, or a longer result than necessary.
    ///
    /// # Errors
    /// [`Error::TooLong`]: `src` is longer than the block for which the stream was created.
    fn compress(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>, Error>;

    /// Decompresses all of `src` into exactly `dst.len()` bytes. If `src` was compressed with
    /// another dictionary, the result can differ from the original bytes.
    ///
    /// # Errors
    /// [`Error::Corrupt`]: the data are invalid, or decompress to another length. A part of `dst`
    /// may then have been overwritten.
    fn decompress(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), Error>;
}

/// Checks the level and the block size, as the first step of every codec's `prepare`.
pub(crate) fn check_stream(codec: &dyn Codec, params: &Params, block: usize) -> Result<(), Error> {
    codec.check(params)?;
    if (1..=BLOCK_BYTES_MAX).contains(&block) {
        return Ok(());
    }
    Err(Error::Block { block, max: BLOCK_BYTES_MAX })
}
