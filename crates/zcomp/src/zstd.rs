//! zstd, the codec that compresses best. A compressed block is a zstd frame without magic number,
//! content size, checksum and dictionary id. The frame has a header of two bytes, followed by
//! zstd's own blocks.
//!
//! # Safety
//! All contexts are static. They lie in a [`ContextMemory`] that the stream or the
//! [`ZstdDictionary`] owns. The library allocates no memory for contexts, and fails if a context
//! does not fit in its memory. For any compressed data, a call accesses only the ranges that are
//! passed, and the ranges that a digested dictionary refers to.
#![allow(unsafe_code)]

use std::ops::RangeInclusive;
use std::ptr::NonNull;
use std::sync::Arc;

use zstd_safe::zstd_sys::{
    self as sys, ZSTD_CCtx, ZSTD_CDict, ZSTD_DCtx, ZSTD_DDict, ZSTD_ErrorCode, ZSTD_ParamSwitch_e,
    ZSTD_cParameter, ZSTD_compressionParameters, ZSTD_dParameter, ZSTD_dictContentType_e,
    ZSTD_dictLoadMethod_e, ZSTD_format_e, ZSTD_strategy,
};

use crate::codec::check_stream;
use crate::memory::{ContextMemory, bytes_for};
use crate::names::ZSTD as NAME;
use crate::{Codec, Dictionary, Error, Params, Prepared, Stream};

/// The default level of the library and of the kernel.
const LEVEL_DEFAULT: i32 = 3;

/// The codec. The levels are those of the library.
#[derive(Debug)]
pub(crate) struct Zstd;

impl Codec for Zstd {
    fn name(&self) -> &'static str {
        NAME
    }

    fn levels(&self) -> RangeInclusive<i32> {
        // SAFETY: both functions have no requirements and return constants.
        unsafe { sys::ZSTD_minCLevel()..=sys::ZSTD_maxCLevel() }
    }

    fn default_level(&self) -> i32 {
        LEVEL_DEFAULT
    }

    fn prepare(&self, params: &Params, block: usize) -> Result<Box<dyn Prepared>, Error> {
        check_stream(self, params, block)?;
        let level = params.level_of(self.default_level());
        let dictionary_bytes =
            params.dictionary.as_ref().map_or(0, |content| content.bytes().len());
        // SAFETY: these functions compute results from their arguments. The parameters that are
        // passed to the estimates come from the library.
        let (cparams, encoder_bytes, decoder_bytes) = unsafe {
            let cparams = sys::ZSTD_getCParams(level, block as u64, dictionary_bytes);
            let of_encoder = match dictionary_bytes {
                0 => cparams,
                _ => beside_dictionary(cparams, block),
            };
            (
                cparams,
                sys::ZSTD_estimateCCtxSize_usingCParams(of_encoder),
                sys::ZSTD_estimateDCtxSize(),
            )
        };
        let encoder_bytes = check_code(encoder_bytes)?;
        let stream_bytes = bytes_for(&[decoder_bytes, encoder_bytes])?;
        let digested = |content| ZstdDictionary::new(content, cparams).map(Arc::new);
        let dictionary = params.dictionary.as_ref().map(digested).transpose()?;
        Ok(Box::new(PreparedZstd {
            level,
            block,
            cparams,
            encoder_bytes,
            decoder_bytes,
            stream_bytes,
            dictionary,
        }))
    }
}

/// The library may compress blocks of at least this number of bytes without the digest's tables.
const DIGEST_BYTES_MAX: usize = 128 << 10;

/// Returns the size in bytes of the largest block for which the library uses the digest's tables
/// without a copy. For a larger block the library copies the digest's tables to the tables of the
/// context.
fn attached_bytes_max(strategy: ZSTD_strategy) -> usize {
    match strategy {
        ZSTD_strategy::ZSTD_dfast => 16 << 10,
        ZSTD_strategy::ZSTD_greedy
        | ZSTD_strategy::ZSTD_lazy
        | ZSTD_strategy::ZSTD_lazy2
        | ZSTD_strategy::ZSTD_btlazy2
        | ZSTD_strategy::ZSTD_btopt => 32 << 10,
        _ => 8 << 10,
    }
}

/// Returns the parameters that are passed to estimate the size of an encoder whose dictionary was
/// digested with `cparams`. For blocks below [`DIGEST_BYTES_MAX`], the window covers only a block.
/// The tables also cover only a block, except if the library copies the digest's tables. The size
/// of a table for matches of three bytes depends on the window of `cparams`. If the estimate were
/// too small, the compression of the first block would fail.
fn beside_dictionary(
    cparams: ZSTD_compressionParameters,
    block: usize,
) -> ZSTD_compressionParameters {
    if block >= DIGEST_BYTES_MAX {
        return cparams;
    }
    // SAFETY: the function computes its result from its arguments, which are allowed to have any
    // value.
    let of_block = unsafe { sys::ZSTD_adjustCParams(cparams, block as u64, 0) };
    let tables = match block <= attached_bytes_max(cparams.strategy) {
        true => of_block,
        false => cparams,
    };
    let window = if cparams.minMatch == 3 { cparams.windowLog } else { of_block.windowLog };
    ZSTD_compressionParameters { windowLog: window, ..tables }
}

/// A dictionary with its digests for compression and decompression.
#[derive(Debug)]
struct ZstdDictionary {
    /// The digest for compression. Both digests lie in the memory, and refer to `content`.
    encoding: NonNull<ZSTD_CDict>,
    decoding: NonNull<ZSTD_DDict>,
    content: Dictionary,
    memory: ContextMemory,
}

// SAFETY: no code writes to either digest after `new` returns. The library takes const pointers,
// which several threads are allowed to pass. The content and the memory are `Send`, and only the
// size of `memory` is read.
unsafe impl Send for ZstdDictionary {}
// SAFETY: see `Send`: no code writes to either digest after `new` returns.
unsafe impl Sync for ZstdDictionary {}

impl ZstdDictionary {
    fn new(content: &Dictionary, cparams: ZSTD_compressionParameters) -> Result<Self, Error> {
        const BY_REF: ZSTD_dictLoadMethod_e = ZSTD_dictLoadMethod_e::ZSTD_dlm_byRef;
        // If the dictionary begins like a zstd dictionary, the library uses its tables. Any other
        // dictionary is content as a whole.
        const AUTO: ZSTD_dictContentType_e = ZSTD_dictContentType_e::ZSTD_dct_auto;
        let content = content.clone();
        let (start, bytes) = (content.bytes().as_ptr().cast(), content.bytes().len());
        // SAFETY: these functions compute results from their arguments. The parameters among these
        // arguments come from the library.
        let (encoding_bytes, decoding_bytes) = unsafe {
            (
                sys::ZSTD_estimateCDictSize_advanced(bytes, cparams, BY_REF),
                sys::ZSTD_estimateDDictSize(bytes, BY_REF),
            )
        };
        let encoding_bytes = check_code(encoding_bytes)?;
        let mut memory = ContextMemory::new(&[encoding_bytes, decoding_bytes])?;
        let encoding_room = memory.take(encoding_bytes).as_ptr().cast();
        let decoding_room = memory.take(decoding_bytes).as_ptr().cast();
        // SAFETY: `take` returns separate bytes for each digest. The content is a slice that is
        // passed with its length. The content does not move while its clone exists, and the clone
        // is stored together with the digests that refer to the content.
        let (encoding, decoding) = unsafe {
            (
                sys::ZSTD_initStaticCDict(
                    encoding_room,
                    encoding_bytes,
                    start,
                    bytes,
                    BY_REF,
                    AUTO,
                    cparams,
                ),
                sys::ZSTD_initStaticDDict(
                    decoding_room,
                    decoding_bytes,
                    start,
                    bytes,
                    BY_REF,
                    AUTO,
                ),
            )
        };
        // The memory suffices, so a failure means that the dictionary is damaged.
        match (NonNull::new(encoding.cast_mut()), NonNull::new(decoding.cast_mut())) {
            (Some(encoding), Some(decoding)) => {
                Ok(ZstdDictionary { encoding, decoding, content, memory })
            }
            _ => Err(Error::Dictionary { codec: NAME, bytes }),
        }
    }

    fn bytes(&self) -> usize {
        self.content.bytes().len() + self.memory.bytes()
    }
}

/// The parameters of a stream's contexts.
#[derive(Debug)]
struct PreparedZstd {
    level: i32,
    block: usize,
    /// The parameters for blocks of the maximum size. A shorter block needs no more memory.
    cparams: ZSTD_compressionParameters,
    encoder_bytes: usize,
    decoder_bytes: usize,
    /// The size of both contexts together, in bytes.
    stream_bytes: usize,
    dictionary: Option<Arc<ZstdDictionary>>,
}

impl Prepared for PreparedZstd {
    fn stream_bytes(&self) -> usize {
        self.stream_bytes
    }

    fn bytes(&self) -> usize {
        self.dictionary.as_deref().map_or(0, ZstdDictionary::bytes)
    }

    fn stream(&self) -> Result<Box<dyn Stream>, Error> {
        let mut memory = ContextMemory::new(&[self.decoder_bytes, self.encoder_bytes])?;
        let decoder = self.decoder(&mut memory)?;
        let encoder = self.encoder(&mut memory)?;
        let (block, dictionary) = (self.block, self.dictionary.clone());
        Ok(Box::new(ZstdStream {
            encoder,
            decoder,
            block,
            _dictionary: dictionary,
            _memory: memory,
        }))
    }
}

impl PreparedZstd {
    /// Returns a context for decompression.
    fn decoder(&self, memory: &mut ContextMemory) -> Result<NonNull<ZSTD_DCtx>, Error> {
        let room = memory.take(self.decoder_bytes);
        // SAFETY: `take` returns `decoder_bytes` bytes that only this context uses.
        let decoder = unsafe { sys::ZSTD_initStaticDCtx(room.as_ptr().cast(), self.decoder_bytes) };
        let decoder = NonNull::new(decoder).ok_or(TOO_SMALL)?;
        // SAFETY: `decoder` is the context that was created above.
        check_code(unsafe {
            sys::ZSTD_DCtx_setParameter(
                decoder.as_ptr(),
                ZSTD_dParameter::ZSTD_d_experimentalParam1, // ZSTD_d_format
                ZSTD_format_e::ZSTD_f_zstd1_magicless as i32,
            )
        })?;
        if let Some(dictionary) = self.dictionary.as_deref() {
            // SAFETY: the context was created above. The stream that owns the context holds a
            // reference to the dictionary, so the dictionary exists as long as the context.
            check_code(unsafe {
                sys::ZSTD_DCtx_refDDict(decoder.as_ptr(), dictionary.decoding.as_ptr())
            })?;
        }
        Ok(decoder)
    }

    /// Returns a context for compression.
    fn encoder(&self, memory: &mut ContextMemory) -> Result<NonNull<ZSTD_CCtx>, Error> {
        let room = memory.take(self.encoder_bytes);
        // SAFETY: `take` returns `encoder_bytes` bytes that only this context uses.
        let encoder = unsafe { sys::ZSTD_initStaticCCtx(room.as_ptr().cast(), self.encoder_bytes) };
        let encoder = NonNull::new(encoder).ok_or(TOO_SMALL)?;
        for (parameter, value) in [
            (ZSTD_cParameter::ZSTD_c_compressionLevel, self.level),
            // ZSTD_c_format
            (
                ZSTD_cParameter::ZSTD_c_experimentalParam2,
                ZSTD_format_e::ZSTD_f_zstd1_magicless as i32,
            ),
            (ZSTD_cParameter::ZSTD_c_contentSizeFlag, 0),
            (ZSTD_cParameter::ZSTD_c_checksumFlag, 0),
            (ZSTD_cParameter::ZSTD_c_dictIDFlag, 0),
            // Disables long-distance matching, because the estimate does not include its tables.
            // The library enables it by default for windows of 128 MiB or more.
            (
                ZSTD_cParameter::ZSTD_c_enableLongDistanceMatching,
                ZSTD_ParamSwitch_e::ZSTD_ps_disable as i32,
            ),
        ] {
            // SAFETY: the context was created above. The library checks the other two arguments.
            check_code(unsafe { sys::ZSTD_CCtx_setParameter(encoder.as_ptr(), parameter, value) })?;
        }
        // Fixes the parameters for all blocks. By default, the library chooses parameters for the
        // length of each block. A short block might then need tables that the estimate does not
        // include.
        // SAFETY: the context was created above. The library checks the parameters.
        check_code(unsafe { sys::ZSTD_CCtx_setCParams(encoder.as_ptr(), self.cparams) })?;
        if let Some(dictionary) = self.dictionary.as_deref() {
            // SAFETY: the context was created above. The stream that owns the context holds a
            // reference to the dictionary, so the dictionary exists as long as the context.
            check_code(unsafe {
                sys::ZSTD_CCtx_refCDict(encoder.as_ptr(), dictionary.encoding.as_ptr())
            })?;
        }
        Ok(encoder)
    }
}

/// The error if a static context does not fit in memory of the size that the library estimated.
const TOO_SMALL: Error =
    Error::Library { codec: NAME, code: ZSTD_ErrorCode::ZSTD_error_memory_allocation as usize };

/// Returns `result` if it is a size, or an error if it is a negated error code of the library.
fn check_code(result: usize) -> Result<usize, Error> {
    // SAFETY: the function computes its result from its argument.
    if unsafe { sys::ZSTD_isError(result) } == 0 {
        return Ok(result);
    }
    Err(Error::Library { codec: NAME, code: result.wrapping_neg() })
}

struct ZstdStream {
    encoder: NonNull<ZSTD_CCtx>,
    decoder: NonNull<ZSTD_DCtx>,
    block: usize,
    /// The dictionary that both contexts refer to.
    _dictionary: Option<Arc<ZstdDictionary>>,
    /// The memory of both contexts. Static contexts own no other memory, so they need not be freed.
    _memory: ContextMemory,
}

// SAFETY: the contexts lie in the memory. The memory and the dictionary are `Send`. The library
// keeps no data per thread.
unsafe impl Send for ZstdStream {}

impl Stream for ZstdStream {
    fn compress(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>, Error> {
        const NO_ROOM: usize = ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall as usize;
        if src.len() > self.block {
            return Err(Error::TooLong { bytes: src.len(), block: self.block });
        }
        // SAFETY: `src` and `dst` are slices, passed with their lengths. `PreparedZstd::encoder`
        // created the context, whose memory exists as long as the stream. Only this call uses the
        // context (`&mut self`). The call starts a new session, even after a failed call.
        match check_code(unsafe {
            sys::ZSTD_compress2(
                self.encoder.as_ptr(),
                dst.as_mut_ptr().cast(),
                dst.len(),
                src.as_ptr().cast(),
                src.len(),
            )
        }) {
            Ok(written) => Ok(Some(written)),
            Err(Error::Library { code: NO_ROOM, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn decompress(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), Error> {
        let (compressed, expected) = (src.len(), dst.len());
        // SAFETY: `src` and `dst` are slices, passed with their lengths. `PreparedZstd::decoder`
        // created the context, whose memory exists as long as the stream. Only this call uses the
        // context (`&mut self`). The call restarts the context for each frame.
        let written = unsafe {
            sys::ZSTD_decompressDCtx(
                self.decoder.as_ptr(),
                dst.as_mut_ptr().cast(),
                expected,
                src.as_ptr().cast(),
                compressed,
            )
        };
        // As a number, an error code exceeds any length. The second condition rejects an empty
        // input, which the library accepts for an empty output.
        if written == expected && compressed > 0 {
            return Ok(());
        }
        Err(Error::Corrupt { codec: NAME, compressed, expected })
    }
}
