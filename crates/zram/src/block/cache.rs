//! Blocks that were decompressed last, kept with a stream, so that reads of one slot after another
//! decompress once.
//!
//! Each is kept with the version of its block. A thread that changes a block's object raises the
//! version first, with the block's entry locked (zr-B4), and a reader looks at the version with the
//! entry pinned. So bytes with the current version are those of the object.

use super::members::Members;
use super::object::Packer;
use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire};

/// Bytes of decompressed blocks that a stream keeps, but for the least.
const BYTES: usize = 64 << 10;
const BLOCKS_MIN: usize = 2;
const VERSIONS: usize = 1024;

/// Versions of all blocks; some share one, which costs no more than a needless look at the object.
#[derive(Debug)]
pub(crate) struct BlockVersions(Box<[AtomicU64]>);

impl BlockVersions {
    /// None, for a device whose blocks are slots.
    pub(crate) fn new(has_blocks: bool) -> Self {
        BlockVersions(
            (0..if has_blocks { VERSIONS } else { 0 }).map(|_| AtomicU64::new(1)).collect(),
        )
    }

    fn of(&self, block: u32) -> &AtomicU64 {
        &self.0[block as usize % VERSIONS]
    }

    /// Returns the version in force while the block's entry is pinned or locked. What is read after
    /// it, or before it, is there in that order.
    pub(crate) fn now(&self, block: u32) -> u64 {
        self.of(block).load(Acquire)
    }

    /// With the block's entry locked, before an entry of its slots changes or its own.
    pub(crate) fn raise(&self, block: u32) {
        self.of(block).fetch_add(1, AcqRel);
    }

    /// Of all blocks: while it is the same, none was raised.
    pub(crate) fn sum(&self) -> u64 {
        self.0.iter().fold(0, |sum, version| sum.wrapping_add(version.load(Acquire)))
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

/// A block that was decompressed: the slots that are in its object, one behind another.
#[derive(Debug)]
pub(crate) struct CachedBlock {
    block: u32,
    /// 0 is no version.
    version: u64,
    members: Members,
    bytes: Box<[u8]>,
    /// When it was asked for last.
    asked: u64,
}

impl CachedBlock {
    /// Slot `nth`, if it is in it.
    pub(crate) fn slot(&self, nth: u32) -> Option<&[u8]> {
        let at = self.members.before(nth) * crate::SLOT_BYTES;
        self.members.has(nth).then(|| &self.bytes[at..at + crate::SLOT_BYTES])
    }
}

/// What of blocks a stream keeps.
#[derive(Debug)]
pub(crate) struct BlockCache {
    blocks: Box<[CachedBlock]>,
    /// Counts what is asked for.
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
        let count = (BYTES / block_bytes).max(BLOCKS_MIN);
        BlockCache { blocks: (0..count).map(|_| decoded()).collect(), clock: 0 }
    }

    pub(crate) fn bytes(&self) -> usize {
        let each = |decoded: &CachedBlock| size_of::<CachedBlock>() + decoded.bytes.len();
        self.blocks.iter().map(each).sum()
    }

    /// Returns the block in that version; where it is not there, `decode` writes it, and says what
    /// is in it.
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

/// What it takes to compress several slots as one, and what was decompressed last.
pub(crate) struct BlockStream {
    pub(crate) packer: Packer,
    pub(crate) cache: BlockCache,
}

impl BlockStream {
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.packer.buffer_bytes() + self.cache.bytes()
    }
}
