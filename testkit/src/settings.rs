//! The settings of the codec tests. Every codec is tested without a dictionary, and with each kind
//! of dictionary.

use std::sync::LazyLock;

use zcomp::{Codec, Dictionary, Params, Prepared, Stream, codecs, train};

use crate::samples::{graded, kinds, random, text};
use crate::seed;

/// A codec, and the dictionary that it uses.
#[derive(Clone)]
pub struct Setting {
    pub codec: &'static dyn Codec,
    pub dictionary: Option<Dictionary>,
    /// The setting's name in messages.
    pub name: String,
}

impl Setting {
    pub fn params(&self, level: Option<i32>) -> Params {
        Params { level, dictionary: self.dictionary.clone() }
    }

    pub fn prepared(&self, level: Option<i32>, block: usize) -> Box<dyn Prepared> {
        self.codec.prepare(&self.params(level), block).unwrap()
    }

    pub fn stream(&self, level: Option<i32>, block: usize) -> Box<dyn Stream> {
        self.prepared(level, block).stream().unwrap()
    }
}

/// Returns a trained dictionary, and an untrained dictionary that is longer than lz4's window. Both
/// dictionaries resemble blocks of `kinds`.
pub fn dictionaries() -> &'static [(&'static str, Dictionary)] {
    static DICTIONARIES: LazyLock<[(&str, Dictionary); 2]> = LazyLock::new(|| {
        let seed = seed(1);
        let samples = (0..40).flat_map(|nth| kinds(4096, seed.wrapping_add(nth)).concat());
        let samples: Vec<u8> = samples.collect();
        let noise = random(20_000, seed);
        let content = [graded(50_000, 20, seed), noise, text(30_000, seed)].concat();
        [
            ("trained", train(&samples, 4096, 16 << 10).unwrap()),
            ("content", Dictionary::new(content).unwrap()),
        ]
    });
    &*DICTIONARIES
}

/// Returns each codec without a dictionary, and with each dictionary.
pub fn settings() -> impl Iterator<Item = Setting> {
    codecs().iter().flat_map(|codec| {
        let plain = Setting { codec: *codec, dictionary: None, name: codec.name().to_owned() };
        let with = dictionaries().iter().map(|(kind, dictionary)| Setting {
            codec: *codec,
            dictionary: Some(dictionary.clone()),
            name: format!("{} with a {kind} dictionary", codec.name()),
        });
        std::iter::once(plain).chain(with)
    })
}

/// Returns the levels of a codec that tests try: the lowest level, the highest level, the default
/// and its neighbours, and a few others.
pub fn levels(codec: &dyn Codec) -> Vec<i32> {
    let (range, default) = (codec.levels(), codec.default_level());
    let mut levels = vec![*range.start(), default - 1, default, default + 1, *range.end()];
    levels.extend([-7, -1, 2, 3, 6, 9, 12, 15, 17, 1000]);
    levels.retain(|level| range.contains(level));
    levels.sort();
    levels.dedup();
    levels
}
