//! The candidates, each of which consists of an algorithm, its level, and a block size.

use crate::values::level;
use zcomp::{Codec, Params};

/// An algorithm at a level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) codec: &'static dyn Codec,
    pub(super) level: i32,
}

impl Kind {
    /// Parses `NAME` or `NAME:LEVEL`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (name, number) = match text.split_once(':') {
            Some((name, number)) => (name, Some(level(number)?)),
            None => (text, None),
        };
        let codec = zcomp::by_name(name).map_err(|error| error.to_string())?;
        let params = Params { level: number, ..Params::default() };
        codec.check(&params).map_err(|error| error.to_string())?;
        Ok(Kind { codec, level: number.unwrap_or(codec.default_level()) })
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) kind: Kind,
    pub(super) block: usize,
}

/// Returns each combination of an algorithm and a block size once.
pub(super) fn all(kinds: &[Kind], blocks: &[usize]) -> Vec<Candidate> {
    let named = |one: &Candidate| (one.block, one.kind.codec.name(), one.kind.level);
    let mut all: Vec<Candidate> = Vec::new();
    let of_block = |&block: &usize| kinds.iter().map(move |&kind| Candidate { kind, block });
    for candidate in blocks.iter().flat_map(of_block) {
        if !all.iter().any(|one| named(one) == named(&candidate)) {
            all.push(candidate);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_twice_is_tried_once() {
        let kinds = ["lz4", "zstd:1", "lz4", "zstd:2"].map(|text| Kind::parse(text).unwrap());
        let all = all(&kinds, &[4096, 16384, 4096]);
        let found: Vec<_> = all.iter().map(|one| (one.block, one.kind.level)).collect();
        let lz4 = kinds[0].level;
        let expected = [(4096, lz4), (4096, 1), (4096, 2), (16384, lz4), (16384, 1), (16384, 2)];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_level_may_be_given() {
        let kind = Kind::parse("zstd:-3").unwrap();
        assert_eq!((kind.codec.name(), kind.level), ("zstd", -3));
        assert_eq!(Kind::parse("zstd").unwrap().level, kind.codec.default_level());
        for text in ["", "nosuch", "zstd:", "zstd:99", "zstd:x", "lz4:-1"] {
            assert!(Kind::parse(text).is_err(), "{text}");
        }
    }
}
