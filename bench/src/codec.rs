//! The raw codec: what a page comes to, and what it costs, when nothing is stored around it.

use zcomp::{Params, Stream};

use crate::Error;
use crate::page::PAGE_SIZE;

/// A codec of ours with nothing around it, one block at a time, into a buffer of its own.
pub struct RawCodec {
    stream: Box<dyn Stream>,
    out: Box<[u8]>,
}

impl RawCodec {
    /// The codec `name` with its default parameters, for pages.
    pub fn new(name: &str) -> Result<RawCodec, Error> {
        RawCodec::with(name, &Params::default(), PAGE_SIZE)
    }

    /// The codec `name` for blocks of `block` bytes.
    pub fn with(name: &str, params: &Params, block: usize) -> Result<RawCodec, Error> {
        let stream = zcomp::by_name(name)?.prepare(params, block)?.stream_owned()?;
        // Twice a block is more than any codec makes of one.
        Ok(RawCodec { stream, out: vec![0; 2 * block].into() })
    }

    /// C lz4 with its default speed: what C is computed with.
    pub fn lz4() -> Result<RawCodec, Error> {
        RawCodec::new("lz4")
    }

    /// One block, compressed; it may come out longer than it was.
    pub fn compress(&mut self, block: &[u8]) -> Result<&[u8], Error> {
        let len = self.stream.compress(block, &mut self.out)?;
        Ok(&self.out[..len.unwrap_or(self.out.len())])
    }

    /// Decompresses into the whole of `block`.
    pub fn decompress(&mut self, bytes: &[u8], block: &mut [u8]) -> Result<(), Error> {
        Ok(self.stream.decompress(bytes, block)?)
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
    }
}
