//! The raw codec: what a page or a block comes to, and what it costs, when nothing is stored around
//! it.

use std::ops::Range;
use zcomp::{Error, Params, Stream};

use crate::page::{PAGE_SIZE, same_filled};

/// A codec with nothing around it, one block at a time, into a buffer of its own.
pub struct RawCodec {
    stream: Box<dyn Stream>,
    out: Box<[u8]>,
}

impl RawCodec {
    /// Returns the codec `name` with its default parameters, for pages.
    pub fn new(name: &str) -> Result<RawCodec, Error> {
        RawCodec::with(name, &Params::default(), PAGE_SIZE)
    }

    /// Returns the codec `name` for blocks of `block` bytes.
    pub fn with(name: &str, params: &Params, block: usize) -> Result<RawCodec, Error> {
        let stream = zcomp::by_name(name)?.prepare(params, block)?.stream_owned()?;
        // Twice a block is more than any codec makes of one.
        Ok(RawCodec { stream, out: vec![0; 2 * block].into() })
    }

    /// Returns C lz4 with its default speed: what C is computed with.
    pub fn lz4() -> Result<RawCodec, Error> {
        RawCodec::new("lz4")
    }

    /// Returns one block, compressed; it may come out longer than it was.
    pub fn compress(&mut self, block: &[u8]) -> Result<&[u8], Error> {
        let len = self.stream.compress(block, &mut self.out)?;
        Ok(&self.out[..len.unwrap_or(self.out.len())])
    }

    /// Decompresses into the whole of `block`.
    pub fn decompress(&mut self, bytes: &[u8], block: &mut [u8]) -> Result<(), Error> {
        self.stream.decompress(bytes, block)
    }

    /// Returns C of one page or block, in bytes: the lesser of the codec's length and its own; 0
    /// where one word fills it.
    pub fn stored_len(&mut self, block: &[u8]) -> Result<usize, Error> {
        if same_filled(block).is_some() {
            return Ok(0);
        }
        Ok(self.compress(block)?.len().min(block.len()))
    }
}

/// What came of blocks, one behind the other: so that many are compressed, and then decompressed,
/// in a row.
pub(crate) struct PackedBlocks {
    bytes: Box<[u8]>,
    /// Where each lies; `None` where there was no room for it.
    blocks: Vec<Option<Range<usize>>>,
}

impl PackedBlocks {
    /// Room for so many blocks that come to `bytes` bytes, touched.
    pub(crate) fn new(bytes: usize, blocks: usize) -> Self {
        PackedBlocks { bytes: vec![1; bytes].into(), blocks: Vec::with_capacity(blocks) }
    }

    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
    }

    /// Compresses one more.
    pub(crate) fn push(&mut self, stream: &mut dyn Stream, block: &[u8]) -> Result<(), Error> {
        let start = self.blocks.iter().rev().flatten().next().map_or(0, |last| last.end);
        let len = stream.compress(block, &mut self.bytes[start..])?;
        self.blocks.push(len.map(|len| start..start + len));
        Ok(())
    }

    /// Decompresses the block of this number, if there was room for it, into the whole of `block`.
    pub(crate) fn unpack(
        &self,
        nth: usize,
        stream: &mut dyn Stream,
        block: &mut [u8],
    ) -> Result<(), Error> {
        match self.blocks[nth].clone() {
            Some(packed) => stream.decompress(&self.bytes[packed], block),
            None => Ok(()),
        }
    }

    /// Returns C of the block of this number, which has `len` bytes.
    pub(crate) fn stored_len(&self, nth: usize, len: usize) -> usize {
        self.blocks[nth].as_ref().map_or(len, |packed| packed.len().min(len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_back() {
        let mut codec = RawCodec::lz4().unwrap();
        assert!(codec.compress(&[0; PAGE_SIZE]).unwrap().len() < 40);
        let mut word = 1_u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            (word >> 32) as u8
        })
        .take(PAGE_SIZE)
        .collect();
        let compressed = codec.compress(&noise).unwrap().to_vec();
        assert!(compressed.len() > PAGE_SIZE);
        let mut back = vec![0; PAGE_SIZE];
        codec.decompress(&compressed, &mut back).unwrap();
        assert_eq!(back, noise);
        assert_eq!(codec.stored_len(&noise).unwrap(), PAGE_SIZE);
        assert_eq!(codec.stored_len(&[7; PAGE_SIZE]).unwrap(), 0);
    }
}
