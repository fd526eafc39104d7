//! Training of dictionaries, by zstd's trainer.

use crate::policy::DICTIONARY_BYTES_MIN;
use crate::policy::SAMPLES_MIN;
use crate::{Dictionary, Error};

/// Returns the minimum number of blocks of `block` bytes to train a dictionary of `bytes` bytes.
/// Together, the blocks are at least as long as the dictionary. More blocks, up to a hundred times
/// this number, improve the dictionary.
pub fn samples_needed(block: usize, bytes: usize) -> usize {
    bytes.div_ceil(block.max(1)).max(SAMPLES_MIN)
}

/// Returns a dictionary of at most `bytes` bytes for blocks like those in `samples`, which contains
/// consecutive blocks of `block` bytes. The result depends only on the samples and the two sizes.
///
/// The dictionary begins with zstd's tables, which take some hundred bytes. The most frequent
/// strings of the samples follow the tables, the most frequent string last. For lz4 and lz4hc the
/// whole dictionary is content.
///
/// # Errors
/// [`Error::DictionarySize`] if `bytes` is below [`DICTIONARY_BYTES_MIN`];
/// [`Error::TooFewSamples`], see [`samples_needed`]; [`Error::Training`]: the trainer found no
/// common strings in the samples.
pub fn train(samples: &[u8], block: usize, bytes: usize) -> Result<Dictionary, Error> {
    let lengths: Vec<usize> = samples.chunks(block.max(1)).map(<[u8]>::len).collect();
    check(lengths.len(), samples_needed(block, bytes), bytes)?;
    trained(samples, &lengths, bytes)
}

/// Returns a dictionary of at most `bytes` bytes, as [`train`] does, for consecutive samples with
/// the lengths `lengths`.
///
/// # Errors
/// The errors of [`train`]; [`Error::TooFewSamples`] also if the samples together are shorter than
/// the dictionary.
///
/// # Panics
/// If the sum of `lengths` differs from the length of `samples`.
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
