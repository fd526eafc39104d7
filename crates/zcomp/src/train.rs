//! Training of dictionaries, by zstd's trainer.

use crate::{Dictionary, Error};

/// ZDICT_DICTSIZE_MIN of the library.
pub const DICTIONARY_BYTES_MIN: usize = 256;

/// The minimum number of samples that the trainer can learn from and test with.
const SAMPLES_MIN: usize = 8;

/// Returns the minimum number of blocks of `block` bytes for a dictionary of `bytes` bytes:
/// together they are as long as the dictionary. It improves with more, up to a hundred times as
/// many.
pub fn samples_needed(block: usize, bytes: usize) -> usize {
    bytes.div_ceil(block.max(1)).max(SAMPLES_MIN)
}

/// Returns a dictionary of at most `bytes` bytes for blocks like `samples`, which are consecutive,
/// each of `block` bytes. The same samples give the same dictionary.
///
/// The dictionary has zstd's tables for such blocks, which take some hundred bytes, and then the
/// pieces that recur most, the most common last. For lz4 and lz4hc all of it is content.
///
/// # Errors
/// [`Error::DictionarySize`] below [`DICTIONARY_BYTES_MIN`]; [`Error::TooFewSamples`], see
/// [`samples_needed`]; [`Error::Training`]: the trainer found nothing that the samples have in
/// common.
pub fn train(samples: &[u8], block: usize, bytes: usize) -> Result<Dictionary, Error> {
    let lengths: Vec<usize> = samples.chunks(block.max(1)).map(<[u8]>::len).collect();
    check(lengths.len(), samples_needed(block, bytes), bytes)?;
    trained(samples, &lengths, bytes)
}

/// Returns a dictionary of at most `bytes` bytes, as [`train`] does, for consecutive samples of
/// these `lengths`.
///
/// # Errors
/// As [`train`]; [`Error::TooFewSamples`] if the samples have fewer bytes than the dictionary.
///
/// # Panics
/// If the sum of the lengths is not that of all samples.
pub fn train_lengths(samples: &[u8], lengths: &[usize], bytes: usize) -> Result<Dictionary, Error> {
    assert_eq!(lengths.iter().sum::<usize>(), samples.len(), "the lengths are others");
    let mean = samples.len() / lengths.len().max(1);
    check(lengths.len(), samples_needed(mean, bytes), bytes)?;
    trained(samples, lengths, bytes)
}

fn check(given: usize, needed: usize, bytes: usize) -> Result<(), Error> {
    if bytes < DICTIONARY_BYTES_MIN {
        return Err(Error::DictionarySize { bytes, min: DICTIONARY_BYTES_MIN });
    }
    if given < needed {
        return Err(Error::TooFewSamples { given, needed });
    }
    Ok(())
}

fn trained(samples: &[u8], lengths: &[usize], bytes: usize) -> Result<Dictionary, Error> {
    let mut content = Vec::new();
    content.try_reserve_exact(bytes).map_err(|_| Error::NoMemory { bytes })?;
    content.resize(bytes, 0);
    let trained = zstd_safe::train_from_buffer(&mut content[..], samples, lengths)
        .map_err(|code| Error::Training { reason: zstd_safe::get_error_name(code) })?;
    Dictionary::new(&content[..trained])
}
