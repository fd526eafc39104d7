//! lz4: the fastest there is to decompress. Blocks are raw, without a frame.
//!
//! # Safety
//! The C library reads and writes only the ranges it is told of, whatever the compressed data says
//! (`LZ4_decompress_safe`). Each call below gets the start and length of one slice, or the state, which
//! lies in a [`Region`] that the stream owns.
#![allow(unsafe_code)]

use std::ops::RangeInclusive;
use std::ptr::NonNull;

use lz4_sys::{LZ4_decompress_safe, c_char, c_int, c_void};

use crate::codec::{BLOCK_BYTES_MAX, check_stream};
use crate::memory::{Region, bytes_for};
use crate::{Codec, Error, Memory, Params, Stream};

/// Kernel and library agree on it.
const NAME: &str = "lz4";

/// LZ4_ACCELERATION_MAX of the library, which silently takes this for anything above.
const ACCELERATION_MAX: i32 = 65_537;

// In lz4-sys' static library, but not in its bindings.
unsafe extern "C" {
    fn LZ4_sizeofState() -> c_int;

    // Clears the state first. The variant that does not (`_fastReset`) gains nothing here, as it clears
    // the state too once a block has 4 KiB, and makes what a shorter one compresses to depend on the
    // blocks before it.
    fn LZ4_compress_fast_extState(
        state: *mut c_void,
        src: *const c_char,
        dst: *mut c_char,
        src_bytes: c_int,
        dst_bytes: c_int,
        acceleration: c_int,
    ) -> c_int;
}

/// The codec; its level is the acceleration.
#[derive(Debug)]
pub(crate) struct Lz4;

impl Codec for Lz4 {
    fn name(&self) -> &'static str {
        NAME
    }

    fn levels(&self) -> RangeInclusive<i32> {
        1..=ACCELERATION_MAX
    }

    fn default_level(&self) -> i32 {
        1
    }

    fn stream_bytes(&self, params: &Params, block: usize) -> Result<usize, Error> {
        check_stream(self, params, block)?;
        bytes_for(&[state_bytes()]).ok_or(Error::NoMemory { bytes: usize::MAX })
    }

    fn stream<'m>(
        &self,
        params: &Params,
        block: usize,
        memory: Memory<'m>,
    ) -> Result<Box<dyn Stream + 'm>, Error> {
        let needed = self.stream_bytes(params, block)?;
        let mut region = Region::new(memory, NAME, needed)?;
        let state = region.take(state_bytes()).cast();
        let acceleration = params.level_of(self.default_level());
        Ok(Box::new(Lz4Stream { state, acceleration, block, _region: region }))
    }
}

/// Bytes of the table that compression looks for matches in.
fn state_bytes() -> usize {
    // SAFETY: returns a constant.
    let bytes = unsafe { LZ4_sizeofState() };
    bytes.unsigned_abs() as usize
}

/// A stream; decompression needs no state.
struct Lz4Stream<'m> {
    /// `state_bytes` bytes in the region, on a line.
    state: NonNull<c_void>,
    acceleration: c_int,
    /// At most BLOCK_BYTES_MAX.
    block: usize,
    _region: Region<'m>,
}

// SAFETY: the state lies in the region, which may be sent; the library keeps nothing per thread.
unsafe impl Send for Lz4Stream<'_> {}

/// BLOCK_BYTES_MAX is a C integer, and so is every length up to it.
const _: () = assert!(BLOCK_BYTES_MAX <= c_int::MAX as usize);

impl Stream for Lz4Stream<'_> {
    fn compress(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>, Error> {
        if src.len() > self.block {
            return Err(Error::TooLong { bytes: src.len(), block: self.block });
        }
        // SAFETY: `src` is a slice and not above BLOCK_BYTES_MAX, so its length is whole; `dst` is a
        // slice, told with at most its length. The state is `state_bytes` long and aligned (`take` in
        // Lz4::stream), and nobody else's (`&mut self`). The call initialises it.
        let written = unsafe {
            LZ4_compress_fast_extState(
                self.state.as_ptr(),
                src.as_ptr().cast(),
                dst.as_mut_ptr().cast(),
                src.len() as c_int,
                dst.len().min(c_int::MAX as usize) as c_int,
                self.acceleration,
            )
        };
        // Never negative, and 0 only for what does not fit: an empty block takes a byte.
        Ok((written > 0).then_some(written as usize))
    }

    fn decompress(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), Error> {
        let (compressed, expected) = (src.len(), dst.len());
        if let (Ok(src_bytes), Ok(dst_bytes)) =
            (c_int::try_from(compressed), c_int::try_from(expected))
        {
            // SAFETY: both are slices, told with their lengths.
            let written = unsafe {
                LZ4_decompress_safe(
                    src.as_ptr().cast(),
                    dst.as_mut_ptr().cast(),
                    src_bytes,
                    dst_bytes,
                )
            };
            // Less than zero: damaged. Less than `dst`: it belongs to a shorter block.
            if written == dst_bytes {
                return Ok(());
            }
        }
        Err(Error::Corrupt { codec: NAME, compressed, expected })
    }
}
