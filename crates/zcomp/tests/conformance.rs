//! One suite for every codec: what goes in comes out, what does not fit is told, what is damaged is
//! refused, and nothing is ever touched beside the slices given.

// Helpers outside the test functions unwrap too.
#![allow(clippy::unwrap_used)]

mod support;

use support::data::{Xorshift, graded, kinds, random, real, text};
use support::fence::Fence;
use zcomp::{BLOCK_BYTES_MAX, Codec, Error, Memory, Params, Stream, by_name, codecs};

const BLOCKS: [usize; 5] = [4096, 8192, 16_384, 32_768, 65_536];

/// What a codec may want beyond what it writes, see `Stream::compress`.
const HEADROOM: usize = 16;

/// Levels to try of a codec: the ends, the default and its neighbours, and a few between.
fn levels(codec: &dyn Codec) -> Vec<i32> {
    let (range, default) = (codec.levels(), codec.default_level());
    let mut levels = vec![*range.start(), default - 1, default, default + 1, *range.end()];
    levels.extend([-7, -1, 6, 9, 12, 15, 17, 1000]);
    levels.retain(|level| range.contains(level));
    levels.sort();
    levels.dedup();
    levels
}

fn owned(codec: &dyn Codec, level: Option<i32>, block: usize) -> Box<dyn Stream> {
    let params = Params { level };
    let bytes = codec.stream_bytes(&params, block).unwrap();
    codec.stream(&params, block, Memory::owned(bytes).unwrap()).unwrap()
}

/// More than anything of this length compresses to.
fn bound(length: usize) -> usize {
    length + length / 64 + 512
}

/// What `src` compresses to, with both slices fenced.
fn compressed(stream: &mut dyn Stream, src: &[u8]) -> Vec<u8> {
    let mut dst = Fence::new(bound(src.len()), 0);
    let length = stream.compress(&Fence::of(src), &mut dst).unwrap().expect("within the bound");
    dst.check();
    dst[..length].to_vec()
}

/// What `src` decompresses to, with both slices fenced, if it does: twice, into zeros and into ones,
/// which must not show through.
fn decompressed(stream: &mut dyn Stream, src: &[u8], length: usize) -> Result<Vec<u8>, Error> {
    let src = Fence::of(src);
    let [mut zeros, mut ones] = [Fence::new(length, 0), Fence::new(length, 0xff)];
    let first = stream.decompress(&src, &mut zeros);
    let second = stream.decompress(&src, &mut ones);
    zeros.check();
    ones.check();
    assert_eq!(first, second);
    first?;
    assert!(*zeros == *ones, "old bytes of the output show through");
    Ok(zeros.to_vec())
}

fn round_trip(stream: &mut dyn Stream, src: &[u8], what: &str) {
    let small = compressed(stream, src);
    let back = decompressed(stream, &small, src.len());
    assert!(back.as_deref() == Ok(src), "{what}: {} bytes came back otherwise", src.len());
}

#[test]
fn all_kinds_come_back_at_all_levels_and_block_sizes() {
    for codec in codecs() {
        for level in levels(*codec) {
            for block in BLOCKS {
                let mut stream = owned(*codec, Some(level), block);
                let what = format!("{} level {level} block {block}", codec.name());
                for src in kinds(block, 1) {
                    round_trip(&mut *stream, &src, &what);
                }
            }
        }
    }
}

#[test]
fn all_lengths_near_edges_come_back() {
    for codec in codecs() {
        for level in levels(*codec) {
            for block in [4096, 65_536] {
                let mut stream = owned(*codec, Some(level), block);
                let what = format!("{} level {level} block {block}", codec.name());
                let edges = [1, 64, 128, 256, 512, 1024, 4096, 16_384, 65_536];
                let near = edges.map(|edge: usize| edge.saturating_sub(3).max(1)..=edge + 3);
                for length in (1..40).chain(near.into_iter().flatten()).filter(|l| *l <= block) {
                    for src in [graded(length, 20, 2), random(length, 2), vec![9; length]] {
                        round_trip(&mut *stream, &src, &what);
                    }
                }
            }
        }
    }
}

#[test]
fn real_pages_come_back() {
    for block in BLOCKS {
        let pages = real(block);
        assert!(!pages.is_empty(), "there is at least this program");
        for codec in codecs() {
            for level in [None, Some(1), Some(*codec.levels().end())] {
                let mut stream = owned(*codec, level, block);
                for src in &pages {
                    round_trip(&mut *stream, src, codec.name());
                }
            }
        }
    }
}

#[test]
fn same_block_compresses_to_the_same_bytes_whatever_came_before() {
    for codec in codecs() {
        for (level, block) in [(1, 4096), (3, 4096), (9, 65_536)] {
            let mut used = owned(*codec, Some(level), block);
            for (index, src) in real(block).iter().chain(&kinds(block / 3, 3)).enumerate() {
                let fresh = compressed(&mut *owned(*codec, Some(level), block), src);
                assert!(compressed(&mut *used, src) == fresh, "{} block {index}", codec.name());
            }
        }
    }
}

#[test]
fn output_that_does_not_fit_is_none_and_never_overflows() {
    for codec in codecs() {
        let mut stream = owned(*codec, None, 4096);
        for src in [text(600, 4), random(600, 4), graded(4096, 30, 4), vec![0; 4096]] {
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
    let mut stream = owned(by_name("lz4").unwrap(), None, 4096);
    for src in kinds(4096, 5).iter().chain(&real(4096)) {
        let full = compressed(&mut *stream, src);
        let mut exact = Fence::new(full.len(), 0);
        assert_eq!(stream.compress(src, &mut exact), Ok(Some(full.len())));
        assert!(*exact == full[..]);
        let mut short = Fence::new(full.len() - 1, 0);
        assert_eq!(stream.compress(src, &mut short), Ok(None));
    }
}

#[test]
fn more_than_the_block_is_refused() {
    for codec in codecs() {
        let mut stream = owned(*codec, None, 4096);
        let result = stream.compress(&[0; 4097], &mut [0; 8192]);
        assert_eq!(result, Err(Error::TooLong { bytes: 4097, block: 4096 }));
        round_trip(&mut *stream, &[1; 4096], codec.name());
    }
}

#[test]
fn wrong_output_lengths_are_refused() {
    for codec in codecs() {
        let mut stream = owned(*codec, None, 4096);
        for src in kinds(4096, 6) {
            let small = compressed(&mut *stream, &src);
            for expected in [0, 1, 2048, 4094, 4095, 4097, 4200, 8192] {
                let error = decompressed(&mut *stream, &small, expected).unwrap_err();
                let compressed = small.len();
                assert_eq!(error, Error::Corrupt { codec: codec.name(), compressed, expected });
            }
            assert_eq!(decompressed(&mut *stream, &small, 4096).as_deref(), Ok(&src[..]));
        }
    }
}

#[test]
fn truncated_input_is_refused_at_every_length() {
    for codec in codecs() {
        let mut stream = owned(*codec, None, 4096);
        for src in [text(4096, 7), graded(4096, 40, 7), random(700, 7), vec![0; 4096]] {
            let small = compressed(&mut *stream, &src);
            for length in 0..small.len() {
                let result = decompressed(&mut *stream, &small[..length], src.len());
                assert!(result.is_err(), "{} at {length} of {}", codec.name(), small.len());
            }
            // Neither may anything follow.
            let longer = [&small[..], &[0]].concat();
            assert!(decompressed(&mut *stream, &longer, src.len()).is_err(), "{}", codec.name());
            assert_eq!(decompressed(&mut *stream, &small, src.len()).as_deref(), Ok(&src[..]));
        }
        assert!(decompressed(&mut *stream, &[], 0).is_err(), "no input is no block");
    }
}

/// Whatever damaged data gives, it gives the same whatever the output held, and stays within it.
#[test]
fn flipped_bits_never_stray() {
    for codec in codecs() {
        let mut stream = owned(*codec, None, 65_536);
        for src in [text(200, 8), random(60, 8), vec![0; 300], graded(500, 40, 8)] {
            let small = compressed(&mut *stream, &src);
            for bit in 0..small.len() * 8 {
                let mut damaged = small.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                let _ = decompressed(&mut *stream, &damaged, src.len());
            }
            for (index, value) in
                (0..small.len()).flat_map(|i| [0, 0x7f, 0x80, 0xff].map(|v| (i, v)))
            {
                let mut damaged = small.clone();
                damaged[index] = value;
                let _ = decompressed(&mut *stream, &damaged, src.len());
            }
            assert_eq!(decompressed(&mut *stream, &small, src.len()).as_deref(), Ok(&src[..]));
        }
        let mut numbers = Xorshift::new(8);
        for block in [4096, 65_536] {
            for src in kinds(block, 9) {
                let small = compressed(&mut *stream, &src);
                for round in 0..200 {
                    let mut damaged = small.clone();
                    for _ in 0..=round % 4 {
                        let index = numbers.below(damaged.len());
                        damaged[index] ^= 1 << numbers.below(8);
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
    for codec in codecs() {
        let mut stream = owned(*codec, None, 4096);
        for seed in 0..3000 {
            let noise = random(1 + seed as usize % 400, seed);
            let _ = decompressed(&mut *stream, &noise, 4096);
        }
        round_trip(&mut *stream, &text(4096, 10), codec.name());
    }
}

/// Blocks far shorter than the stream's, for long: the library must not come to think that its memory
/// is wasted and want another.
#[test]
fn long_use_on_short_blocks_stays_in_its_memory() {
    for codec in codecs() {
        for level in levels(*codec) {
            let mut stream = owned(*codec, Some(level), 65_536);
            for round in 0..400 {
                round_trip(&mut *stream, &text(1 + round % 90, 11), codec.name());
            }
            round_trip(&mut *stream, &text(65_536, 11), codec.name());
        }
    }
}

#[test]
fn odd_block_sizes_work() {
    for codec in codecs() {
        for level in levels(*codec) {
            for block in [1, 7, 100, 1000, 5000, 12_345, 65_537, 200_000] {
                let mut stream = owned(*codec, Some(level), block);
                round_trip(&mut *stream, &graded(block, 30, 12), codec.name());
                round_trip(&mut *stream, &graded(block.div_ceil(2), 30, 12), codec.name());
            }
        }
    }
}

#[test]
fn given_memory_serves_wherever_it_starts_and_keeps_to_itself() {
    for codec in codecs() {
        for level in levels(*codec) {
            let params = Params { level: Some(level) };
            let needed = codec.stream_bytes(&params, 4096).unwrap();
            assert_eq!(needed % 8, 0);
            let words = needed / 8;
            let mut memory = vec![!0; words + 16];
            for start in 0..8 {
                memory.fill(!0);
                let given = Memory::Given(&mut memory[start..start + words]);
                assert_eq!(given.bytes(), needed);
                let mut stream = codec.stream(&params, 4096, given).unwrap();
                round_trip(&mut *stream, &graded(4096, 30, 13), codec.name());
                round_trip(&mut *stream, &random(4096, 13), codec.name());
                drop(stream);
                let around = memory[..start].iter().chain(&memory[start + words..]);
                assert!(around.into_iter().all(|word| *word == !0), "{}", codec.name());
            }
        }
    }
}

#[test]
fn larger_memory_serves_and_smaller_is_refused() {
    for codec in codecs() {
        let params = Params::default();
        let needed = codec.stream_bytes(&params, 4096).unwrap();
        for extra in [8, 1 << 20] {
            let memory = Memory::owned(needed + extra).unwrap();
            let mut stream = codec.stream(&params, 4096, memory).unwrap();
            for seed in 0..300 {
                round_trip(&mut *stream, &text(4096, seed), codec.name());
            }
        }
        for given in [0, 8, needed - 8] {
            let mut memory = vec![0; given / 8];
            for memory in [Memory::owned(given).unwrap(), Memory::Given(&mut memory)] {
                let error = codec.stream(&params, 4096, memory).err();
                assert_eq!(error, Some(Error::Memory { codec: codec.name(), needed, given }));
            }
        }
    }
    let bytes = usize::MAX / 2;
    assert_eq!(Memory::owned(bytes).err(), Some(Error::NoMemory { bytes }));
}

#[test]
fn streams_work_on_other_threads_and_independently() {
    for codec in codecs() {
        std::thread::scope(|scope| {
            for seed in 0..4 {
                let mut stream = owned(*codec, None, 4096);
                scope.spawn(move || {
                    for round in 0..200 {
                        let src = graded(4096, 25, seed * 1000 + round);
                        round_trip(&mut *stream, &src, codec.name());
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
        for level in [*range.start(), *range.end()] {
            assert_eq!(codec.check(&Params { level: Some(level) }), Ok(()));
        }
        for level in [*range.start() - 1, *range.end() + 1, i32::MIN, i32::MAX] {
            let params = Params { level: Some(level) };
            let expected = Error::Level { codec: codec.name(), level, range: range.clone() };
            assert_eq!(codec.check(&params), Err(expected.clone()));
            assert_eq!(codec.stream_bytes(&params, 4096), Err(expected.clone()));
            let memory = Memory::owned(1 << 20).unwrap();
            assert_eq!(codec.stream(&params, 4096, memory).err(), Some(expected));
        }
    }
    assert_eq!(by_name("lz4").unwrap().levels(), 1..=65_537);
    assert_eq!(by_name("zstd").unwrap().levels(), -131_072..=22);
}

#[test]
fn impossible_blocks_are_refused() {
    for codec in codecs() {
        let params = Params::default();
        for block in [0, BLOCK_BYTES_MAX + 1, usize::MAX] {
            let expected = Error::Block { block, max: BLOCK_BYTES_MAX };
            assert_eq!(codec.stream_bytes(&params, block), Err(expected.clone()));
            let memory = Memory::owned(1 << 20).unwrap();
            assert_eq!(codec.stream(&params, block, memory).err(), Some(expected));
        }
        assert!(codec.stream_bytes(&params, BLOCK_BYTES_MAX).is_ok());
    }
}

#[test]
fn names_find_their_codec_or_say_why_not() {
    let names: Vec<_> = codecs().iter().map(|codec| codec.name()).collect();
    assert_eq!(names, ["lz4", "zstd"]);
    for name in names {
        assert_eq!(by_name(name).unwrap().name(), name);
    }
    for name in ["lzo", "lzo-rle", "lz4hc", "deflate", "842"] {
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
    assert_eq!(message("foo"), "unknown algorithm 'foo'; there are: lz4, zstd");
    assert_eq!(message("a\nb"), "unknown algorithm 'a\\nb'; there are: lz4, zstd");
    assert_eq!(message("842"), "algorithm '842' is not supported; there are: lz4, zstd");
    let error = by_name("zstd").unwrap().check(&Params { level: Some(40) }).unwrap_err();
    assert_eq!(error.to_string(), "level 40 is out of range for zstd: -131072 to 22");
}
