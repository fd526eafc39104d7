//! The raw codec over the pages of a request, beside the device: what can be had without storing.

use crate::plan::PAGE;
use std::time::{Duration, Instant};
use zcomp::{Prepared, Stream};

/// Pages of a request to the device.
pub(crate) const REQUEST_PAGES: usize = 16;

/// Room for what comes of a page, as the device gives it.
const ROOM: usize = 2 * PAGE;

/// A stream and its buffers.
pub(crate) struct RawCodec {
    stream: Box<dyn Stream>,
    compressed: Box<[u8]>,
}

/// What a request's pages come to.
#[derive(Clone, Debug, Default)]
pub(crate) struct RawFigures {
    /// min(page, compressed length) per page; 0 for a same-filled one.
    pub(crate) lens: [usize; REQUEST_PAGES],
    /// Bytes that were compressed and decompressed: of all pages but same-filled ones.
    pub(crate) bytes: usize,
    pub(crate) compress_time: Duration,
    pub(crate) decompress_time: Duration,
}

/// Whether a page is one word of 8 bytes over and over: the device stores no data for it.
pub(crate) fn is_same_filled(page: &[u8]) -> bool {
    let (words, _) = page.as_chunks::<8>();
    words.iter().all(|word| *word == words[0])
}

impl RawCodec {
    /// All memory it needs is made here, and touched.
    pub(crate) fn new(codec: &dyn Prepared) -> Result<Self, zcomp::Error> {
        let stream = codec.stream_owned()?;
        Ok(RawCodec { stream, compressed: vec![1; REQUEST_PAGES * ROOM].into() })
    }

    /// Compresses the pages of `data`, then decompresses them into `back`; both are timed.
    pub(crate) fn run(&mut self, data: &[u8], back: &mut [u8]) -> Result<RawFigures, zcomp::Error> {
        let (pages, _) = data.as_chunks::<PAGE>();
        let mut figures = RawFigures::default();
        // Where each page's compressed bytes end; `None` where there are none.
        let mut ends = [None; REQUEST_PAGES];
        let is_stored = |page: &[u8; PAGE]| !is_same_filled(page);
        let wanted: [bool; REQUEST_PAGES] =
            std::array::from_fn(|nth| pages.get(nth).is_some_and(is_stored));

        let start = Instant::now();
        let mut at = 0;
        for ((page, _), end) in
            pages.iter().zip(wanted).zip(&mut ends).filter(|((_, wanted), _)| *wanted)
        {
            if let Some(len) = self.stream.compress(page, &mut self.compressed[at..at + ROOM])? {
                at += len;
                *end = Some(at);
            }
        }
        figures.compress_time = start.elapsed();

        let start = Instant::now();
        let mut from = 0;
        for (end, page) in ends.iter().zip(back.as_chunks_mut::<PAGE>().0) {
            if let Some(end) = *end {
                self.stream.decompress(&self.compressed[from..end], page)?;
                from = end;
            }
        }
        figures.decompress_time = start.elapsed();

        let mut from = 0;
        for (nth, end) in ends.iter().enumerate().filter(|(nth, _)| wanted[*nth]) {
            figures.lens[nth] = end.map_or(PAGE, |end| end - from).min(PAGE);
            figures.bytes += PAGE;
            from = end.unwrap_or(from);
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
            let prepared = codec.prepare(&zcomp::Params::default(), PAGE).unwrap();
            let mut raw = RawCodec::new(&*prepared).unwrap();
            let mut data = vec![0; 4 * PAGE];
            data[PAGE..2 * PAGE].fill_with(&mut noise);
            data[2 * PAGE..3 * PAGE].copy_from_slice(&b"some text ".repeat(410)[..PAGE]);
            data[3 * PAGE] = 1;
            let mut back = vec![0; REQUEST_PAGES * PAGE];
            let figures = raw.run(&data, &mut back).unwrap();
            assert_eq!(figures.bytes, 3 * PAGE);
            assert_eq!(figures.lens[..2], [0, PAGE], "{}", codec.name());
            assert!(figures.lens[2..4].iter().all(|&len| (1..100).contains(&len)));
            assert_eq!(figures.lens[4..], [0; 12]);
            assert_eq!(back[PAGE..4 * PAGE], data[PAGE..]);
        }
    }
}
