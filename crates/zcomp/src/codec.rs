//! What a codec is, and a stream of one.

use std::fmt::Debug;
use std::ops::RangeInclusive;

use crate::{Error, Memory};

/// The largest block a stream is made for: every length fits in the codecs' C integers.
pub const BLOCK_BYTES_MAX: usize = 1 << 30;

/// How a codec is to work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Params {
    /// The codec's own measure of effort, see [`Codec::levels`]; `None` is its default.
    pub level: Option<i32>,
}

impl Params {
    /// The level these mean to a codec with this default.
    pub(crate) fn level_of(&self, default: i32) -> i32 {
        self.level.unwrap_or(default)
    }
}

/// A way to compress blocks. There is one constant of each, see [`codecs`](crate::codecs).
pub trait Codec: Send + Sync + Debug {
    /// The kernel's name for it.
    fn name(&self) -> &'static str;

    /// The levels there are. For lz4 that is the acceleration (more is faster), for zstd the
    /// compression level (more is denser; below zero is faster, 0 is the default).
    fn levels(&self) -> RangeInclusive<i32>;

    /// The level taken when none is given.
    fn default_level(&self) -> i32;

    /// Whether a stream can be made with these parameters.
    ///
    /// # Errors
    /// [`Error::Level`]: the level is not one of [`levels`](Codec::levels).
    fn check(&self, params: &Params) -> Result<(), Error> {
        let (level, range) = (params.level_of(self.default_level()), self.levels());
        if range.contains(&level) {
            return Ok(());
        }
        Err(Error::Level { codec: self.name(), level, range })
    }

    /// Bytes of memory a stream for blocks of `block` bytes needs: all its contexts. Always whole
    /// words of 8 bytes.
    ///
    /// # Errors
    /// As [`check`](Codec::check), and [`Error::Block`] for a block of 0 bytes or above
    /// [`BLOCK_BYTES_MAX`].
    fn stream_bytes(&self, params: &Params, block: usize) -> Result<usize, Error>;

    /// A stream whose contexts lie in `memory`; nothing allocates after this call.
    ///
    /// # Errors
    /// As [`stream_bytes`](Codec::stream_bytes), and [`Error::Memory`] if `memory` is smaller than
    /// that says.
    fn stream<'m>(
        &self,
        params: &Params,
        block: usize,
        memory: Memory<'m>,
    ) -> Result<Box<dyn Stream + 'm>, Error>;
}

/// A codec at work, for one thread at a time. Calls that fail leave it as good as new.
pub trait Stream: Send {
    /// Compresses `src`, at most the block, into `dst` and returns the length; `Ok(None)`: it does not
    /// fit in `dst`.
    ///
    /// What a block compresses to depends on nothing but the block, the parameters and the room: lz4 fits
    /// exactly where it fits, zstd wants about ten bytes beyond what it writes, and with less it may give
    /// up or come out longer than it need.
    ///
    /// # Errors
    /// [`Error::TooLong`]: `src` is longer than the block the stream was made for.
    fn compress(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>, Error>;

    /// Decompresses all of `src` into exactly `dst.len()` bytes.
    ///
    /// # Errors
    /// [`Error::Corrupt`]: anything else came of it. `dst` then holds what came that far.
    fn decompress(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), Error>;
}

/// What every codec checks before it sizes a stream: the level, then the block.
pub(crate) fn check_stream(codec: &dyn Codec, params: &Params, block: usize) -> Result<(), Error> {
    codec.check(params)?;
    if (1..=BLOCK_BYTES_MAX).contains(&block) {
        return Ok(());
    }
    Err(Error::Block { block, max: BLOCK_BYTES_MAX })
}
