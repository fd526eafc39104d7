//! Data to compress: generated from a seed, and read from files.

use fastrand::Rng;
use std::fs;
use std::path::Path;

/// Returns random bytes.
pub fn random(length: usize, seed: u64) -> Vec<u8> {
    let mut rng = Rng::with_seed(seed);
    (0..length).map(|_| rng.u8(..)).collect()
}

/// Returns runs of bytes. `percent` percent of the runs are random, and the others are copies of
/// earlier bytes. With 0 percent, the bytes only repeat. With 100 percent, they are incompressible.
pub fn graded(length: usize, percent: usize, seed: u64) -> Vec<u8> {
    let mut rng = Rng::with_seed(seed);
    let mut bytes = vec![rng.u8(..)];
    while bytes.len() < length {
        let run = 1 + rng.usize(..24);
        let is_random = rng.usize(..100) < percent;
        let from = rng.usize(..bytes.len());
        for step in 0..run {
            bytes.push(if is_random { rng.u8(..) } else { bytes[from + step] });
        }
    }
    bytes.truncate(length);
    bytes
}

/// Returns words of a small vocabulary.
pub fn text(length: usize, seed: u64) -> Vec<u8> {
    const WORDS: [&str; 12] = [
        "page",
        "of",
        "the",
        "pool",
        "slot",
        "and",
        "compressed",
        "reader",
        "waits",
        "never",
        "mover",
        "a",
    ];
    let mut rng = Rng::with_seed(seed);
    let mut bytes = Vec::new();
    while bytes.len() < length {
        bytes.extend(WORDS[rng.usize(..WORDS.len())].bytes());
        bytes.push(if rng.usize(..9) == 0 { b'\n' } else { b' ' });
    }
    bytes.truncate(length);
    bytes
}

/// Returns one block of each generated kind.
pub fn kinds(length: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut kinds = vec![
        vec![0; length],
        vec![0xff; length],
        (0..length).map(|index| index as u8).collect(),
        (0..length)
            .map(|index| (index >> 3) as u8 & (0u8.wrapping_sub((index & 1) as u8)))
            .collect(),
        text(length, seed),
        random(length, seed),
    ];
    kinds.extend([0, 10, 30, 60, 90].map(|percent| graded(length, percent, seed)));
    kinds
}

/// Returns blocks of this program's file and of files in /usr/lib. From each file, returns the
/// first, the middle and the last whole block.
pub fn real(length: usize) -> Vec<Vec<u8>> {
    let mut paths = vec!["/proc/self/exe".into()];
    for folder in ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib"] {
        let Ok(entries) = fs::read_dir(Path::new(folder)) else { continue };
        let mut found: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        found.sort();
        paths.extend(found.into_iter().filter(|path| path.is_file()).take(12));
    }
    let files = paths.iter().filter_map(|path| fs::read(path).ok());
    let blocks = files.flat_map(|bytes| {
        let count = bytes.len() / length;
        let mut chosen = vec![0, count / 2, count.saturating_sub(1)];
        chosen.dedup();
        chosen.retain(|index| *index < count);
        let block = |index: usize| bytes[index * length..][..length].to_vec();
        chosen.into_iter().map(block).collect::<Vec<_>>()
    });
    blocks.collect()
}
