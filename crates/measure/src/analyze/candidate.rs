//! What is tried: algorithms with their levels, and block sizes.

use crate::arguments::level;
use zcomp::{Codec, Params};

/// An algorithm at a level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) codec: &'static dyn Codec,
    pub(super) level: i32,
}

impl Kind {
    /// Reads `NAME` or `NAME:LEVEL`.
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

/// What a device is made with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) kind: Kind,
    pub(super) block: usize,
}

/// Returns all that there are.
pub(super) fn all(kinds: &[Kind], blocks: &[usize]) -> Vec<Candidate> {
    let of_block = |&block: &usize| kinds.iter().map(move |&kind| Candidate { kind, block });
    blocks.iter().flat_map(of_block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
