//! What a codec is, what is prepared of it for all streams, and a stream.

use std::fmt::Debug;
use std::ops::RangeInclusive;

use crate::{Dictionary, Error, Memory};

/// The largest block a stream is made for: every length fits in the codecs' C integers.
pub const BLOCK_BYTES_MAX: usize = 1 << 30;

/// How a codec is to work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Params {
    /// The codec's own measure of effort, see [`Codec::levels`]; `None` is its default.
    pub level: Option<i32>,
    /// What blocks may refer to. Only the same one decompresses them.
    pub dictionary: Option<Dictionary>,
}

impl Params {
    /// Returns the level these mean to a codec with this default.
    pub(crate) fn level_of(&self, default: i32) -> i32 {
        self.level.unwrap_or(default)
    }
}

/// A way to compress blocks. There is one constant of each, see [`codecs`](crate::codecs).
pub trait Codec: Send + Sync + Debug {
    /// Returns the kernel's name for it.
    fn name(&self) -> &'static str;

    /// Returns the levels there are. For lz4 that is the acceleration (more is faster), for lz4hc
    /// and zstd the compression level (more is denser; of zstd's, below zero is faster, 0 is the
    /// default).
    fn levels(&self) -> RangeInclusive<i32>;

    /// Returns the level taken when none is given.
    fn default_level(&self) -> i32;

    /// Whether the level is one of [`levels`](Codec::levels). That the codec can use the
    /// dictionary, only [`prepare`](Codec::prepare) tells.
    ///
    /// # Errors
    /// [`Error::Level`]: it is not.
    fn check(&self, params: &Params) -> Result<(), Error> {
        let (level, range) = (params.level_of(self.default_level()), self.levels());
        if range.contains(&level) {
            return Ok(());
        }
        Err(Error::Level { codec: self.name(), level, range })
    }

    /// Checks all that streams for blocks of `block` bytes need, and makes what they share: the
    /// digest of the dictionary.
    ///
    /// # Errors
    /// As [`check`](Codec::check); [`Error::Block`] for a block of 0 bytes or above
    /// [`BLOCK_BYTES_MAX`]; [`Error::Dictionary`] for one that the codec can't use;
    /// [`Error::NoMemory`].
    fn prepare(&self, params: &Params, block: usize) -> Result<Box<dyn Prepared>, Error>;
}

/// A codec with its parameters, from which streams are made. They share its digest, which stays
/// until the last of them is gone.
pub trait Prepared: Send + Sync + Debug {
    /// Returns the bytes of memory a stream needs: all its contexts. Always whole words of 8 bytes.
    fn stream_bytes(&self) -> usize;

    /// Returns the bytes that all streams share: the dictionary and its digest.
    fn bytes(&self) -> usize;

    /// Returns a stream whose contexts lie in `memory`; nothing allocates after this call, but
    /// lz4hc from level 10 on: the library then takes 64 KiB from the heap for each call, and where
    /// there is none, what was to be compressed does not fit.
    ///
    /// # Errors
    /// [`Error::Memory`] if `memory` is smaller than [`stream_bytes`](Prepared::stream_bytes) says.
    fn stream<'m>(&self, memory: Memory<'m>) -> Result<Box<dyn Stream + 'm>, Error>;

    /// Returns a stream with memory of its own.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    fn stream_owned(&self) -> Result<Box<dyn Stream>, Error> {
        self.stream(Memory::owned(self.stream_bytes())?)
    }
}

/// A codec at work, for one thread at a time. Calls that fail leave it as good as new.
pub trait Stream: Send {
    /// Compresses `src`, at most the block, into `dst` and returns the length; `Ok(None)`: it does
    /// not fit in `dst`.
    ///
    /// What a block compresses to depends on nothing but the block, the parameters and the room:
    /// lz4 and lz4hc fit exactly where they fit, zstd wants about ten bytes beyond what it writes,
    /// and with less it may give up or come out longer than it need.
    ///
    /// # Errors
    /// [`Error::TooLong`]: `src` is longer than the block the stream was made for.
    fn compress(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>, Error>;

    /// Decompresses all of `src` into exactly `dst.len()` bytes. With another dictionary than `src`
    /// was made with, that may be other bytes than went in.
    ///
    /// # Errors
    /// [`Error::Corrupt`]: anything else came of it. `dst` then holds what came that far.
    fn decompress(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), Error>;
}

/// What every codec checks before it prepares anything: the level, then the block.
pub(crate) fn check_stream(codec: &dyn Codec, params: &Params, block: usize) -> Result<(), Error> {
    codec.check(params)?;
    if (1..=BLOCK_BYTES_MAX).contains(&block) {
        return Ok(());
    }
    Err(Error::Block { block, max: BLOCK_BYTES_MAX })
}
