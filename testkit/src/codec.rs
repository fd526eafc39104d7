//! A model of a codec's stream. Decompression of any bytes must return an error, or output that
//! depends only on these bytes. Compressed data must decompress to the original.

use crate::Choices;
use crate::contents::shorter;
use crate::fence::{Fence, decompressed};
use crate::model::Model;
use crate::settings::dictionaries;
use zcomp::{Dictionary, Params, Stream, by_name, codecs};

pub use Trained::*;

/// The dictionary of a stream.
#[derive(Clone, Debug)]
pub enum Trained {
    Without,
    /// The n-th of the available dictionaries.
    Nth(usize),
    /// The given bytes, which may look like a damaged dictionary.
    Of(Vec<u8>),
}

#[derive(Clone, Debug)]
pub struct Setup {
    pub codec: &'static str,
    pub block: usize,
    pub level: Option<i32>,
    pub dictionary: Trained,
}

#[derive(Clone, Debug)]
pub enum Event {
    /// Decompresses `bytes`, whose expected output has `len` bytes.
    Hostile { bytes: Vec<u8>, len: usize },
    /// Compresses `len` bytes that repeat `bytes`. Compresses them again into a buffer that is
    /// `less` bytes too small. Decompresses the compressed bytes as they are, truncated, and
    /// damaged.
    RoundTrip { bytes: Vec<u8>, len: usize, less: usize, flips: Vec<(usize, u8)> },
}

pub struct CodecModel {
    stream: Box<dyn Stream>,
    block: usize,
}

/// Compresses `plain` into a buffer of `room` bytes.
fn compressed(stream: &mut dyn Stream, plain: &[u8], room: usize) -> Option<Vec<u8>> {
    let mut output = Fence::new(room, 0);
    let written = stream.compress(&Fence::of(plain), &mut output);
    output.check();
    written.expect("it is no longer than the block").map(|len| output[..len].to_vec())
}

/// Returns a length that suffices for `len` bytes after compression.
fn bound(len: usize) -> usize {
    len + len / 64 + 512
}

impl CodecModel {
    fn round_trip(&mut self, plain: &[u8]) -> Vec<u8> {
        let room = bound(plain.len());
        let small = compressed(&mut *self.stream, plain, room).expect("there is room");
        let back = decompressed(&mut *self.stream, &small, plain.len());
        assert!(back.as_deref() == Ok(plain), "{} bytes came back otherwise", plain.len());
        small
    }
}

impl Model for CodecModel {
    type Setup = Setup;
    type Event = Event;
    type Report = ();

    fn setup(choices: &mut Choices) -> Setup {
        let codec = *choices.pick(codecs());
        let block = match choices.one_in(4) {
            true => choices.beside(&[1, 4096, 65536], 70_000).max(1),
            false => *choices.pick(&[4096, 8192, 65536]),
        };
        let levels = codec.levels();
        let level = match choices.one_in(8) {
            true => *choices.pick(&[*levels.start(), *levels.end()]),
            false => choices.below(31) as i32 - 8,
        };
        let dictionary = match choices.below(4) {
            0 => Without,
            3 => Of(choices.bytes(300)),
            nth => Nth(nth - 1),
        };
        let level = Some(level).filter(|level| levels.contains(level));
        Setup { codec: codec.name(), block, level, dictionary }
    }

    fn new(setup: &Setup) -> Option<Self> {
        let dictionary = match &setup.dictionary {
            Without => None,
            Nth(nth) => Some(dictionaries()[*nth].1.clone()),
            Of(bytes) => Dictionary::new(&bytes[..]).ok(),
        };
        let codec = by_name(setup.codec).expect("there is such a codec");
        let prepared = codec.prepare(&Params { level: setup.level, dictionary }, setup.block);
        if prepared.is_err() {
            assert!(matches!(setup.dictionary, Of(_)), "{setup:?}");
        }
        let stream = prepared.ok()?.stream().expect("there is memory");
        Some(CodecModel { stream, block: setup.block })
    }

    fn draw(&self, choices: &mut Choices) -> Event {
        let len = match choices.below(3) {
            // lz4 treats the last 5 and the last 12 bytes of a block specially. zstd's headers have
            // 2 or 3 bytes.
            0 => choices.beside(&[1, 5, 12, self.block], self.block),
            _ => self.block,
        };
        if choices.bool() {
            return Event::Hostile { bytes: choices.bytes(4096), len };
        }
        let flips =
            (0..choices.below(4)).map(|_| (choices.below(1 << 16), choices.below(256) as u8));
        let (flips, less) = (flips.collect(), choices.below(256));
        Event::RoundTrip { bytes: choices.bytes(4096), len, less, flips }
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Event::Hostile { bytes, len } => {
                let _ = decompressed(&mut *self.stream, bytes, *len);
            }
            Event::RoundTrip { bytes, len, less, flips } => {
                let len = (*len).min(bytes.len() * 8);
                let plain: Vec<u8> = bytes.iter().copied().cycle().take(len).collect();
                let mut small = self.round_trip(&plain);
                let little = small.len().saturating_sub(*less);
                let fits = compressed(&mut *self.stream, &plain, little);
                assert!(fits.is_none_or(|fits| fits.len() <= little));
                let _ = decompressed(&mut *self.stream, &small[..little], plain.len());
                for (at, change) in flips {
                    if let Some(byte) = small.get_mut(*at) {
                        *byte ^= change;
                    }
                }
                let _ = decompressed(&mut *self.stream, &small, plain.len());
            }
        }
    }

    /// After any events, the stream must work like a new stream.
    fn check(&mut self) {
        let page: Vec<u8> = (0..self.block).map(|nth| (nth / 7 % 251) as u8).collect();
        self.round_trip(&page);
    }

    fn finish(self) {}

    fn simpler(event: &Event) -> Vec<Event> {
        match event {
            Event::Hostile { bytes, len } => {
                let less = shorter(bytes.len()).map(|less| bytes[..less].to_vec());
                less.map(|bytes| Event::Hostile { bytes, len: *len }).collect()
            }
            Event::RoundTrip { bytes, len, .. } => {
                let (bytes, flips) = (bytes.clone(), vec![]);
                let simplest = Event::RoundTrip { bytes, len: *len, less: 0, flips };
                if format!("{simplest:?}") == format!("{event:?}") {
                    vec![]
                } else {
                    vec![simplest]
                }
            }
        }
    }
}
