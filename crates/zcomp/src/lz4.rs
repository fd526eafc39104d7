//! lz4 and lz4hc, the codecs that decompress fastest. Blocks are raw, without a frame. Both codecs
//! have the same format and the same decoder. lz4hc compresses better and more slowly than lz4.
//!
//! # Safety
//! For any compressed data, the C library accesses only the ranges that are passed
//! (`LZ4_decompress_safe_usingDict`, `_safe_partial_usingDict`), and the ranges that a state refers
//! to. Each call in this file passes the start and the length of one slice, or a state. A state
//! lies in the [`ContextMemory`] of its stream or [`Lz4Dictionary`].
#![allow(unsafe_code)]

mod runs;
mod tail;
#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;
use std::ptr::NonNull;
use std::sync::Arc;

use lz4_sys::{c_char, c_int, c_void};

use crate::codec::check_stream;
use crate::memory::{ContextMemory, bytes_for};
use crate::names;
use crate::policy::BLOCK_BYTES_MAX;
use crate::{Codec, Dictionary, Error, Params, Prepared, Stream};
use tail::Tail;

/// LZ4_ACCELERATION_MAX of the library, which silently reduces larger accelerations to this value.
const ACCELERATION_MAX: i32 = 65_537;

/// LZ4HC_MAX_CLEVEL of the kernel. The library's maximum level is 12, and the library reduces
/// higher levels to 12.
const HIGH_LEVEL_MAX: i32 = 16;

/// The maximum offset of a match in bytes. A match can't reach the parts of a dictionary that are
/// farther away.
const WINDOW_BYTES: usize = 64 << 10;

// These functions are in lz4-sys' static library, but not in its bindings.
unsafe extern "C" {
    fn LZ4_sizeofState() -> c_int;
    fn LZ4_sizeofStateHC() -> c_int;

    // This function first clears the state. The variant `_fastReset` is not faster, because it also
    // clears the state for blocks of 4 KiB or more. For a shorter block, the result of the variant
    // would depend on the previous blocks.
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

    // This function clears the state of 256 KiB only after a failure, or after 1 GiB of input. The
    // positions of a block are numbered so that no match can reach a previous block. The result is
    // the same as with a new state, and takes less time.
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

/// The part of a block that is decompressed.
#[derive(Clone, Copy, PartialEq)]
enum Extent {
    Whole,
    /// The beginning of the block, up to the length of the output.
    Beginning,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Lz4 {
    /// lz4: uses the first match that it finds. The level of lz4 is the acceleration.
    Fast,
    /// lz4hc: searches for longer matches. From level 10 on, each call allocates 64 KiB with malloc
    /// and frees them at its end. No build option of the library avoids this.
    High,
}

impl Lz4 {
    /// Returns the size of the match tables in bytes.
    fn state_bytes(self) -> usize {
        // SAFETY: both functions have no requirements and return constants.
        let bytes = unsafe {
            match self {
                Lz4::Fast => LZ4_sizeofState(),
                Lz4::High => LZ4_sizeofStateHC(),
            }
        };
        bytes.unsigned_abs() as usize
    }

    /// Initializes a new state in the next bytes of `memory`. Returns the state's address.
    fn state(self, memory: &mut ContextMemory) -> NonNull<c_void> {
        let bytes = self.state_bytes();
        let state = memory.take(bytes).cast();
        // SAFETY: `take` returns `bytes` bytes, the size of a state, aligned to a cache line. No
        // other code uses these bytes.
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

/// A dictionary and the match tables of its content.
#[derive(Debug)]
struct Lz4Dictionary {
    content: Dictionary,
    /// The pointer to a state of `state_bytes` bytes in `memory`. The state refers to `content`.
    state: NonNull<c_void>,
    memory: ContextMemory,
}

// SAFETY: no code writes to the state after `new` returns: streams pass it to the library as a
// const pointer. The content and the memory are `Send`, and only the size of `memory` is read.
unsafe impl Send for Lz4Dictionary {}
// SAFETY: see `Send`: no code writes to the state after `new` returns.
unsafe impl Sync for Lz4Dictionary {}

impl Lz4Dictionary {
    fn new(codec: Lz4, level: c_int, content: &Dictionary) -> Result<Self, Error> {
        let mut memory = ContextMemory::new(&[codec.state_bytes()])?;
        let state = codec.state(&mut memory);
        let digested = Lz4Dictionary { content: content.clone(), state, memory };
        let (content, bytes) = digested.window();
        // SAFETY: `Lz4::state` created `state` for this codec above. `window` returns the start and
        // the length of a slice. The slice does not move while `digested` exists, because
        // `digested` contains a clone of the dictionary.
        unsafe {
            match codec {
                Lz4::Fast => LZ4_loadDictSlow(state.as_ptr(), content, bytes),
                Lz4::High => {
                    // Sets the level before the dictionary, because the tables depend on the
                    // level's search method.
                    LZ4_resetStreamHC_fast(state.as_ptr(), level);
                    LZ4_loadDictHC(state.as_ptr(), content, bytes)
                }
            };
        }
        Ok(digested)
    }

    /// Returns the start and the length of the usable part of the dictionary: its last bytes.
    fn window(&self) -> (*const c_char, c_int) {
        let bytes = self.content.bytes();
        let window = &bytes[bytes.len().saturating_sub(WINDOW_BYTES)..];
        // The length is at most WINDOW_BYTES.
        (window.as_ptr().cast(), window.len() as c_int)
    }

    fn bytes(&self) -> usize {
        self.content.bytes().len() + self.memory.bytes()
    }
}

#[derive(Debug)]
struct PreparedLz4 {
    codec: Lz4,
    level: c_int,
    /// The maximum block size in bytes, at most BLOCK_BYTES_MAX.
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

    fn stream(&self) -> Result<Box<dyn Stream>, Error> {
        Ok(Box::new(self.lz4_stream()?))
    }
}

impl PreparedLz4 {
    fn lz4_stream(&self) -> Result<Lz4Stream, Error> {
        let PreparedLz4 { codec, level, block, .. } = *self;
        let mut memory = ContextMemory::new(&[codec.state_bytes()])?;
        let state = match codec {
            // Leaves the state untouched, because each compression initializes it. So a stream that
            // only decompresses touches no page of the state.
            Lz4::Fast => memory.take(codec.state_bytes()).cast(),
            Lz4::High => codec.state(&mut memory),
        };
        let dictionary = self.dictionary.clone();
        Ok(Lz4Stream { codec, level, block, state, dictionary, _memory: memory })
    }
}

/// A stream. Decompression needs no state.
struct Lz4Stream {
    codec: Lz4,
    level: c_int,
    /// The maximum block size in bytes, at most BLOCK_BYTES_MAX.
    block: usize,
    /// The pointer to a state of `state_bytes` bytes in the memory, aligned to a cache line. For
    /// lz4hc, `Lz4::state` has initialized the state.
    state: NonNull<c_void>,
    dictionary: Option<Arc<Lz4Dictionary>>,
    _memory: ContextMemory,
}

// SAFETY: the state lies in the memory. The memory and the dictionary are `Send`. The library keeps
// no data per thread.
unsafe impl Send for Lz4Stream {}

/// BLOCK_BYTES_MAX and every length up to it fit in a C integer.
const _: () = assert!(BLOCK_BYTES_MAX <= c_int::MAX as usize);

impl Stream for Lz4Stream {
    fn compress(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>, Error> {
        if src.len() > self.block {
            return Err(Error::TooLong { bytes: src.len(), block: self.block });
        }
        if src.is_empty() {
            // Writes the compressed form of an empty block: the token of a sequence without
            // literals. For an empty slice, whose address is 1, the library would read memory below
            // this address.
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
        // A negative result means damage. A result below `dst.len()` means that the block
        // decompresses to fewer bytes.
        if is_done || self.decode(src, dst, Extent::Whole) == Some(dst.len()) {
            return Ok(());
        }
        let (codec, compressed, expected) = (self.codec.name(), src.len(), dst.len());
        Err(Error::Corrupt { codec, compressed, expected })
    }
}

impl Lz4Stream {
    /// Compresses a block with the library. The block must be neither empty nor too long. Returns
    /// the compressed length, or `None` if the result does not fit in `dst`.
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Option<usize> {
        let (state, level) = (self.state.as_ptr(), self.level);
        let (from, bytes) = (src.as_ptr().cast(), src.len() as c_int);
        let (to, room) = (dst.as_mut_ptr().cast(), dst.len().min(c_int::MAX as usize) as c_int);
        // SAFETY: `src` is a slice of at most BLOCK_BYTES_MAX bytes, so its full length is passed;
        // `dst` is a slice, and at most its length is passed. The state has this codec's size, and
        // only this call uses it (`&mut self`). The functions of lz4 initialize the state first.
        // The functions of lz4hc reset the state, which `Lz4::state` initialized. The dictionary
        // was digested for the same codec, and exists while the stream holds its Arc.
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
        // The result is never negative. The result is 0 if the output does not fit. From level 10
        // of lz4hc on, it is also 0 if malloc can't allocate 64 KiB.
        (written > 0).then_some(written as usize)
    }

    /// Decompresses a block with the library. Returns the length of its output, or `None` if the
    /// block is damaged.
    fn decode(&self, src: &[u8], dst: &mut [u8], extent: Extent) -> Option<usize> {
        let bytes = c_int::try_from(src.len()).ok()?;
        let room = c_int::try_from(dst.len()).ok()?;
        let (from, to) = (src.as_ptr().cast(), dst.as_mut_ptr().cast());
        let window = self.dictionary.as_deref().map(Lz4Dictionary::window);
        let (window, size) = window.unwrap_or((std::ptr::null(), 0));
        // SAFETY: each pointer is the start of a slice, and is passed with the slice's length. A
        // null pointer is passed with the length 0, which the library treats as no dictionary.
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

    /// Decompresses the block `src`, which appears to end in `tail`. Returns false if `tail` is not
    /// the tail of the block, or if the library alone is faster. The contents of `dst` are then not
    /// valid.
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
