//! The first values, as samples to train a dictionary with, and whether that pays.

use super::coder::{Coder, Form, Method};
use super::refusal::Refusal;
use std::sync::Arc;
use uzram::Dictionary;

/// Most bytes of a value that are a sample: dictionaries are for what is small.
const SAMPLE_BYTES_MAX: usize = 8 << 10;
/// Bytes of samples for each of the dictionary: with fewer it gets worse, with more hardly better.
const BYTES_OF_SAMPLES: usize = 100;
/// The largest dictionary, and the smallest.
const DICTIONARY_BYTES: std::ops::RangeInclusive<usize> = 1 << 10..=128 << 10;
/// A dictionary takes this part of the limit at most, ...
const DICTIONARY_SHARE: usize = 1024;
/// ... and the samples this one.
const SAMPLES_SHARE: usize = 8;
/// One of so many samples is not trained with, but tried.
const TRIED_OF: usize = 8;
/// A dictionary pays if what it makes smaller is less than so many hundredths of what it was.
const PAYS_PERCENT: usize = 95;

/// Copies of values.
#[derive(Debug, Default)]
pub struct Samples {
    bytes: Vec<u8>,
    lengths: Vec<usize>,
    wanted: usize,
    dictionary_bytes: usize,
}

impl Samples {
    /// Returns none, of as many as are wanted in a cache with this limit in bytes.
    pub fn new(limit: usize) -> Self {
        let (least, most) = DICTIONARY_BYTES.into_inner();
        let dictionary_bytes = (limit / DICTIONARY_SHARE).clamp(least, most);
        let wanted = (BYTES_OF_SAMPLES * dictionary_bytes).min(limit / SAMPLES_SHARE);
        Samples { wanted, dictionary_bytes, ..Samples::default() }
    }

    /// Returns the bytes of memory they take.
    pub fn memory(&self) -> usize {
        self.bytes.capacity() + self.lengths.capacity() * size_of::<usize>()
    }

    /// Returns how many bytes more they take for a moment when a value is added.
    pub fn growth(&self, value: &[u8]) -> usize {
        let grown =
            |len: usize, capacity: usize| if len > capacity { 2 * len.max(capacity) } else { 0 };
        let bytes = self.bytes.len() + value.len().min(SAMPLE_BYTES_MAX);
        let lengths = grown(self.lengths.len() + 1, self.lengths.capacity().max(2));
        grown(bytes, self.bytes.capacity()) + lengths * size_of::<usize>()
    }

    /// Adds a value, and returns whether there are enough.
    pub fn add(&mut self, value: &[u8]) -> bool {
        let sample = &value[..value.len().min(SAMPLE_BYTES_MAX)];
        let has_room = self.bytes.try_reserve(sample.len()).is_ok();
        if !sample.is_empty() && has_room && self.lengths.try_reserve(1).is_ok() {
            self.bytes.extend_from_slice(sample);
            self.lengths.push(sample.len());
        }
        self.bytes.len() >= self.wanted
    }

    /// Returns a coder with a dictionary that was trained with the samples, if it pays.
    ///
    /// # Errors
    /// Nothing could be learned from the samples, or there is no memory.
    pub fn learn(&self, method: &Method, plain: &Arc<Coder>) -> Result<Option<Coder>, Refusal> {
        let tried_from = self.lengths.len() - self.lengths.len() / TRIED_OF;
        let (lengths, tried) = self.lengths.split_at(tried_from);
        let trained_bytes = lengths.iter().sum();
        let (bytes, mut rest) = self.bytes.split_at(trained_bytes);
        let dictionary: Dictionary =
            uzram::zcomp::train_lengths(bytes, lengths, self.dictionary_bytes)
                .map_err(uzram::Error::from)?;
        let coder = Coder::new(method, Some(dictionary), Form::Trained)?;
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for &len in tried {
            let (sample, others) = rest.split_at(len);
            rest = others;
            plain.pack_block(&sample[..len.min(method.block)], &mut before)?;
            coder.pack_block(&sample[..len.min(method.block)], &mut after)?;
        }
        Ok((after.len() * 100 < before.len() * PAYS_PERCENT).then_some(coder))
    }
}
