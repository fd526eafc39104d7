//! The raw codec, with which experiments measure the compressed lengths of pages and blocks, and
//! the time of compression.

use measure::page::{PAGE_SIZE, same_filled};
use zcomp::{Error, Params, Stream};

/// A codec without a store, which compresses one block at a time into its own buffer.
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
        let stream = zcomp::by_name(name)?.prepare(params, block)?.stream()?;
        // No codec's output is more than twice as long as the block.
        Ok(RawCodec { stream, out: vec![0; 2 * block].into() })
    }

    /// Returns the codec that defines C: lz4 with its default speed.
    pub fn lz4() -> Result<RawCodec, Error> {
        RawCodec::new("lz4")
    }

    /// Returns the compressed form of a block, which may be longer than the block.
    pub fn compress(&mut self, block: &[u8]) -> Result<&[u8], Error> {
        let len = self.stream.compress(block, &mut self.out)?;
        Ok(&self.out[..len.unwrap_or(self.out.len())])
    }

    /// Decompresses `bytes` into all of `block`.
    pub fn decompress(&mut self, bytes: &[u8], block: &mut [u8]) -> Result<(), Error> {
        self.stream.decompress(bytes, block)
    }

    /// Returns C of `block` in bytes: the smaller of the compressed length and the length of
    /// `block`, or 0 if `block` is same-filled.
    pub fn stored_len(&mut self, block: &[u8]) -> Result<usize, Error> {
        if same_filled(block).is_some() {
            return Ok(0);
        }
        Ok(self.compress(block)?.len().min(block.len()))
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
