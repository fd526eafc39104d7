//! Compressed blocks in one buffer.

use std::ops::Range;
use zcomp::{Error, Stream};

/// Many compressed blocks, one after the other. Because all blocks are kept, compression and
/// decompression can be timed separately.
pub(crate) struct PackedBlocks {
    bytes: Box<[u8]>,
    /// The range of each compressed block in the buffer, or `None` if the block did not fit.
    blocks: Vec<Option<Range<usize>>>,
}

impl PackedBlocks {
    /// Allocates and touches memory for `blocks` blocks with a total compressed length of `bytes`
    /// bytes.
    pub(crate) fn new(bytes: usize, blocks: usize) -> Self {
        PackedBlocks { bytes: vec![1; bytes].into(), blocks: Vec::with_capacity(blocks) }
    }

    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
    }

    pub(crate) fn push(&mut self, stream: &mut dyn Stream, block: &[u8]) -> Result<(), Error> {
        let start = self.blocks.iter().rev().flatten().next().map_or(0, |last| last.end);
        let len = stream.compress(block, &mut self.bytes[start..])?;
        self.blocks.push(len.map(|len| start..start + len));
        Ok(())
    }

    /// Decompresses block `nth` into `block`, which must have the block's uncompressed length. If
    /// block `nth` did not fit, does nothing.
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

    /// Returns the stored length of block `nth`: `len`, which is the uncompressed length, or the
    /// compressed length if that is smaller.
    pub(crate) fn stored_len(&self, nth: usize, len: usize) -> usize {
        self.blocks[nth].as_ref().map_or(len, |packed| packed.len().min(len))
    }
}
