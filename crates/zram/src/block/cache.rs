//! A stream's cache of decompressed blocks, so that consecutive reads of single slots decompress
//! their block only once.
//!
//! Each block has a version, and each cached copy records the version at the time of its
//! decompression. A thread that changes a block's object first locks the block's entry, and then
//! raises the version (zr-B4). A reader compares the versions while the block's entry is pinned. So
//! a cached copy with the current version equals the object's data.

use super::members::Members;
use super::object::Packer;
use crate::policy::{BLOCK_VERSIONS, DECODED_BLOCKS_MIN, DECODED_BYTES};
use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire};

/// The versions of all blocks. Several blocks share a version. A change of one block invalidates
/// the cached copies of all blocks with the same version.
#[derive(Debug)]
pub(crate) struct BlockVersions(Box<[AtomicU64]>);

impl BlockVersions {
    /// Returns a table of versions that are 0, or an empty table if blocks are single slots.
    pub(crate) fn new(has_blocks: bool) -> Self {
        BlockVersions(
            (0..if has_blocks { BLOCK_VERSIONS } else { 0 }).map(|_| AtomicU64::new(1)).collect(),
        )
    }

    fn of(&self, block: u32) -> &AtomicU64 {
        &self.0[block as usize % BLOCK_VERSIONS]
    }

    /// Returns the block's version. The version remains current while the block's entry is pinned
    /// or locked. Later reads are not reordered before this read. This read is not reordered before
    /// earlier acquire loads.
    pub(crate) fn now(&self, block: u32) -> u64 {
        self.of(block).load(Acquire)
    }

    /// Raises the block's version. The caller has locked the block's entry, but has not changed
    /// that entry or the entries of the block's slots yet.
    pub(crate) fn raise(&self, block: u32) {
        self.of(block).fetch_add(1, AcqRel);
    }

    /// Returns the sum of all versions. If two calls return equal sums, no version was raised
    /// between them.
    pub(crate) fn sum(&self) -> u64 {
        self.0.iter().fold(0, |sum, version| sum.wrapping_add(version.load(Acquire)))
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

/// A decompressed block: the slots of the block's object, one after another.
#[derive(Debug)]
pub(crate) struct CachedBlock {
    block: u32,
    /// The version of the block at the time of the decompression, or 0 if this copy is not valid.
    version: u64,
    members: Members,
    bytes: Box<[u8]>,
    /// The cache's clock at the last lookup of this block.
    asked: u64,
}

impl CachedBlock {
    /// Returns slot `nth` of the block, if the block's object contains that slot.
    pub(crate) fn slot(&self, nth: u32) -> Option<&[u8]> {
        let at = self.members.before(nth) * crate::SLOT_BYTES;
        self.members.has(nth).then(|| &self.bytes[at..at + crate::SLOT_BYTES])
    }
}

/// A stream's cache of decompressed blocks.
#[derive(Debug)]
pub(crate) struct BlockCache {
    blocks: Box<[CachedBlock]>,
    /// The number of lookups so far.
    clock: u64,
}

impl BlockCache {
    pub(crate) fn new(block_bytes: usize) -> Self {
        let decoded = || CachedBlock {
            block: 0,
            version: 0,
            members: Members::default(),
            bytes: vec![0; block_bytes].into(),
            asked: 0,
        };
        let count = (DECODED_BYTES / block_bytes).max(DECODED_BLOCKS_MIN);
        BlockCache { blocks: (0..count).map(|_| decoded()).collect(), clock: 0 }
    }

    pub(crate) fn bytes(&self) -> usize {
        let each = |decoded: &CachedBlock| size_of::<CachedBlock>() + decoded.bytes.len();
        self.blocks.iter().map(each).sum()
    }

    /// Returns the decompressed block `block` with the version `version`. If the block is not
    /// cached, calls `decode`, which writes the block's slots to a buffer. `decode` returns the set
    /// of slots that it has written.
    pub(crate) fn get<E>(
        &mut self,
        block: u32,
        version: u64,
        decode: impl FnOnce(&mut [u8]) -> Result<Members, E>,
    ) -> Result<&CachedBlock, E> {
        self.clock += 1;
        let is_it = |decoded: &CachedBlock| (decoded.block, decoded.version) == (block, version);
        let nth = match self.blocks.iter().position(is_it) {
            Some(nth) => nth,
            None => {
                let ages = self.blocks.iter().enumerate().min_by_key(|(_, decoded)| decoded.asked);
                let nth = ages.map_or(0, |(nth, _)| nth);
                let decoded = &mut self.blocks[nth];
                decoded.version = 0;
                decoded.members = decode(&mut decoded.bytes)?;
                (decoded.block, decoded.version) = (block, version);
                nth
            }
        };
        self.blocks[nth].asked = self.clock;
        Ok(&self.blocks[nth])
    }
}

/// The buffers with which a stream compresses several slots as one object, and the stream's cache
/// of decompressed blocks.
pub(crate) struct BlockStream {
    pub(crate) packer: Packer,
    pub(crate) cache: BlockCache,
}

impl BlockStream {
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.packer.buffer_bytes() + self.cache.bytes()
    }
}
