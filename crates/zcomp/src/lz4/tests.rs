//! Tests blocks with long runs. The library's decoder, without this crate's code, must decompress
//! the blocks. A block must be as long as the output of the library's encoder. The match of a run
//! must have a fast offset.

use fastrand::Rng;
use testkit::samples::{kinds, random, real, text};
use testkit::{scaled, seed};

use super::runs::{Cursor, Match, has_slow_run, shorten_offsets};
use super::*;

const PAGE: usize = 4096;

/// Returns `None`, and a dictionary that shares content with the blocks.
fn dictionaries() -> [Option<Dictionary>; 2] {
    let content = [text(3000, 5), vec![0; 200], random(500, 5)].concat();
    [None, Some(Dictionary::new(content).unwrap())]
}

fn stream(codec: Lz4, block: usize, dictionary: Option<Dictionary>) -> Lz4Stream {
    let level = codec.default_level();
    let dictionary = dictionary.map(|content| Lz4Dictionary::new(codec, level, &content).unwrap());
    let stream_bytes = bytes_for(&[codec.state_bytes()]).unwrap();
    let dictionary = dictionary.map(Arc::new);
    let prepared = PreparedLz4 { codec, level, block, stream_bytes, dictionary };
    prepared.lz4_stream().unwrap()
}

/// Returns `bytes` bytes that repeat a random word of `period` bytes.
fn run(period: usize, bytes: usize, rng: &mut Rng) -> Vec<u8> {
    let word = random(period, rng.u64(..));
    word.into_iter().cycle().take(bytes).collect()
}

/// Returns a page of noise, a run, and noise.
fn page(before: usize, period: usize, run_bytes: usize, after: usize, rng: &mut Rng) -> Vec<u8> {
    let [before, after] = [before, after].map(|bytes| random(bytes, rng.u64(..)));
    [before, run(period, run_bytes, rng), after].concat()
}

fn matches(block: &[u8]) -> Vec<Match> {
    let mut cursor = Cursor::default();
    std::iter::from_fn(|| cursor.next_match(block)).collect()
}

/// Compresses `plain` and returns the block. Checks the block's length, and that the library's
/// decoder and our decoder both restore `plain`.
fn check(stream: &mut Lz4Stream, plain: &[u8], what: &str) -> Vec<u8> {
    let mut raw = vec![0; 2 * plain.len() + 64];
    let mut block = raw.clone();
    let raw_bytes = stream.encode(plain, &mut raw).unwrap();
    let bytes = stream.compress(plain, &mut block).unwrap().unwrap();
    assert_eq!(bytes, raw_bytes, "{what}: the length");
    block.truncate(bytes);
    for source in [&raw[..bytes], &block] {
        let [mut theirs, mut ours] = [0x5a, 0xa5].map(|fill| vec![fill; plain.len()]);
        assert_eq!(stream.decode(source, &mut theirs, Extent::Whole), Some(plain.len()), "{what}");
        assert_eq!(stream.decompress(source, &mut ours), Ok(()), "{what}");
        assert!(theirs == plain && ours == plain, "{what}: other bytes came back");
    }
    block
}

#[test]
fn no_match_of_a_run_in_noise_is_slow_to_decode() {
    let mut rng = Rng::with_seed(seed(41));
    let pages = [
        ("zeros to the end", 1, 1638, 0),
        ("zeros first", 1, 0, 1638),
        ("64 bytes repeated", 64, 1638, 0),
        ("zeros in the middle", 1, 800, 838),
        ("a word of 2 in the middle", 2, 800, 838),
        ("a word of 4 to the end", 4, 1638, 0),
        ("a word of 8 in the middle", 8, 800, 838),
        ("zeros that are shorter than the noise before them", 1, 2600, 0),
        ("64 bytes repeated for less than the noise before them", 64, 3400, 0),
    ];
    for (name, period, before, after) in pages {
        for _ in 0..20 {
            let mut plain = page(before, period, PAGE - before - after, after, &mut rng);
            if period == 1 {
                plain[before..PAGE - after].fill(0);
                plain[PAGE - after..].iter_mut().for_each(|byte| *byte |= 1);
            }
            for codec in [Lz4::Fast, Lz4::High] {
                for dictionary in dictionaries() {
                    let mut stream = stream(codec, PAGE, dictionary);
                    let block = check(&mut stream, &plain, name);
                    let tail = Tail::of(&block, PAGE);
                    assert_eq!(tail.is_some(), after == 0, "{name}: a run to the end has a tail");
                    let by_tail =
                        tail.map(|tail| stream.decode_tail(&tail, &block, &mut [0; PAGE]));
                    assert_eq!(by_tail, (after == 0).then_some(true), "{name}");
                    let found = matches(&block);
                    // The match must cover most of the run.
                    let least = (PAGE - before - after) * 5 / 6;
                    assert!(found.iter().any(|found| found.bytes > least), "{name}: no run");
                    assert!(!found.iter().any(Match::is_slow), "{name} by {codec:?}");
                }
            }
        }
    }
}

#[test]
fn runs_of_any_period_and_length_come_back_at_the_librarys_length() {
    let mut rng = Rng::with_seed(seed(42));
    const RUNS: [usize; 10] = [0, 60, 68, 127, 190, 273, 278, 300, 1000, 2319];
    const AFTER: [usize; 9] = [0, 1, 4, 5, 6, 12, 13, 64, 300];
    for codec in [Lz4::Fast, Lz4::High] {
        for dictionary in dictionaries() {
            let mut stream = stream(codec, PAGE, dictionary);
            for nth in 0..scaled(64 * 60, 64 * 2000) {
                let period = 1 + nth % 64;
                let before = [0, 1, 70, 400, 1638][rng.usize(..5)] + rng.usize(..8);
                let run_bytes = RUNS[rng.usize(..RUNS.len())] + rng.usize(..8);
                let after = AFTER[rng.usize(..AFTER.len())];
                let plain = page(before, period, run_bytes, after, &mut rng);
                let what = format!("{before} {period} {run_bytes} {after} by {codec:?}");
                if !plain.is_empty() {
                    check(&mut stream, &plain[..plain.len().min(PAGE)], &what);
                }
            }
        }
    }
}

#[test]
fn larger_blocks_and_real_pages_come_back_at_the_librarys_length() {
    let seed = seed(43);
    let mut rng = Rng::with_seed(seed);
    for block in [PAGE, 16_384, 65_536, 100_000] {
        let mut stream = stream(Lz4::Fast, block, None);
        for plain in [real(block), kinds(block, seed)].concat() {
            check(&mut stream, &plain, "a sample");
        }
        for period in [1, 3, 4, 8, 64] {
            for before in [block / 5, block / 2, block - 300] {
                for after in [0, block / 8] {
                    let run_bytes = block.saturating_sub(before + after);
                    let plain = page(before, period, run_bytes, after, &mut rng);
                    check(&mut stream, &plain[..plain.len().min(block)], "a run");
                }
            }
        }
    }
}

#[test]
fn any_bytes_are_walked_without_a_panic() {
    let mut rng = Rng::with_seed(seed(44));
    for _ in 0..scaled(20_000, 1_000_000) {
        let mut block = random(rng.usize(..80), rng.u64(..));
        let chosen = [0, 1, 7, 15, 0xf0, 0xff];
        block.iter_mut().for_each(|byte| {
            if rng.bool() {
                *byte = chosen[rng.usize(..chosen.len())];
            }
        });
        let (before, plain) = (block.clone(), vec![0; rng.usize(..3000)]);
        has_slow_run(&plain, &block);
        shorten_offsets(&plain, &mut block);
        assert_eq!(block.len(), before.len());
        assert_eq!(matches(&block).len(), matches(&before).len(), "only offsets change");
    }
}

/// The decoder of this crate and the library's decoder give the same result for a randomly damaged
/// tail.
#[test]
fn damaged_tails_decode_as_by_the_library() {
    let mut rng = Rng::with_seed(seed(45));
    let mut tails = 0;
    for dictionary in dictionaries() {
        let mut stream = stream(Lz4::Fast, PAGE, dictionary);
        for _ in 0..scaled(30_000, 1_000_000) {
            let (period, run_bytes) = (1 + rng.usize(..12), 280 + rng.usize(..2500));
            let before = rng.usize(..PAGE - run_bytes);
            let plain = page(before, period, run_bytes, 0, &mut rng);
            let mut block = vec![0; 2 * PAGE];
            let bytes = stream.encode(&plain, &mut block).unwrap();
            block.truncate(bytes);
            for _ in 0..1 + rng.usize(..3) {
                let at = block.len() - 1 - rng.usize(..block.len().min(30));
                block[at] = match rng.usize(..5) {
                    0 => 255,
                    1 => 0x50,
                    2 => 0,
                    3 => rng.u8(..),
                    _ => block[at] ^ (1 << rng.usize(..8)),
                };
            }
            if rng.bool() {
                let from = block.len() - rng.usize(..block.len().min(16));
                block.extend_from_within(from..);
            }
            tails += usize::from(Tail::of(&block, plain.len()).is_some());
            let [mut theirs, mut ours] = [vec![0; plain.len()], vec![0; plain.len()]];
            let is_whole = stream.decode(&block, &mut theirs, Extent::Whole) == Some(plain.len());
            assert_eq!(stream.decompress(&block, &mut ours).is_ok(), is_whole);
            assert!(!is_whole || theirs == ours, "other bytes than the library's");
        }
    }
    assert!(tails > 1000, "{tails} blocks appeared to have a tail");
}
