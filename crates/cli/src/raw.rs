//! The raw codec over the pages and blocks of a request, beside the device: what can be had without
//! storing.

use crate::plan::PAGE;
use std::ops::Range;
use std::time::{Duration, Instant};
use zcomp::{Prepared, Stream};
use zram::Config;

/// Pages of a request to the device.
pub(crate) const REQUEST_PAGES: usize = 16;

/// Room for what comes of a page, as the device gives it.
const ROOM: usize = 2 * PAGE;

/// The codec as the device has it: for pages, and for blocks of several.
pub(crate) struct Codecs {
    page: Box<dyn Prepared>,
    block: Option<Box<dyn Prepared>>,
    /// Pages of a block.
    pages: usize,
}

impl Codecs {
    pub(crate) fn new(settings: &Config) -> Result<Self, zcomp::Error> {
        let prepare = |bytes| settings.algorithm.prepare(&settings.params, bytes);
        let block = (settings.block > PAGE).then(|| prepare(settings.block)).transpose()?;
        Ok(Codecs { page: prepare(PAGE)?, block, pages: settings.block / PAGE })
    }

    /// Bytes of the contexts of a thread.
    pub(crate) fn stream_bytes(&self) -> usize {
        let all = [Some(&self.page), self.block.as_ref()].into_iter().flatten();
        all.map(|prepared| prepared.stream_bytes()).sum()
    }
}

/// Streams and their buffers.
pub(crate) struct RawCodec {
    page: Box<dyn Stream>,
    block: Option<Box<dyn Stream>>,
    pages: usize,
    compressed: Box<[u8]>,
}

/// What a request's pages come to.
#[derive(Clone, Debug, Default)]
pub(crate) struct RawFigures {
    /// min(size, compressed length) of each page or block, with its first page; 0 for a same-filled
    /// one.
    pub(crate) lens: [usize; REQUEST_PAGES],
    /// Bytes that were compressed and decompressed: of all but same-filled ones.
    pub(crate) bytes: usize,
    /// Whether a page is same-filled: then the device has less to do.
    pub(crate) has_same: bool,
    pub(crate) compress_time: Duration,
    pub(crate) decompress_time: Duration,
}

/// What is compressed as one.
struct Unit {
    pages: Range<usize>,
    /// Bytes of `compressed` that came of it; `None` where it did not fit.
    packed: Option<Range<usize>>,
}

/// Whether a page, or a block, is one word of 8 bytes over and over: the device stores no data for
/// it.
pub(crate) fn is_same_filled(page: &[u8]) -> bool {
    let (words, _) = page.as_chunks::<8>();
    words.iter().all(|word| *word == words[0])
}

impl RawCodec {
    /// All memory it needs is made here, and touched.
    pub(crate) fn new(codecs: &Codecs) -> Result<Self, zcomp::Error> {
        let block = codecs.block.as_ref().map(|block| block.stream_owned()).transpose()?;
        let compressed = vec![1; REQUEST_PAGES * ROOM].into();
        Ok(RawCodec { page: codecs.page.stream_owned()?, block, pages: codecs.pages, compressed })
    }

    /// The pages and blocks of a request that begins `first` pages behind the start of a block,
    /// same-filled ones left out.
    fn units(&self, first: usize, data: &[u8]) -> Vec<Unit> {
        let count = data.len() / PAGE;
        let mut units = Vec::with_capacity(count);
        let mut at = 0;
        while at < count {
            let is_block = (first + at).is_multiple_of(self.pages) && at + self.pages <= count;
            let pages = at..at + if is_block { self.pages } else { 1 };
            at = pages.end;
            if !is_same_filled(&data[pages.start * PAGE..pages.end * PAGE]) {
                units.push(Unit { pages, packed: None });
            }
        }
        units
    }

    /// The stream for so many pages.
    fn stream(&mut self, pages: usize) -> (&mut dyn Stream, &mut [u8]) {
        let stream = match &mut self.block {
            Some(block) if pages > 1 => block,
            _ => &mut self.page,
        };
        (&mut **stream, &mut self.compressed)
    }

    /// Compresses the pages of `data`, as blocks where they are whole, then decompresses them into
    /// `back`; both are timed. The first is `first` pages behind the start of a block.
    pub(crate) fn run(
        &mut self,
        first: usize,
        data: &[u8],
        back: &mut [u8],
    ) -> Result<RawFigures, zcomp::Error> {
        let mut figures = RawFigures {
            has_same: data.chunks_exact(PAGE).any(is_same_filled),
            ..RawFigures::default()
        };
        let mut units = self.units(first, data);

        let start = Instant::now();
        let mut at = 0;
        for unit in &mut units {
            let (stream, compressed) = self.stream(unit.pages.len());
            let data = &data[unit.pages.start * PAGE..unit.pages.end * PAGE];
            let room = &mut compressed[at..at + unit.pages.len() * ROOM];
            if let Some(len) = stream.compress(data, room)? {
                unit.packed = Some(at..at + len);
                at += len;
            }
        }
        figures.compress_time = start.elapsed();

        let start = Instant::now();
        for unit in &units {
            if let Some(packed) = unit.packed.clone() {
                let (stream, compressed) = self.stream(unit.pages.len());
                let back = &mut back[unit.pages.start * PAGE..unit.pages.end * PAGE];
                stream.decompress(&compressed[packed], back)?;
            }
        }
        figures.decompress_time = start.elapsed();

        for Unit { pages, packed } in units {
            let bytes = pages.len() * PAGE;
            figures.lens[pages.start] = packed.map_or(bytes, |packed| packed.len()).min(bytes);
            figures.bytes += bytes;
        }
        Ok(figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_filled_pages_are_known() {
        let mut page = [7; PAGE];
        assert!(is_same_filled(&page));
        page[0] = 6;
        assert!(!is_same_filled(&page));
        let words = 0x0102_0304_0506_0708_u64.to_ne_bytes().repeat(PAGE / 8);
        assert!(is_same_filled(&words));
        page = [0; PAGE];
        page[PAGE - 1] = 1;
        assert!(!is_same_filled(&page));
    }

    #[test]
    fn lengths_are_the_codecs_own() {
        let mut state = 1u64;
        let mut noise = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 56) as u8
        };
        for codec in zcomp::codecs() {
            let settings = Config { algorithm: *codec, ..Config::default() };
            let mut raw = RawCodec::new(&Codecs::new(&settings).unwrap()).unwrap();
            let mut data = vec![0; 4 * PAGE];
            data[PAGE..2 * PAGE].fill_with(&mut noise);
            data[2 * PAGE..3 * PAGE].copy_from_slice(&b"some text ".repeat(410)[..PAGE]);
            data[3 * PAGE] = 1;
            let mut back = vec![0; REQUEST_PAGES * PAGE];
            let figures = raw.run(3, &data, &mut back).unwrap();
            assert_eq!((figures.bytes, figures.has_same), (3 * PAGE, true));
            assert_eq!(figures.lens[..2], [0, PAGE], "{}", codec.name());
            assert!(figures.lens[2..4].iter().all(|&len| (1..100).contains(&len)));
            assert_eq!(figures.lens[4..], [0; 12]);
            assert_eq!(back[PAGE..4 * PAGE], data[PAGE..]);
        }
    }

    #[test]
    fn whole_blocks_are_compressed_as_one() {
        let settings = Config { block: 4 * PAGE, ..Config::default() };
        let mut raw = RawCodec::new(&Codecs::new(&settings).unwrap()).unwrap();
        let data: Vec<u8> = (0..8 * PAGE).map(|at| (at / 100) as u8).collect();
        let mut back = vec![0; REQUEST_PAGES * PAGE];
        // The third page of a block and those behind it.
        let figures = raw.run(2, &data, &mut back).unwrap();
        let units: Vec<_> = (0..16).filter(|nth| figures.lens[*nth] > 0).collect();
        assert_eq!((units, figures.bytes), (vec![0, 1, 2, 6, 7], 8 * PAGE));
        assert!(figures.lens[2] < 4 * figures.lens[0] && !figures.has_same);
        assert_eq!(back[..8 * PAGE], data);
    }
}
