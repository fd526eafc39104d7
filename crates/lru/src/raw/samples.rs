//! Samples of small values, with which a dictionary is trained. This module also computes the
//! amount of small values at which a dictionary begins to save memory.

use super::coder::{Coder, Form, Method};
use super::packed::Packed;
use crate::Error;
use crate::policy::{
    BYTES_OF_SAMPLES, DICTIONARY_BYTES, DICTIONARY_SHARE, SAMPLE_BYTES_MAX, SAMPLES_SHARE,
    SAVED_LEAST, SAVES_PERCENT, TRIED_OF,
};
use zcomp::Dictionary;

/// Returns the length in bytes of a dictionary for a cache with the limit `limit`.
fn dictionary_bytes(limit: usize) -> usize {
    (limit / DICTIONARY_SHARE).clamp(DICTIONARY_BYTES.0, DICTIONARY_BYTES.1)
}

/// Returns `len` if a value of `len` bytes fits in one piece of `block` bytes; otherwise returns 0.
pub fn small_len(len: usize, block: usize) -> usize {
    if len <= block { len } else { 0 }
}

/// Copies of small values, with which a dictionary is trained and tested.
#[derive(Debug, Default)]
pub struct Samples {
    bytes: Vec<u8>,
    lengths: Vec<usize>,
    tried: Vec<Packed>,
}

/// The next step towards a dictionary. The step is taken when enough small values are stored.
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

    /// Returns the number of bytes of memory that the step uses before it is taken.
    pub fn memory(&self) -> usize {
        self.dictionary.as_ref().map_or(0, |dictionary| dictionary.bytes().len())
    }
}

impl Samples {
    /// Adds a value to the samples.
    ///
    /// # Errors
    /// Fails if the value is damaged, or memory can't be allocated.
    pub fn add(&mut self, packed: Packed) -> Result<(), Error> {
        let no_memory = |_| Error::NoMemory { bytes: packed.len };
        if self.lengths.len() / (TRIED_OF - 1) > self.tried.len() {
            self.tried.try_reserve(1).map_err(no_memory)?;
            self.tried.push(packed);
            return Ok(());
        }
        let value = packed.value()?;
        let sample = &value[..value.len().min(SAMPLE_BYTES_MAX)];
        self.bytes.try_reserve(sample.len()).map_err(no_memory)?;
        self.bytes.extend_from_slice(sample);
        self.lengths.try_reserve(1).map_err(no_memory)?;
        self.lengths.push(sample.len());
        Ok(())
    }

    /// Trains a dictionary with the samples. Returns the step that uses the dictionary, or `None`
    /// if the dictionary saves almost no memory.
    ///
    /// # Errors
    /// Fails if no dictionary could be trained from the samples, or memory can't be allocated.
    pub fn learn(&self, method: &Method, first: &Coder) -> Result<Option<Due>, Error> {
        let size = dictionary_bytes(method.limit);
        let dictionary = zcomp::train_lengths(&self.bytes, &self.lengths, size)?;
        let coder = Coder::new(method, Some(dictionary.clone()), Form::Trained)?;
        let (mut stored, mut before, mut after) = (0, 0, Vec::new());
        for packed in &self.tried {
            (stored, before) = (stored + packed.len, before + packed.bytes.len());
            coder.pack_block(&packed.value()?, &mut after)?;
        }
        let saved = before.saturating_sub(after.len());
        // The first coder is dropped after all values are packed with the new coder, so only the
        // difference counts.
        let taken = coder.bytes().saturating_sub(first.bytes()) * SAVES_PERCENT / 100;
        let due = Due { from: taken * stored / saved.max(1), dictionary: Some(dictionary) };
        Ok((saved * 100 > before * SAVED_LEAST).then_some(due))
    }
}
