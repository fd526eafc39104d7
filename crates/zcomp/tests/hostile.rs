//! Every codec decompresses random bytes, and compressed data with a few changes, with every
//! dictionary and to every length. The result must be an error, or bytes that depend only on the
//! input. The decoder must access no memory outside the slices, and later calls must succeed. The
//! fuzz target `codec` runs the same test for longer.

// Helper functions outside the tests use `unwrap`, too.
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use testkit::codec::CodecModel;
use testkit::fence::decompressed;
use testkit::samples::{kinds, random};
use testkit::settings::settings;
use testkit::{run_any, scaled, seed};

/// The number of rounds for each codec with each dictionary. These rounds take about a tenth of a
/// second.
const ROUNDS: usize = 3000;

/// Changes a few bytes, or truncates `bytes`, or repeats its last bytes.
fn damage(bytes: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..=rng.usize(..3) {
        let at = rng.usize(..bytes.len());
        match rng.usize(..6) {
            0 => bytes.truncate(at.max(1)),
            1 => bytes.extend_from_within(at..),
            2 => bytes[at] = 0xff,
            3 => bytes[at] = 0,
            _ => bytes[at] ^= 1 << rng.usize(..8),
        }
    }
}

#[test]
fn whatever_is_decompressed_stays_within_its_slices() {
    const BLOCK: usize = 4096;
    /// Lengths near 0, near the literals that end each block of lz4, and near the block size.
    const EDGES: [usize; 9] = [0, 1, 4, 5, 6, 12, 13, BLOCK - 1, BLOCK + 1];
    let seed = seed(31);
    for setting in settings() {
        let mut stream = setting.stream(None, BLOCK);
        let mut rng = Rng::with_seed(seed);
        let plain = kinds(BLOCK, seed);
        let mut buffer = vec![0; 2 * BLOCK];
        let compressed: Vec<Vec<u8>> = plain
            .iter()
            .map(|src| {
                let length = stream.compress(src, &mut buffer).unwrap().unwrap();
                buffer[..length].to_vec()
            })
            .collect();
        let rounds = scaled(ROUNDS, 100 * ROUNDS);
        for round in 0..rounds {
            let nth = rng.usize(..compressed.len());
            let length = match rng.usize(..4) {
                // All lengths up to the block size, and some greater lengths.
                0 => round * 7 % (BLOCK + 64),
                1 => EDGES[rng.usize(..EDGES.len())],
                _ => BLOCK,
            };
            let hostile = match rng.usize(..4) {
                0 => random(1 + rng.usize(..600), rng.u64(..)),
                _ => {
                    let mut bytes = compressed[nth].clone();
                    damage(&mut bytes, &mut rng);
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

#[test]
fn any_stream_is_as_good_as_new_after_any_bytes() {
    (500..scaled(560, 3000)).for_each(|nth| _ = run_any::<CodecModel>(nth as u64, 60));
}
