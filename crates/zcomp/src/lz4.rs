//! lz4 and lz4hc: the fastest there is to decompress. Blocks are raw, without a frame, and the same
//! to both when they are decompressed; lz4hc takes longer to find more.
//!
//! # Safety
//! Whatever the compressed data are, the C library reads and writes only the ranges that it gets
//! (`LZ4_decompress_safe_usingDict`, `_safe_partial_usingDict`), and those a state refers to. Each
//! call below gets the start and length of one slice, or a state, which lies in a [`Region`] of its
//! stream or [`Lz4Dictionary`].
#![allow(unsafe_code)]

mod runs;
mod tail;
#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;
use std::ptr::NonNull;
use std::sync::Arc;

use lz4_sys::{c_char, c_int, c_void};

use crate::codec::{BLOCK_BYTES_MAX, check_stream};
use crate::memory::{Region, bytes_for};
use crate::names;
use crate::{Codec, Dictionary, Error, Memory, Params, Prepared, Stream};
use tail::Tail;

/// LZ4_ACCELERATION_MAX of the library, which silently takes this for anything above.
const ACCELERATION_MAX: i32 = 65_537;

/// LZ4HC_MAX_CLEVEL of the kernel. The library's is 12, and it takes that for anything above.
const HIGH_LEVEL_MAX: i32 = 16;

/// How far back a match may lie, and so all that can be used of a dictionary.
const WINDOW_BYTES: usize = 64 << 10;

// In lz4-sys' static library, but not in its bindings.
unsafe extern "C" {
    fn LZ4_sizeofState() -> c_int;
    fn LZ4_sizeofStateHC() -> c_int;

    // Clears the state first. The variant that does not (`_fastReset`) gains nothing here, as it
    // clears the state too once a block has 4 KiB, and makes what a shorter one compresses to
    // depend on the blocks before it.
    fn LZ4_compress_fast_extState(
        state: *mut c_void,
        src: *const c_char,
        dst: *mut c_char,
        src_bytes: c_int,
        dst_bytes: c_int,
        acceleration: c_int,
    ) -> c_int;
    fn LZ4_initStream(state: *mut c_void, bytes: usize) -> *mut c_void;
    fn LZ4_loadDictSlow(state: *mut c_void, dictionary: *const c_char, bytes: c_int) -> c_int;
    fn LZ4_attach_dictionary(state: *mut c_void, digest: *const c_void);
    fn LZ4_compress_fast_continue(
        state: *mut c_void,
        src: *const c_char,
        dst: *mut c_char,
        src_bytes: c_int,
        dst_bytes: c_int,
        acceleration: c_int,
    ) -> c_int;

    // Forgets the blocks before by numbering places from beyond their reach, clears the state after
    // a failure or a GiB, and so gives the same bytes as a new state, of 256 KiB, in less time.
    fn LZ4_compress_HC_extStateHC_fastReset(
        state: *mut c_void,
        src: *const c_char,
        dst: *mut c_char,
        src_bytes: c_int,
        dst_bytes: c_int,
        level: c_int,
    ) -> c_int;
    fn LZ4_initStreamHC(state: *mut c_void, bytes: usize) -> *mut c_void;
    fn LZ4_resetStreamHC_fast(state: *mut c_void, level: c_int);
    fn LZ4_loadDictHC(state: *mut c_void, dictionary: *const c_char, bytes: c_int) -> c_int;
    fn LZ4_attach_HC_dictionary(state: *mut c_void, digest: *const c_void);
    fn LZ4_compress_HC_continue(
        state: *mut c_void,
        src: *const c_char,
        dst: *mut c_char,
        src_bytes: c_int,
        dst_bytes: c_int,
    ) -> c_int;

    fn LZ4_decompress_safe_usingDict(
        src: *const c_char,
        dst: *mut c_char,
        src_bytes: c_int,
        dst_bytes: c_int,
        dictionary: *const c_char,
        dictionary_bytes: c_int,
    ) -> c_int;
    fn LZ4_decompress_safe_partial_usingDict(
        src: *const c_char,
        dst: *mut c_char,
        src_bytes: c_int,
        wanted_bytes: c_int,
        dst_bytes: c_int,
        dictionary: *const c_char,
        dictionary_bytes: c_int,
    ) -> c_int;
}

/// How much of a block is decompressed.
#[derive(Clone, Copy, PartialEq)]
enum Extent {
    Whole,
    /// The bytes that fill the output.
    Beginning,
}

/// The codecs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lz4 {
    /// lz4: takes the first match it finds. Its level is the acceleration.
    Fast,
    /// lz4hc: looks for longer ones. From level 10 on each call takes 64 KiB from malloc for as
    /// long as it lasts: how the library is built leaves no other choice.
    High,
}

impl Lz4 {
    /// Returns the bytes of the tables that compression looks for matches in.
    fn state_bytes(self) -> usize {
        // SAFETY: both return constants.
        let bytes = unsafe {
            match self {
                Lz4::Fast => LZ4_sizeofState(),
                Lz4::High => LZ4_sizeofStateHC(),
            }
        };
        bytes.unsigned_abs() as usize
    }

    /// Returns a state that knows of no block yet, in the next bytes of the region.
    fn state(self, region: &mut Region<'_>) -> NonNull<c_void> {
        let bytes = self.state_bytes();
        let state = region.take(bytes).cast();
        // SAFETY: `take` gives `bytes` bytes, on a line, to this state alone; that is its size.
        unsafe {
            match self {
                Lz4::Fast => LZ4_initStream(state.as_ptr(), bytes),
                Lz4::High => LZ4_initStreamHC(state.as_ptr(), bytes),
            };
        }
        state
    }
}

impl Codec for Lz4 {
    fn name(&self) -> &'static str {
        match self {
            Lz4::Fast => names::LZ4,
            Lz4::High => names::LZ4HC,
        }
    }

    fn levels(&self) -> RangeInclusive<i32> {
        match self {
            Lz4::Fast => 1..=ACCELERATION_MAX,
            Lz4::High => 1..=HIGH_LEVEL_MAX,
        }
    }

    fn default_level(&self) -> i32 {
        match self {
            Lz4::Fast => 1,
            Lz4::High => 9,
        }
    }

    fn prepare(&self, params: &Params, block: usize) -> Result<Box<dyn Prepared>, Error> {
        check_stream(self, params, block)?;
        let level = params.level_of(self.default_level());
        let digested = |content| Lz4Dictionary::new(*self, level, content).map(Arc::new);
        let dictionary = params.dictionary.as_ref().map(digested).transpose()?;
        let stream_bytes = bytes_for(&[self.state_bytes()])?;
        Ok(Box::new(PreparedLz4 { codec: *self, level, block, stream_bytes, dictionary }))
    }
}

/// A dictionary, and the tables of where it has what.
#[derive(Debug)]
struct Lz4Dictionary {
    content: Dictionary,
    /// `state_bytes` bytes in the region, that refer to `content`.
    state: NonNull<c_void>,
    region: Region<'static>,
}

// SAFETY: nothing writes to the state once `new` is done: streams attach it, for which the library
// takes it as const. Content and region may be sent, and `region` is only asked for its size.
unsafe impl Send for Lz4Dictionary {}
// SAFETY: as above.
unsafe impl Sync for Lz4Dictionary {}

impl Lz4Dictionary {
    fn new(codec: Lz4, level: c_int, content: &Dictionary) -> Result<Self, Error> {
        let mut region = Region::owned(codec.name(), &[codec.state_bytes()])?;
        let state = codec.state(&mut region);
        let digested = Lz4Dictionary { content: content.clone(), state, region };
        let (content, bytes) = digested.window();
        // SAFETY: `state` was made for this codec by `Lz4::state`, two lines above; `window` gives
        // the start of a slice and its length; the slice stays where it is as long as `digested`,
        // which has a clone of its dictionary.
        unsafe {
            match codec {
                Lz4::Fast => LZ4_loadDictSlow(state.as_ptr(), content, bytes),
                Lz4::High => {
                    // The tables are those of the level's way to search.
                    LZ4_resetStreamHC_fast(state.as_ptr(), level);
                    LZ4_loadDictHC(state.as_ptr(), content, bytes)
                }
            };
        }
        Ok(digested)
    }

    /// Returns the end of the dictionary, which alone can be used, as the library wants it.
    fn window(&self) -> (*const c_char, c_int) {
        let bytes = self.content.bytes();
        let window = &bytes[bytes.len().saturating_sub(WINDOW_BYTES)..];
        // WINDOW_BYTES at most.
        (window.as_ptr().cast(), window.len() as c_int)
    }

    fn bytes(&self) -> usize {
        self.content.bytes().len() + self.region.bytes()
    }
}

/// A codec with its parameters.
#[derive(Debug)]
struct PreparedLz4 {
    codec: Lz4,
    level: c_int,
    /// At most BLOCK_BYTES_MAX.
    block: usize,
    stream_bytes: usize,
    dictionary: Option<Arc<Lz4Dictionary>>,
}

impl Prepared for PreparedLz4 {
    fn stream_bytes(&self) -> usize {
        self.stream_bytes
    }

    fn bytes(&self) -> usize {
        self.dictionary.as_deref().map_or(0, Lz4Dictionary::bytes)
    }

    fn stream<'m>(&self, memory: Memory<'m>) -> Result<Box<dyn Stream + 'm>, Error> {
        Ok(Box::new(self.lz4_stream(memory)?))
    }
}

impl PreparedLz4 {
    fn lz4_stream<'m>(&self, memory: Memory<'m>) -> Result<Lz4Stream<'m>, Error> {
        let PreparedLz4 { codec, level, block, .. } = *self;
        let mut region = Region::new(memory, codec.name(), self.stream_bytes)?;
        let state = match codec {
            // Each way to compress makes it; so a stream that only decompresses takes no pages.
            Lz4::Fast => region.take(codec.state_bytes()).cast(),
            Lz4::High => codec.state(&mut region),
        };
        let dictionary = self.dictionary.clone();
        Ok(Lz4Stream { codec, level, block, state, dictionary, _region: region })
    }
}

/// A stream; decompression needs no state.
struct Lz4Stream<'m> {
    codec: Lz4,
    level: c_int,
    /// At most BLOCK_BYTES_MAX.
    block: usize,
    /// `state_bytes` bytes in the region, on a line; that of lz4hc was made by `Lz4::state`.
    state: NonNull<c_void>,
    dictionary: Option<Arc<Lz4Dictionary>>,
    _region: Region<'m>,
}

// SAFETY: the state lies in the region, which may be sent, as may the dictionary; the library keeps
// nothing per thread.
unsafe impl Send for Lz4Stream<'_> {}

/// BLOCK_BYTES_MAX is a C integer, and so is every length up to it.
const _: () = assert!(BLOCK_BYTES_MAX <= c_int::MAX as usize);

impl Stream for Lz4Stream<'_> {
    fn compress(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>, Error> {
        if src.len() > self.block {
            return Err(Error::TooLong { bytes: src.len(), block: self.block });
        }
        if src.is_empty() {
            // A token that says so. The library would look below the slice's address, which is 1.
            return Ok(dst.first_mut().map(|token| *token = 0).map(|()| 1));
        }
        let length = self.encode(src, dst);
        if let Some(block) = length.and_then(|length| dst.get_mut(..length))
            && runs::has_slow_run(src, block)
        {
            runs::shorten_offsets(src, block);
        }
        Ok(length)
    }

    fn decompress(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), Error> {
        let is_done =
            Tail::of(src, dst.len()).is_some_and(|tail| self.decode_tail(&tail, src, dst));
        // Less than zero: damaged. Less than `dst`: it belongs to a shorter block.
        if is_done || self.decode(src, dst, Extent::Whole) == Some(dst.len()) {
            return Ok(());
        }
        let (codec, compressed, expected) = (self.codec.name(), src.len(), dst.len());
        Err(Error::Corrupt { codec, compressed, expected })
    }
}

impl Lz4Stream<'_> {
    /// Compresses a block that is neither empty nor too long by the library. Returns the length, or
    /// `None` if there is not enough room.
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Option<usize> {
        let (state, level) = (self.state.as_ptr(), self.level);
        let (from, bytes) = (src.as_ptr().cast(), src.len() as c_int);
        let (to, room) = (dst.as_mut_ptr().cast(), dst.len().min(c_int::MAX as usize) as c_int);
        // SAFETY: `src` is a slice and not above BLOCK_BYTES_MAX, so its length is whole; `dst` is
        // a slice, told with at most its length. The state has this codec's size, and is nobody
        // else's (`&mut self`); lz4's ways begin by making one of it; lz4hc's, which have one of
        // Lz4::state, by making that forget what came before. The dictionary was digested for the
        // same codec, and stays while the stream has its Arc.
        let written = unsafe {
            match (self.codec, &self.dictionary) {
                (Lz4::Fast, None) => {
                    LZ4_compress_fast_extState(state, from, to, bytes, room, level)
                }
                (Lz4::High, None) => {
                    LZ4_compress_HC_extStateHC_fastReset(state, from, to, bytes, room, level)
                }
                (Lz4::Fast, Some(dictionary)) => {
                    LZ4_initStream(state, self.codec.state_bytes());
                    LZ4_attach_dictionary(state, dictionary.state.as_ptr());
                    LZ4_compress_fast_continue(state, from, to, bytes, room, level)
                }
                (Lz4::High, Some(dictionary)) => {
                    LZ4_resetStreamHC_fast(state, level);
                    LZ4_attach_HC_dictionary(state, dictionary.state.as_ptr());
                    LZ4_compress_HC_continue(state, from, to, bytes, room)
                }
            }
        };
        // Never negative, and 0 only for what does not fit; from lz4hc's level 10 on, also if there
        // are no 64 KiB to be had from malloc.
        (written > 0).then_some(written as usize)
    }

    /// Decompresses a block by the library. Returns the length of its output.
    fn decode(&self, src: &[u8], dst: &mut [u8], extent: Extent) -> Option<usize> {
        let bytes = c_int::try_from(src.len()).ok()?;
        let room = c_int::try_from(dst.len()).ok()?;
        let (from, to) = (src.as_ptr().cast(), dst.as_mut_ptr().cast());
        let window = self.dictionary.as_deref().map(Lz4Dictionary::window);
        let (window, size) = window.unwrap_or((std::ptr::null(), 0));
        // SAFETY: each pointer is the start of a slice whose length is passed with it, or null with
        // the length 0, which the library takes for no dictionary.
        let written = unsafe {
            match extent {
                Extent::Whole => LZ4_decompress_safe_usingDict(from, to, bytes, room, window, size),
                Extent::Beginning => {
                    LZ4_decompress_safe_partial_usingDict(from, to, bytes, room, room, window, size)
                }
            }
        };
        usize::try_from(written).ok()
    }

    /// Decompresses the block `src` that ends in `tail`. Returns false if this is not the tail of
    /// the block, or if the library takes less time for it.
    fn decode_tail(&self, tail: &Tail<'_>, src: &[u8], dst: &mut [u8]) -> bool {
        let (plain, room) = dst.split_at_mut(tail.short_bytes());
        let is_tail = match tail.shortened(room) {
            Some(short) => self.decode(short, plain, Extent::Whole) == Some(plain.len()),
            None => {
                let plain = &mut plain[..tail.start];
                tail.is_reached(src)
                    && self.decode(src, plain, Extent::Beginning) == Some(plain.len())
            }
        };
        if is_tail {
            tail.complete(dst);
        }
        is_tail
    }
}
