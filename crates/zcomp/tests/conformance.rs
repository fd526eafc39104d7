//! One suite of tests for all codecs. Decompression must restore the data. Output that does not fit
//! is reported, damaged input is rejected, and no memory outside the slices is accessed.

// Helper functions outside the tests use `unwrap`, too.
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use testkit::fence::{Fence, decompressed};
use testkit::samples::{graded, kinds, random, real, text};
use testkit::seed;
use testkit::settings::{Setting, dictionaries, levels, settings};
use zcomp::{BLOCK_BYTES_MAX, Dictionary, Error, Params, Stream, by_name, codecs};

const BLOCKS: [usize; 5] = [4096, 8192, 16_384, 32_768, 65_536];

/// The maximum number of bytes that a codec needs in `dst` beyond its output, see
/// `Stream::compress`.
const HEADROOM: usize = 16;

/// Returns an upper bound on the compressed length of `length` bytes.
fn bound(length: usize) -> usize {
    length + length / 64 + 512
}

/// Returns the compressed bytes of `src`. Fences around `src` and the output detect accesses
/// outside of these slices.
fn compressed(stream: &mut dyn Stream, src: &[u8]) -> Vec<u8> {
    let mut dst = Fence::new(bound(src.len()), 0);
    let length = stream.compress(&Fence::of(src), &mut dst).unwrap().expect("within the bound");
    dst.check();
    dst[..length].to_vec()
}

fn round_trip(stream: &mut dyn Stream, src: &[u8], what: &str) {
    let small = compressed(stream, src);
    let back = decompressed(stream, &small, src.len());
    assert!(back.as_deref() == Ok(src), "{what}: {} bytes came back otherwise", src.len());
}

#[test]
fn all_kinds_come_back_at_all_levels_and_block_sizes() {
    let seed = seed(1);
    for setting in settings() {
        for level in levels(setting.codec) {
            for block in BLOCKS {
                let mut stream = setting.stream(Some(level), block);
                let what = format!("{} level {level} block {block}", setting.name);
                for src in kinds(block, seed) {
                    round_trip(&mut *stream, &src, &what);
                }
            }
        }
    }
}

#[test]
fn all_lengths_near_edges_come_back() {
    let seed = seed(2);
    for setting in settings() {
        for level in levels(setting.codec) {
            for block in [4096, 65_536] {
                let mut stream = setting.stream(Some(level), block);
                let what = format!("{} level {level} block {block}", setting.name);
                let edges = [64, 256, 1024, 4096, 16_384, 65_536];
                let near = edges.map(|edge: usize| edge.saturating_sub(3).max(1)..=edge + 3);
                for length in (0..40).chain(near.into_iter().flatten()).filter(|l| *l <= block) {
                    for src in [graded(length, 20, seed), random(length, seed), vec![9; length]] {
                        round_trip(&mut *stream, &src, &what);
                    }
                }
            }
        }
    }
}

/// In Rust, an empty slice has the address 1, which the library must not access.
#[test]
fn a_block_of_nothing_comes_back() {
    for setting in settings() {
        for level in levels(setting.codec) {
            let mut stream = setting.stream(Some(level), 4096);
            let mut dst = [0; 2 * HEADROOM];
            let length = stream.compress(&[], &mut dst).unwrap().unwrap();
            assert_eq!(stream.decompress(&dst[..length], &mut []), Ok(()), "{}", setting.name);
            assert_eq!(stream.compress(&[], &mut []), Ok(None), "{}", setting.name);
        }
    }
}

#[test]
fn real_pages_come_back() {
    for block in BLOCKS {
        let pages = real(block);
        assert!(!pages.is_empty(), "there is at least this program");
        for setting in settings() {
            for level in [None, Some(1), Some(*setting.codec.levels().end())] {
                let mut stream = setting.stream(level, block);
                for src in &pages {
                    round_trip(&mut *stream, src, &setting.name);
                }
            }
        }
    }
}

/// After each block, a compression fails because its output does not fit. The next block must not
/// be affected.
#[test]
fn same_block_compresses_to_the_same_bytes_whatever_came_before() {
    let seed = seed(3);
    for setting in settings() {
        for level in levels(setting.codec) {
            for block in [4096, 65_536] {
                let (what, level) = (format!("{} level {level}", setting.name), Some(level));
                let mut used = setting.stream(level, block);
                let sources = [real(block), kinds(block, seed), kinds(block / 3, seed)].concat();
                for (index, src) in sources.iter().step_by(9).enumerate() {
                    let fresh = compressed(&mut *setting.stream(level, block), src);
                    assert!(compressed(&mut *used, src) == fresh, "{what} block {index}");
                    let _ = used.compress(src, &mut vec![0; fresh.len() / 2]).unwrap();
                }
            }
        }
    }
}

/// lz4hc numbers positions across blocks, and restarts after 1 GiB, which is about 16,000 blocks.
#[test]
fn what_a_block_compresses_to_does_not_change_in_long_use() {
    let seed = seed(3);
    for setting in settings().filter(|setting| setting.codec.name() == "lz4hc") {
        for level in [1, 3, 10] {
            let [mut used, mut fresh] = [4096; 2].map(|block| setting.stream(Some(level), block));
            let src = graded(600, 40, seed);
            let expected = compressed(&mut *fresh, &src);
            let mut dst = vec![0; bound(4096)];
            for round in 0..17_000 {
                let length = used.compress(&src, &mut dst).unwrap().unwrap();
                assert!(dst[..length] == expected, "{} level {level} in {round}", setting.name);
            }
        }
    }
}

#[test]
fn output_that_does_not_fit_is_none_and_never_overflows() {
    let seed = seed(4);
    for setting in settings() {
        let mut stream = setting.stream(None, 4096);
        for src in [text(600, seed), random(600, seed), graded(4096, 30, seed), vec![0; 4096]] {
            let full = compressed(&mut *stream, &src);
            for room in (0..=full.len() + HEADROOM).filter(|room| {
                src.len() == 600 || room % 97 == 0 || room.abs_diff(full.len()) < HEADROOM
            }) {
                let mut dst = Fence::new(room, 0);
                let result = stream.compress(&src, &mut dst).unwrap();
                dst.check();
                let Some(length) = result else {
                    assert!(room < full.len() + HEADROOM, "{room} bytes are enough");
                    continue;
                };
                let back = decompressed(&mut *stream, &dst[..length], src.len());
                assert_eq!(back.as_deref(), Ok(&src[..]));
            }
        }
    }
}

#[test]
fn lz4_fits_exactly_and_not_with_one_byte_less() {
    let seed = seed(5);
    for setting in settings().filter(|setting| setting.codec.name() != "zstd") {
        for level in levels(setting.codec) {
            let mut stream = setting.stream(Some(level), 4096);
            for src in kinds(4096, seed).iter().chain(&real(4096)) {
                let full = compressed(&mut *stream, src);
                let mut exact = Fence::new(full.len(), 0);
                assert_eq!(stream.compress(src, &mut exact), Ok(Some(full.len())));
                assert!(*exact == full[..]);
                let mut short = Fence::new(full.len() - 1, 0);
                assert_eq!(stream.compress(src, &mut short), Ok(None));
            }
        }
    }
}

#[test]
fn more_than_the_block_is_refused() {
    for setting in settings() {
        let mut stream = setting.stream(None, 4096);
        let result = stream.compress(&[0; 4097], &mut [0; 8192]);
        assert_eq!(result, Err(Error::TooLong { bytes: 4097, block: 4096 }));
        round_trip(&mut *stream, &[1; 4096], &setting.name);
    }
}

#[test]
fn wrong_output_lengths_are_refused() {
    let seed = seed(6);
    for setting in settings() {
        let mut stream = setting.stream(None, 4096);
        for src in kinds(4096, seed) {
            let small = compressed(&mut *stream, &src);
            for expected in [0, 1, 2048, 4094, 4095, 4097, 4200, 8192] {
                let error = decompressed(&mut *stream, &small, expected).unwrap_err();
                let compressed = small.len();
                assert_eq!(
                    error,
                    Error::Corrupt { codec: setting.codec.name(), compressed, expected }
                );
            }
            assert_eq!(decompressed(&mut *stream, &small, 4096).as_deref(), Ok(&src[..]));
        }
    }
}

#[test]
fn truncated_input_is_refused_at_every_length() {
    let seed = seed(7);
    for setting in settings() {
        let mut stream = setting.stream(None, 4096);
        for src in [text(4096, seed), graded(4096, 40, seed), random(700, seed), vec![0; 4096]] {
            let small = compressed(&mut *stream, &src);
            for length in 0..small.len() {
                let result = decompressed(&mut *stream, &small[..length], src.len());
                assert!(result.is_err(), "{} at {length} of {}", setting.name, small.len());
            }
            // Compressed data with an additional byte must be rejected, too.
            let longer = [&small[..], &[0]].concat();
            assert!(decompressed(&mut *stream, &longer, src.len()).is_err(), "{}", setting.name);
            assert_eq!(decompressed(&mut *stream, &small, src.len()).as_deref(), Ok(&src[..]));
        }
        assert!(decompressed(&mut *stream, &[], 0).is_err(), "no input is no block");
    }
}

/// The result for damaged data does not depend on the previous contents of the output buffer. No
/// write exceeds the buffer.
#[test]
fn flipped_bits_never_stray() {
    let seed = seed(8);
    for setting in settings() {
        let mut stream = setting.stream(None, 65_536);
        for src in [text(200, seed), random(60, seed), vec![0; 300], graded(500, 40, seed)] {
            let small = compressed(&mut *stream, &src);
            for bit in 0..small.len() * 8 {
                let mut damaged = small.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                let _ = decompressed(&mut *stream, &damaged, src.len());
            }
            for (index, value) in (0..small.len()).flat_map(|i| [0, 0x7f, 0xff].map(|v| (i, v))) {
                let mut damaged = small.clone();
                damaged[index] = value;
                let _ = decompressed(&mut *stream, &damaged, src.len());
            }
            assert_eq!(decompressed(&mut *stream, &small, src.len()).as_deref(), Ok(&src[..]));
        }
        let mut rng = Rng::with_seed(seed);
        for block in [4096, 65_536] {
            for src in kinds(block, seed.wrapping_add(1)) {
                let small = compressed(&mut *stream, &src);
                for round in 0..200 {
                    let mut damaged = small.clone();
                    for _ in 0..=round % 4 {
                        let index = rng.usize(..damaged.len());
                        damaged[index] ^= 1 << rng.usize(..8);
                    }
                    let _ = decompressed(&mut *stream, &damaged, src.len());
                }
                assert_eq!(decompressed(&mut *stream, &small, block).as_deref(), Ok(&src[..]));
            }
        }
    }
}

#[test]
fn noise_is_no_block() {
    let seed = seed(10);
    for setting in settings() {
        let mut stream = setting.stream(None, 4096);
        for nth in 0..3000 {
            let noise = random(1 + nth as usize % 400, seed.wrapping_add(nth));
            let _ = decompressed(&mut *stream, &noise, 4096);
        }
        round_trip(&mut *stream, &text(4096, seed), &setting.name);
    }
}

/// Compresses many blocks that are much shorter than the stream's maximum. The library must not
/// resize its memory, even if it considers the memory too large.
#[test]
fn long_use_on_short_blocks_stays_in_its_memory() {
    let seed = seed(11);
    for setting in settings() {
        for level in levels(setting.codec) {
            let mut stream = setting.stream(Some(level), 65_536);
            for round in 0..200 {
                round_trip(&mut *stream, &text(1 + round % 90, seed), &setting.name);
            }
            round_trip(&mut *stream, &text(65_536, seed), &setting.name);
        }
    }
}

#[test]
fn odd_block_sizes_work() {
    let seed = seed(12);
    for setting in settings() {
        for level in levels(setting.codec) {
            for block in [1, 7, 100, 1000, 5000, 12_345, 65_537, 200_000] {
                let mut stream = setting.stream(Some(level), block);
                round_trip(&mut *stream, &graded(block, 30, seed), &setting.name);
                round_trip(&mut *stream, &graded(block.div_ceil(2), 30, seed), &setting.name);
            }
        }
    }
}

#[test]
fn streams_work_on_other_threads_and_independently() {
    let first = seed(0);
    for setting in settings() {
        // All streams share one digest.
        let prepared = setting.prepared(None, 4096);
        let name = &setting.name;
        std::thread::scope(|scope| {
            for nth in 0..4 {
                let mut stream = prepared.stream().unwrap();
                scope.spawn(move || {
                    for round in 0..200 {
                        let seed = first.wrapping_add(nth * 1000 + round);
                        let src = graded(4096, 25, seed);
                        round_trip(&mut *stream, &src, name);
                    }
                });
            }
        });
    }
}

#[test]
fn levels_end_where_they_say() {
    for codec in codecs() {
        let range = codec.levels();
        assert!(range.contains(&codec.default_level()));
        assert_eq!(codec.check(&Params::default()), Ok(()));
        let params = |level| Params { level: Some(level), ..Params::default() };
        for level in [*range.start(), *range.end()] {
            assert_eq!(codec.check(&params(level)), Ok(()));
        }
        for level in [*range.start() - 1, *range.end() + 1, i32::MIN, i32::MAX] {
            let expected = Error::Level { codec: codec.name(), level, range: range.clone() };
            assert_eq!(codec.check(&params(level)), Err(expected.clone()));
            assert_eq!(codec.prepare(&params(level), 4096).err(), Some(expected));
        }
    }
    assert_eq!(by_name("lz4").unwrap().levels(), 1..=65_537);
    assert_eq!(by_name("lz4hc").unwrap().levels(), 1..=16);
    assert_eq!(by_name("zstd").unwrap().levels(), -131_072..=22);
}

#[test]
fn impossible_blocks_are_refused() {
    for codec in codecs() {
        let params = Params::default();
        for block in [0, BLOCK_BYTES_MAX + 1, usize::MAX] {
            let expected = Error::Block { block, max: BLOCK_BYTES_MAX };
            assert_eq!(codec.prepare(&params, block).err(), Some(expected));
        }
        assert!(codec.prepare(&params, BLOCK_BYTES_MAX).is_ok());
    }
}

#[test]
fn names_find_their_codec_or_say_why_not() {
    let names: Vec<_> = codecs().iter().map(|codec| codec.name()).collect();
    assert_eq!(names, ["lz4", "lz4hc", "zstd"]);
    assert_eq!(names, zcomp::names());
    for name in names {
        assert_eq!(by_name(name).unwrap().name(), name);
    }
    for name in ["lzo", "lzo-rle", "deflate", "842"] {
        assert_eq!(by_name(name).err(), Some(Error::Unsupported { name }));
    }
    for name in ["", "LZ4", "lz4 ", "foo", "none"] {
        let expected = Error::UnknownAlgorithm { name: name.to_owned() };
        assert_eq!(by_name(name).err(), Some(expected));
    }
}

#[test]
fn messages_name_thing_reason_and_remedy() {
    let message = |name| by_name(name).unwrap_err().to_string();
    assert_eq!(message("foo"), "unknown algorithm 'foo'; available are: lz4, lz4hc, zstd");
    assert_eq!(message("a\nb"), "unknown algorithm 'a\\nb'; available are: lz4, lz4hc, zstd");
    assert_eq!(message("842"), "algorithm '842' is not supported; available are: lz4, lz4hc, zstd");
    let error = by_name("zstd").unwrap().check(&Params { level: Some(40), ..Params::default() });
    assert_eq!(error.unwrap_err().to_string(), "level 40 is out of range for zstd: -131072 to 22");
}

#[test]
fn lz4hc_takes_levels_above_twelve_for_twelve() {
    let [mut twelve, mut sixteen] = [12, 16].map(|level| {
        let setting = settings().find(|setting| setting.codec.name() == "lz4hc").unwrap();
        setting.stream(Some(level), 4096)
    });
    for src in real(4096) {
        assert!(compressed(&mut *twelve, &src) == compressed(&mut *sixteen, &src));
    }
}

#[test]
fn a_dictionary_is_used() {
    for setting in settings().filter(|setting| setting.name.contains("content")) {
        let plain = Setting { dictionary: None, ..setting.clone() };
        for (level, block) in [(None, 4096), (Some(1), 4096), (Some(9), 65_536)] {
            // The source is noise from the dictionary, so its compressed form is only a reference
            // to the dictionary.
            let src = &setting.dictionary.as_ref().unwrap().bytes()[60_000..64_000];
            let with = compressed(&mut *setting.stream(level, block), src).len();
            let without = compressed(&mut *plain.stream(level, block), src).len();
            assert!(with < 100 && without >= 4000, "{}: {with}, {without}", setting.name);
        }
    }
}

/// A stream can decompress the output of another stream with the same parameters. With another
/// dictionary, or without a dictionary, the result is an error or wrong bytes, but no invalid
/// access.
#[test]
fn only_the_same_dictionary_decompresses() {
    let seed = seed(21);
    for block in [4096, 65_536] {
        for from in settings() {
            let mut encoder = from.stream(None, block);
            for src in kinds(block, seed) {
                let small = compressed(&mut *encoder, &src);
                for to in settings().filter(|to| to.codec.name() == from.codec.name()) {
                    let back = decompressed(&mut *to.stream(None, block), &small, block);
                    if to.dictionary == from.dictionary {
                        assert_eq!(back.as_deref(), Ok(&src[..]), "{}", from.name);
                    }
                }
            }
        }
    }
}

#[test]
fn dictionaries_of_all_sizes_work() {
    let seed = seed(22);
    let content = dictionaries()[1].1.bytes();
    for codec in codecs() {
        for bytes in (1..20).chain([4095, 65_535, 65_536, 65_537, content.len()]) {
            let dictionary = Dictionary::new(&content[content.len() - bytes..]).unwrap();
            let params = Params { level: None, dictionary: Some(dictionary) };
            for block in [100, 4096, 65_536] {
                let mut stream = codec.prepare(&params, block).unwrap().stream().unwrap();
                for src in kinds(block, seed) {
                    round_trip(&mut *stream, &src, &format!("{} with {bytes}", codec.name()));
                }
            }
        }
    }
}

/// If the estimate for a zstd context were too small, the compression of the first block would
/// fail.
#[test]
fn a_stream_beside_a_dictionary_has_room_for_every_block() {
    let (codec, seed) = (by_name("zstd").unwrap(), seed(24));
    for (kind, dictionary) in dictionaries() {
        let params = |level| Params { level: Some(level), dictionary: Some(dictionary.clone()) };
        for level in levels(codec) {
            for block in
                [8 << 10, 16 << 10, 32 << 10, 128 << 10].into_iter().flat_map(|at| at - 1..=at + 1)
            {
                let prepared = codec.prepare(&params(level), block).unwrap();
                let mut stream = prepared.stream().unwrap();
                for len in [block, 1, block / 2, block - 1, block] {
                    let name = format!("{kind}, level {level}, {len} of {block} bytes");
                    round_trip(&mut *stream, &text(len, seed), &name);
                }
            }
        }
    }
}

/// If the library does not copy the digest, a stream uses the tables of the digest and has no
/// tables of its own.
#[test]
fn a_stream_beside_a_dictionary_takes_little_more() {
    let codec = by_name("zstd").unwrap();
    for (kind, dictionary) in dictionaries() {
        for (level, block) in [(-5, 4096), (1, 4096), (3, 4096), (3, 16_384), (9, 16_384)] {
            let bytes = |dictionary| {
                let params = Params { level: Some(level), dictionary };
                codec.prepare(&params, block).unwrap().stream_bytes()
            };
            let (with, without) = (bytes(Some(dictionary.clone())), bytes(None));
            assert!(with <= without * 5 / 4, "{kind}, {level}, {block}: {with}, {without}");
        }
    }
}

#[test]
fn what_is_shared_is_counted_and_stays() {
    let seed = seed(23);
    for setting in settings() {
        let prepared = setting.prepared(None, 4096);
        let content = setting.dictionary.as_ref().map_or(0, |dictionary| dictionary.bytes().len());
        match setting.dictionary {
            None => assert_eq!(prepared.bytes(), 0),
            Some(_) => assert!(prepared.bytes() > content + 16_384, "{prepared:?}"),
        }
        let params = setting.params(None);
        drop((setting, params));
        let mut streams = [prepared.stream().unwrap(), prepared.stream().unwrap()];
        drop(prepared);
        for stream in &mut streams {
            round_trip(&mut **stream, &text(4096, seed), "a stream that is left");
        }
    }
}

#[test]
fn dictionaries_that_can_not_be_used_are_refused() {
    let seed = seed(24);
    assert_eq!(Dictionary::new([]).err(), Some(Error::EmptyDictionary));
    let largest = vec![7; Dictionary::BYTES_MAX];
    assert!(Dictionary::new(&largest[..]).is_ok());
    assert_eq!(Dictionary::new([largest, vec![7]].concat()).err(), Some(Error::LargeDictionary));
    // The beginning of a zstd dictionary, cut off after 40 bytes.
    let bytes = dictionaries()[0].1.bytes()[..40].to_vec();
    let params = Params { level: None, dictionary: Some(Dictionary::new(bytes).unwrap()) };
    let expected = Error::Dictionary { codec: "zstd", bytes: 40 };
    assert_eq!(by_name("zstd").unwrap().prepare(&params, 4096).err(), Some(expected.clone()));
    assert!(
        expected.to_string().contains("zstd finds the dictionary of 40 bytes damaged"),
        "{expected}"
    );
    for name in ["lz4", "lz4hc"] {
        let prepared = by_name(name).unwrap().prepare(&params, 4096).unwrap();
        round_trip(&mut *prepared.stream().unwrap(), &text(4096, seed), name);
    }
}
