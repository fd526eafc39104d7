//! Compresses the pages of a request with the raw codec, which is the codec without a device. The
//! times and lengths are compared with those of the device.

use crate::commands::packed::PackedBlocks;
use crate::commands::policy::{COMPRESSED_MAX, REQUEST_PAGES};
use measure::page::{PAGE_SIZE, same_filled};
use std::ops::Range;
use std::time::{Duration, Instant};
use zcomp::{Prepared, Stream};
use zram::Config;

/// The codec with the device's settings.
pub(crate) struct Codecs {
    /// The first element is the codec for single pages. If a block has several pages, the second
    /// element is the codec for blocks.
    prepared: Vec<Box<dyn Prepared>>,
    /// The number of pages in a block.
    pages: usize,
}

impl Codecs {
    pub(crate) fn new(settings: &Config) -> Result<Self, zcomp::Error> {
        let mut sizes = vec![PAGE_SIZE, settings.block];
        sizes.dedup();
        let prepare = |bytes| settings.algorithm.prepare(&settings.params, bytes);
        let prepared = sizes.into_iter().map(prepare).collect::<Result<_, _>>()?;
        Ok(Codecs { prepared, pages: settings.block / PAGE_SIZE })
    }

    /// Returns the bytes of the codec's contexts in one thread.
    pub(crate) fn stream_bytes(&self) -> usize {
        self.prepared.iter().map(|prepared| prepared.stream_bytes()).sum()
    }
}

/// The raw codec of a thread: its streams and buffers.
pub(crate) struct RequestCodec {
    /// The streams of `Codecs::prepared`.
    streams: Vec<Box<dyn Stream>>,
    pages: usize,
    packed: PackedBlocks,
}

/// The raw codec's lengths and times for the pages of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct RawFigures {
    /// min(size, compressed length) of each block or single page, at the index of its first page.
    /// The value is 0 for a same-filled block or page.
    pub(crate) lens: [usize; REQUEST_PAGES],
    /// The bytes that the codec compressed: all except same-filled blocks and pages.
    pub(crate) bytes: usize,
    /// True if a page of the request is same-filled. The device stores such a page in less time
    /// than the codec compresses it.
    pub(crate) has_same: bool,
    pub(crate) compress_time: Duration,
    pub(crate) decompress_time: Duration,
}

impl RequestCodec {
    pub(crate) fn new(codecs: &Codecs) -> Result<Self, zcomp::Error> {
        let streams = codecs.prepared.iter().map(|prepared| prepared.stream());
        let packed = PackedBlocks::new(COMPRESSED_MAX * REQUEST_PAGES * PAGE_SIZE, REQUEST_PAGES);
        let streams = streams.collect::<Result<_, _>>()?;
        Ok(RequestCodec { streams, pages: codecs.pages, packed })
    }

    /// Divides a request into whole blocks and single pages, and returns their page ranges.
    /// Same-filled blocks and pages are left out. The request begins `first` pages after the start
    /// of a block.
    fn pieces(&self, first: usize, data: &[u8]) -> Vec<Range<usize>> {
        let count = data.len() / PAGE_SIZE;
        let mut pieces = Vec::with_capacity(count);
        let mut at = 0;
        while at < count {
            let is_block = (first + at).is_multiple_of(self.pages) && at + self.pages <= count;
            let pages = at..at + if is_block { self.pages } else { 1 };
            at = pages.end;
            if same_filled(&data[bytes_of(&pages)]).is_none() {
                pieces.push(pages);
            }
        }
        pieces
    }

    /// Compresses `data`, each whole block as one unit, and decompresses the result into `back`.
    /// Measures both times. `data` begins `first` pages after the start of a block.
    pub(crate) fn run(
        &mut self,
        first: usize,
        data: &[u8],
        back: &mut [u8],
    ) -> Result<RawFigures, zcomp::Error> {
        let mut figures = RawFigures {
            has_same: data.chunks_exact(PAGE_SIZE).any(|page| same_filled(page).is_some()),
            ..RawFigures::default()
        };
        let pieces = self.pieces(first, data);
        let RequestCodec { streams, packed, .. } = self;
        packed.clear();
        let of = |pages: &Range<usize>| usize::from(pages.len() > 1);

        let start = Instant::now();
        for pages in &pieces {
            packed.push(&mut *streams[of(pages)], &data[bytes_of(pages)])?;
        }
        figures.compress_time = start.elapsed();

        let start = Instant::now();
        for (nth, pages) in pieces.iter().enumerate() {
            packed.unpack(nth, &mut *streams[of(pages)], &mut back[bytes_of(pages)])?;
        }
        figures.decompress_time = start.elapsed();

        for (nth, pages) in pieces.iter().enumerate() {
            let bytes = pages.len() * PAGE_SIZE;
            figures.lens[pages.start] = packed.stored_len(nth, bytes);
            figures.bytes += bytes;
        }
        Ok(figures)
    }
}

/// Returns the byte range of `pages`.
pub(super) fn bytes_of(pages: &Range<usize>) -> Range<usize> {
    pages.start * PAGE_SIZE..pages.end * PAGE_SIZE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_the_codecs_own() {
        let mut state = 1u64;
        let mut noise = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 56) as u8
        };
        for codec in zcomp::codecs() {
            let settings = Config { algorithm: *codec, ..Config::default() };
            let mut raw = RequestCodec::new(&Codecs::new(&settings).unwrap()).unwrap();
            let mut data = vec![0; 4 * PAGE_SIZE];
            data[PAGE_SIZE..2 * PAGE_SIZE].fill_with(&mut noise);
            data[2 * PAGE_SIZE..3 * PAGE_SIZE]
                .copy_from_slice(&b"some text ".repeat(410)[..PAGE_SIZE]);
            data[3 * PAGE_SIZE] = 1;
            let mut back = vec![0; REQUEST_PAGES * PAGE_SIZE];
            let figures = raw.run(3, &data, &mut back).unwrap();
            assert_eq!((figures.bytes, figures.has_same), (3 * PAGE_SIZE, true));
            assert_eq!(figures.lens[..2], [0, PAGE_SIZE], "{}", codec.name());
            assert!(figures.lens[2..4].iter().all(|&len| (1..100).contains(&len)));
            assert_eq!(figures.lens[4..], [0; 12]);
            assert_eq!(back[PAGE_SIZE..4 * PAGE_SIZE], data[PAGE_SIZE..]);
        }
    }

    #[test]
    fn whole_blocks_are_compressed_as_one() {
        let settings = Config { block: 4 * PAGE_SIZE, ..Config::default() };
        let mut raw = RequestCodec::new(&Codecs::new(&settings).unwrap()).unwrap();
        let data: Vec<u8> = (0..8 * PAGE_SIZE).map(|at| (at / 100) as u8).collect();
        let mut back = vec![0; REQUEST_PAGES * PAGE_SIZE];
        // The request begins at page 2 of a block.
        let figures = raw.run(2, &data, &mut back).unwrap();
        let units: Vec<_> = (0..16).filter(|nth| figures.lens[*nth] > 0).collect();
        assert_eq!((units, figures.bytes), (vec![0, 1, 2, 6, 7], 8 * PAGE_SIZE));
        assert!(figures.lens[2] < 4 * figures.lens[0] && !figures.has_same);
        assert_eq!(back[..8 * PAGE_SIZE], data);
    }
}
