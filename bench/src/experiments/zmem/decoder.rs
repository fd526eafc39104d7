//! The raw codec's time to decode blocks.

use crate::codec::RawCodec;
use measure::clock::{Clock, Stopwatch};

use crate::Error;
use crate::method::Method;

/// The raw codec, and all blocks compressed by it.
pub(super) struct Decoder {
    codec: RawCodec,
    compressed: Vec<Vec<u8>>,
    block: Vec<u8>,
}

impl Decoder {
    pub(super) fn new(pages: &[u8], method: Method, block: usize) -> Result<Decoder, Error> {
        let mut codec = method.raw(block)?;
        let compressed = pages
            .chunks_exact(block)
            .map(|block| Ok(codec.compress(block)?.to_vec()))
            .collect::<Result<_, Error>>()?;
        Ok(Decoder { codec, compressed, block: vec![0; block] })
    }

    /// Returns the seconds to decode the blocks at `offsets`.
    pub(super) fn seconds(&mut self, offsets: &[usize]) -> Result<f64, Error> {
        let mut watch = Stopwatch::new(Clock::Wall);
        watch.time(|| {
            offsets.iter().try_for_each(|offset| {
                let compressed = &self.compressed[offset / self.block.len()];
                self.codec.decompress(compressed, &mut self.block)
            })
        })?;
        Ok(watch.seconds())
    }
}
