//! Bytes of chance, and what codecs made with a few changes, to every codec with every dictionary,
//! of every length: an error or bytes that the input alone decides, nothing touched beside the
//! slices, and a stream as good as new. The fuzz target `codec` does the same for longer.

// Helpers outside the test functions unwrap too.
#![allow(clippy::unwrap_used)]

mod support;

use support::data::{Xorshift, kinds, random, seed};
use support::fence::decompressed;
use support::setting::settings;

/// For each codec with each dictionary: a tenth of a second or so.
const ROUNDS: usize = 3000;

/// Changes a few bytes, or cuts some off, or repeats some.
fn damage(bytes: &mut Vec<u8>, numbers: &mut Xorshift) {
    for _ in 0..=numbers.below(3) {
        let at = numbers.below(bytes.len());
        match numbers.below(6) {
            0 => bytes.truncate(at.max(1)),
            1 => bytes.extend_from_within(at..),
            2 => bytes[at] = 0xff,
            3 => bytes[at] = 0,
            _ => bytes[at] ^= 1 << numbers.below(8),
        }
    }
}

#[test]
fn whatever_is_decompressed_stays_within_its_slices() {
    const BLOCK: usize = 4096;
    /// Nothing, what lz4 ends each block with and a byte beside, and whether the block is one.
    const EDGES: [usize; 9] = [0, 1, 4, 5, 6, 12, 13, BLOCK - 1, BLOCK + 1];
    let seed = seed(31);
    for setting in settings() {
        let mut stream = setting.stream(None, BLOCK);
        let mut numbers = Xorshift::new(seed);
        let plain = kinds(BLOCK, seed);
        let mut buffer = vec![0; 2 * BLOCK];
        let compressed: Vec<Vec<u8>> = plain
            .iter()
            .map(|src| {
                let length = stream.compress(src, &mut buffer).unwrap().unwrap();
                buffer[..length].to_vec()
            })
            .collect();
        let rounds = if std::env::var_os("UZRAM_LONG").is_some() { 100 * ROUNDS } else { ROUNDS };
        for round in 0..rounds {
            let nth = numbers.below(compressed.len());
            let length = match numbers.below(4) {
                // All lengths there are, and some above.
                0 => round * 7 % (BLOCK + 64),
                1 => EDGES[numbers.below(EDGES.len())],
                _ => BLOCK,
            };
            let hostile = match numbers.below(4) {
                0 => random(1 + numbers.below(600), numbers.next()),
                _ => {
                    let mut bytes = compressed[nth].clone();
                    damage(&mut bytes, &mut numbers);
                    bytes
                }
            };
            let _ = decompressed(&mut *stream, &hostile, length);
            if round % 16 == 0 {
                let back = decompressed(&mut *stream, &compressed[nth], BLOCK);
                assert!(back.as_ref() == Ok(&plain[nth]), "{} in {round}", setting.name);
                let length = stream.compress(&plain[nth], &mut buffer).unwrap().unwrap();
                assert!(buffer[..length] == compressed[nth], "{} in {round}", setting.name);
            }
        }
    }
}
