//! The same pages in blocks of 4 and of 16 KiB, on devices and compressed by the raw codec. All
//! sides execute the same requests in turns of a few milliseconds.

use crate::codec::RawCodec;
use fastrand::Rng;
use measure::clock::{Clock, Stopwatch};
use measure::page::{PAGE_SIZE, first_difference, same_filled};
use zram::Device;

use super::{BLOCK, Method};
use crate::Error;
use crate::aligned::AlignedBuf;
use crate::contents::{Blobs, Contents};

/// The number of pages in a block of 16 KiB.
pub(super) const BLOCK_PAGES: usize = BLOCK / PAGE_SIZE;
/// The distance in pages, a multiple of a block, by which the contents are shifted before slots are
/// overwritten with other pages.
const STEP: usize = 49 * BLOCK_PAGES;

/// The measured side: the raw codec or a device, and its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Raw(Blocks),
    Ours(Blocks),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocks {
    Small,
    Large,
}

/// All sides, in the order of their times.
pub(super) const SIDES: [Side; 4] = [
    Side::Raw(Blocks::Small),
    Side::Raw(Blocks::Large),
    Side::Ours(Blocks::Small),
    Side::Ours(Blocks::Large),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// Consecutive pages of one block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) first: usize,
    pub(super) count: usize,
}

/// The codec, the compressed data and the device of one block size.
struct Held {
    /// The number of pages of a block.
    pages: usize,
    codec: RawCodec,
    compressed: Blobs,
    device: Device,
    /// The buffer for a decompressed block.
    block: Vec<u8>,
}

pub(super) struct Bed {
    pages: AlignedBuf,
    small: Held,
    large: Held,
    /// Slot n holds page n + `shift`, modulo the number of pages.
    shift: usize,
    /// The buffer for reads from a device.
    back: Vec<u8>,
    rng: Rng,
}

impl Held {
    fn new(pages: &[u8], method: Method, block: usize) -> Result<Held, Error> {
        let (mut codec, mut compressed) = (method.raw(block)?, Blobs::default());
        for block in pages.chunks_exact(block) {
            compressed.push(codec.compress(block)?);
        }
        let device = method.device(pages.len(), block)?;
        device.write(0, pages)?;
        Ok(Held { pages: block / PAGE_SIZE, codec, compressed, device, block: vec![0; block] })
    }

    /// Decompresses the block that contains page `page`.
    fn decompress(&mut self, page: usize) -> Result<(), Error> {
        let bytes = self.compressed.get((page / self.pages) as u32);
        Ok(self.codec.decompress(bytes, &mut self.block)?)
    }
}

impl Bed {
    /// Creates devices that hold the blocks of 16 KiB without a same-filled page. A codec does no
    /// work for a same-filled page in its own block, but does some in a larger one.
    pub(super) fn new(all: &[u8], method: Method, seed: u64) -> Result<Bed, Error> {
        let is_whole =
            |block: &&[u8]| block.chunks(PAGE_SIZE).all(|page| same_filled(page).is_none());
        let kept: Vec<&[u8]> = all.chunks_exact(BLOCK).filter(is_whole).collect();
        if kept.is_empty() {
            let reason = format!("no block of {} bytes is without a same-filled page", all.len());
            return Err(Error::Setup { reason, remedy: "give a larger --limit" });
        }
        let mut pages = AlignedBuf::zeroed(kept.len() * BLOCK);
        pages
            .chunks_exact_mut(BLOCK)
            .zip(kept)
            .for_each(|(block, kept)| block.copy_from_slice(kept));
        let small = Held::new(&pages, method, PAGE_SIZE)?;
        let large = Held::new(&pages, method, BLOCK)?;
        let (back, rng) = (vec![0; BLOCK], Rng::with_seed(seed));
        Ok(Bed { pages, small, large, shift: 0, back, rng })
    }

    /// Returns the number of pages of a device.
    pub(super) fn count(&self) -> usize {
        (*self.pages).len() / PAGE_SIZE
    }

    pub(super) fn device(&self, blocks: Blocks) -> &Device {
        match blocks {
            Blocks::Small => &self.small.device,
            Blocks::Large => &self.large.device,
        }
    }

    /// Returns pieces of `count` pages each that cover all pages in order.
    pub(super) fn in_order(&self, count: usize) -> Vec<Piece> {
        (0..self.count()).step_by(count).map(|first| Piece { first, count }).collect()
    }

    /// Returns the pieces of `in_order` in random order.
    pub(super) fn shuffled(&mut self, count: usize) -> Vec<Piece> {
        let mut pieces = self.in_order(count);
        self.rng.shuffle(&mut pieces);
        pieces
    }

    /// Returns whole blocks in random order, of which `percent` percent are replaced by one of
    /// their pages.
    pub(super) fn mixed(&mut self, percent: u32) -> Vec<Piece> {
        let mut pieces = self.shuffled(BLOCK_PAGES);
        for piece in &mut pieces {
            if self.rng.u32(0..100) < percent {
                let first = piece.first + self.rng.usize(0..BLOCK_PAGES);
                *piece = Piece { first, count: 1 };
            }
        }
        pieces
    }

    /// Shifts the contents, so that later writes store another page than the slot holds.
    pub(super) fn other_pages(&mut self) {
        self.shift = (self.shift + STEP) % self.count();
    }

    /// Executes every piece once on each of `sides`, which take turns of about `turn` pages.
    /// Returns the seconds of processor time of each side.
    pub(super) fn round<const SIDES: usize>(
        &mut self,
        sides: [Side; SIDES],
        access: Access,
        pieces: &[Piece],
        turn: usize,
    ) -> Result<[f64; SIDES], Error> {
        let mut watches = sides.map(|_| Stopwatch::new(Clock::ThreadCpu));
        let pages: usize = pieces.iter().map(|piece| piece.count).sum();
        let per_turn = (turn * pieces.len() / pages.max(1)).max(1);
        for (nth, turn) in pieces.chunks(per_turn).enumerate() {
            let mut answers = [0; SIDES];
            for place in 0..SIDES {
                // The pages are in the cache when a later side uses them, so the sides also take
                // turns at being first.
                let at = (nth + place) % SIDES;
                answers[at] = watches[at].time(|| {
                    turn.iter().try_fold(0, |sum: u64, &piece| {
                        Ok::<_, Error>(sum.wrapping_mul(31) ^ self.one(sides[at], access, piece)?)
                    })
                })?;
            }
            if let Some(&found) = answers.iter().find(|&&answer| answer != answers[0]) {
                return Err(Error::Answer { side: 'B', expected: answers[0], found });
            }
        }
        Ok(watches.map(|watch| watch.seconds()))
    }

    /// Executes one request. The answer of a read combines the first words of its pages.
    fn one(&mut self, side: Side, access: Access, piece: Piece) -> Result<u64, Error> {
        let page = (piece.first + self.shift) % self.count();
        let offset = (piece.first * PAGE_SIZE) as u64;
        let bytes = &self.pages[page * PAGE_SIZE..][..piece.count * PAGE_SIZE];
        let (Side::Raw(blocks) | Side::Ours(blocks)) = side;
        let held = match blocks {
            Blocks::Small => &mut self.small,
            Blocks::Large => &mut self.large,
        };
        match (side, access) {
            (Side::Ours(_), Access::Write) => held.device.write(offset, bytes)?,
            (Side::Ours(_), Access::Read) => {
                let back = &mut self.back[..bytes.len()];
                held.device.read(offset, back)?;
                return Ok(fold(0, back));
            }
            (Side::Raw(_), Access::Write) if piece.count < held.pages => {
                // The whole block is written again, as in the multi-page series.
                held.decompress(page)?;
                held.block[page % held.pages * PAGE_SIZE..][..bytes.len()].copy_from_slice(bytes);
                held.codec.compress(&held.block)?;
            }
            (Side::Raw(_), Access::Write) => {
                for block in bytes.chunks(held.pages * PAGE_SIZE) {
                    held.codec.compress(block)?;
                }
            }
            (Side::Raw(_), Access::Read) => {
                let mut sum = 0;
                for page in (page..page + piece.count).step_by(held.pages) {
                    held.decompress(page)?;
                    let first = page % held.pages * PAGE_SIZE;
                    let len = bytes.len().min(held.block.len());
                    sum = fold(sum, &held.block[first..first + len]);
                }
                return Ok(sum);
            }
        }
        Ok(0)
    }

    /// Verifies that both devices return the pages, one by one in random order and block by block.
    pub(super) fn check(&mut self) -> Result<(), Error> {
        let pieces = [self.shuffled(1), self.in_order(BLOCK_PAGES)].concat();
        let mut back = [0; BLOCK];
        for blocks in [Blocks::Small, Blocks::Large] {
            for piece in &pieces {
                let page = (piece.first + self.shift) % self.count();
                let expected = &self.pages[page * PAGE_SIZE..][..piece.count * PAGE_SIZE];
                let offset = (piece.first * PAGE_SIZE) as u64;
                let back = &mut back[..expected.len()];
                self.device(blocks).read(offset, back)?;
                if let Some(at) = first_difference(expected, back) {
                    let device = format!("our device of {blocks:?} blocks");
                    return Err(Error::Mismatch { device, offset: offset + at as u64 });
                }
            }
        }
        Ok(())
    }
}

/// Combines `sum` with the first word of each page.
fn fold(sum: u64, pages: &[u8]) -> u64 {
    pages.chunks(PAGE_SIZE).fold(sum, |sum, page| {
        let word = page.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
        sum.wrapping_mul(31) ^ word
    })
}
