//! Hostile bytes to every codec: an error, or output that the input alone decides; and what a codec
//! made itself comes back.
#![no_main]

mod edges;

use arbitrary::{Result, Unstructured};
use edges::around;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use zcomp::{Dictionary, Params, Stream};

const CANARY: u8 = 0xc5;
const FENCE: usize = 64;

/// A trained dictionary, and content of more than lz4's window.
static DICTIONARIES: LazyLock<[Dictionary; 2]> = LazyLock::new(|| {
    let words = |seed: usize, len: usize| -> Vec<u8> {
        (0..len).map(|at| (at / 5 * (seed + 3) % 97 * (at % 5 + 1)) as u8).collect()
    };
    let samples: Vec<u8> = (0..400).flat_map(|seed| words(seed, 1024)).collect();
    let trained = zcomp::train(&samples, 1024, 8192).expect("the samples have much in common");
    [trained, Dictionary::new(words(1, 70_000)).expect("it is not empty")]
});

/// One of the dictionaries, or the next bytes of the input.
fn dictionary(input: &mut Unstructured) -> Result<Option<Dictionary>> {
    Ok(match input.int_in_range(0..=3u8)? {
        0 => {
            let bytes = around(input, &[1, 8, 256], 300)?;
            Dictionary::new(input.bytes(bytes.min(input.len()))?).ok()
        }
        1 => None,
        nth => Some(DICTIONARIES[usize::from(nth) - 2].clone()),
    })
}

/// Runs `work` on `len` bytes of `fill` between two fences; the bytes, after a look at the fences.
fn fenced<R>(len: usize, fill: u8, work: impl FnOnce(&mut [u8]) -> R) -> (R, Vec<u8>) {
    let mut memory = vec![CANARY; len + 2 * FENCE];
    memory[FENCE..FENCE + len].fill(fill);
    let result = work(&mut memory[FENCE..FENCE + len]);
    let outside = memory[..FENCE].iter().chain(&memory[FENCE + len..]);
    assert!(outside.into_iter().all(|&byte| byte == CANARY), "bytes beside the output changed");
    (result, memory[FENCE..FENCE + len].to_vec())
}

/// What `compressed` becomes: the same whatever the output held before, and from an exact
/// allocation.
fn decompress(stream: &mut dyn Stream, compressed: &[u8], len: usize) -> Option<Vec<u8>> {
    let exact = compressed.to_vec().into_boxed_slice();
    let (first, zeros) = fenced(len, 0, |output| stream.decompress(&exact, output));
    let (second, ones) = fenced(len, 0xff, |output| stream.decompress(&exact, output));
    assert_eq!(first, second);
    first.is_ok().then(|| {
        assert!(zeros == ones, "old bytes of the output show through");
        zeros
    })
}

fn run(input: &mut Unstructured) -> Result<()> {
    let codec = *input.choose(zcomp::codecs())?;
    let block = match input.ratio(3, 4)? {
        true => [4096, 8192, 65536][input.choose_index(3)?],
        false => around(input, &[1, 4096, 65536], 70_000)?.max(1),
    };
    let levels = codec.levels();
    let level = match input.ratio(7, 8)? {
        true => input.int_in_range(-8..=22)?,
        false => *input.choose(&[*levels.start(), *levels.end()])?,
    };
    let level = Some(level).filter(|level| levels.contains(level));
    let params = Params { level, dictionary: dictionary(input)? };
    // Bytes of the input may look like a damaged dictionary.
    let Ok(prepared) = codec.prepare(&params, block) else { return Ok(()) };
    let mut stream = prepared.stream_owned().expect("there is memory");
    let len = match input.int_in_range(0..=2u8)? {
        // 5 and 12 bytes are what lz4 ends each block with; zstd's begin with 2 or 3.
        0 => around(input, &[1, 5, 12, block], block)?,
        _ => block,
    };
    let hostile = input.ratio(1, 2)?;
    let (flips, cut): ([(u16, u8); 3], u8) = (input.arbitrary()?, input.arbitrary()?);
    let rest = input.bytes(input.len())?;
    if hostile {
        decompress(&mut *stream, rest, len);
    } else {
        let plain: Vec<u8> = rest.iter().copied().cycle().take(len.min(rest.len() * 8)).collect();
        let room = plain.len() + plain.len() / 64 + 512;
        let (written, output) = fenced(room, 0, |output| stream.compress(&plain, output));
        let written = written.expect("it is no longer than the block").expect("there is room");
        let mut compressed = output[..written].to_vec();
        assert_eq!(decompress(&mut *stream, &compressed, plain.len()), Some(plain.clone()));
        let little = written.saturating_sub(usize::from(cut));
        let (fits, _) = fenced(little, 0, |output| stream.compress(&plain, output));
        assert!(matches!(fits, Ok(Some(0..)) | Ok(None)), "{fits:?}");
        // Damaged in a few places, or short.
        for (at, change) in flips {
            if let Some(byte) = compressed.get_mut(usize::from(at)) {
                *byte ^= change;
            }
        }
        decompress(&mut *stream, &compressed, plain.len());
        decompress(&mut *stream, &compressed[..little], plain.len());
    }
    // Whatever came before, the stream is as good as new.
    let page: Vec<u8> = (0..block).map(|nth| (nth / 7 % 251) as u8).collect();
    let room = block + block / 64 + 512;
    let (written, output) = fenced(room, 0, |output| stream.compress(&page, output));
    let written = written.expect("it is a block").expect("there is room");
    assert_eq!(decompress(&mut *stream, &output[..written], block), Some(page));
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    // Input that ends too early chooses nothing.
    let _ = run(&mut Unstructured::new(bytes));
});
