//! Small values as samples for the training of a dictionary, and the minimum amount of data with
//! which the dictionary saves memory.

use super::coder::{Coder, Form, Method, Packed};
use super::refusal::Refusal;
use crate::Error;
use zcomp::Dictionary;

/// The maximum length of a sample in bytes, because dictionaries are for small values.
const SAMPLE_BYTES_MAX: usize = 8 << 10;
/// The number of bytes of samples per byte of the dictionary. Fewer bytes make the dictionary
/// worse; more hardly improve it.
const BYTES_OF_SAMPLES: usize = 100;
/// A dictionary uses at most 1/DICTIONARY_SHARE of the limit, ...
const DICTIONARY_SHARE: usize = 1024;
/// ... and the samples use at most 1/SAMPLES_SHARE of the limit.
const SAMPLES_SHARE: usize = 8;
/// One of TRIED_OF values is used to test the dictionary, not to train it.
const TRIED_OF: usize = 8;
/// The percentage of the test values' bytes that a dictionary must save; a dictionary that saves no
/// more than this is dropped.
const SAVED_LEAST: usize = 5;
/// A dictionary is used when its expected saving is at least this percentage of the memory that it
/// needs.
const SAVES_PERCENT: usize = 150;

/// Returns the size in bytes of a dictionary for a cache with this limit.
fn dictionary_bytes(limit: usize) -> usize {
    (limit / DICTIONARY_SHARE).clamp(1 << 10, 128 << 10)
}

/// Returns `len` if a value of `len` bytes has only one piece, of at most `block` bytes; otherwise
/// returns 0.
pub fn small_len(len: usize, block: usize) -> usize {
    if len <= block { len } else { 0 }
}

/// Copies of small values, which are used for the training.
#[derive(Debug, Default)]
pub struct Samples {
    bytes: Vec<u8>,
    lengths: Vec<usize>,
    tried: Vec<Packed>,
}

/// The next step towards a dictionary, taken when enough small values are stored.
#[derive(Debug)]
pub struct Due {
    /// The number of bytes of small values at which the step is taken.
    pub from: usize,
    /// The dictionary to use; `None` if a dictionary must be trained first.
    pub dictionary: Option<Dictionary>,
}

impl Due {
    /// Returns the step that trains a dictionary for a cache with this limit.
    pub fn training(limit: usize) -> Self {
        let from = (BYTES_OF_SAMPLES * dictionary_bytes(limit)).min(limit / SAMPLES_SHARE);
        Due { from, dictionary: None }
    }

    /// Returns the number of bytes of memory that are used until the step is taken.
    pub fn memory(&self) -> usize {
        self.dictionary.as_ref().map_or(0, |dictionary| dictionary.bytes().len())
    }
}

impl Samples {
    /// Adds a value to the samples.
    ///
    /// # Errors
    /// If the value is damaged.
    pub fn add(&mut self, packed: Packed) -> Result<(), Refusal> {
        if self.lengths.len() / (TRIED_OF - 1) > self.tried.len() {
            self.tried.push(packed);
            return Ok(());
        }
        let value = packed.value()?;
        let sample = &value[..value.len().min(SAMPLE_BYTES_MAX)];
        self.bytes.extend_from_slice(sample);
        self.lengths.push(sample.len());
        Ok(())
    }

    /// Trains a dictionary with the samples. Returns the step that uses it, or `None` if the
    /// dictionary saves almost nothing.
    ///
    /// # Errors
    /// If no dictionary could be trained from the samples, or memory can't be allocated.
    pub fn learn(&self, method: &Method, first: &Coder) -> Result<Option<Due>, Refusal> {
        let size = dictionary_bytes(method.limit);
        let dictionary =
            zcomp::train_lengths(&self.bytes, &self.lengths, size).map_err(Error::from)?;
        let coder = Coder::new(method, Some(dictionary.clone()), Form::Trained)?;
        let (mut stored, mut before, mut after) = (0, 0, Vec::new());
        for packed in &self.tried {
            (stored, before) = (stored + packed.len, before + packed.bytes.len());
            coder.pack_block(&packed.value()?, &mut after)?;
        }
        let saved = before.saturating_sub(after.len());
        // After all values are packed with the new coder, the first coder is dropped.
        let taken = coder.bytes().saturating_sub(first.bytes()) * SAVES_PERCENT / 100;
        let due = Due { from: taken * stored / saved.max(1), dictionary: Some(dictionary) };
        Ok((saved * 100 > before * SAVED_LEAST).then_some(due))
    }
}
