//! The rows of the report.

use super::candidate::Candidate;
use super::forecast::Forecast;
use super::sample::Sample;
use super::trial::Trial;
use measure::page::PAGE_SIZE;
use serde::Serialize;

/// A line of the table: a candidate, and its forecast for all the data.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) algorithm: &'static str,
    pub(super) level: i32,
    pub(super) block_bytes: u64,
    /// The bytes of the dictionary, or 0 without a dictionary.
    pub(super) dictionary_bytes: u64,
    /// All memory of the device in bytes, and the bytes of the pool's pages.
    pub(super) memory_bytes: u64,
    pub(super) pool_bytes: u64,
    /// The error of `memory_bytes` that 95 of 100 samples do not exceed.
    pub(super) error_bytes: u64,
    /// The size of the data divided by the memory of the device.
    pub(super) ratio: f64,
    /// The processor time per page of 4 KiB: to store it, to read it with its neighbours, and to
    /// read it alone.
    pub(super) store_nanoseconds: f64,
    pub(super) read_nanoseconds: f64,
    pub(super) read_one_nanoseconds: f64,
    pub(super) is_recommended: bool,
}

impl Row {
    pub(super) fn new(
        candidate: &Candidate,
        trial: &Trial,
        forecast: &Forecast,
        sample: &Sample,
    ) -> Self {
        let bytes = (sample.population * PAGE_SIZE as u64) as f64;
        let each = |seconds: f64, pages: u64| seconds * 1e9 / pages as f64;
        Row {
            algorithm: candidate.kind.codec.name(),
            level: candidate.kind.level,
            block_bytes: candidate.block as u64,
            dictionary_bytes: trial.dictionary as u64,
            memory_bytes: forecast.memory.round() as u64,
            pool_bytes: forecast.pool.round() as u64,
            error_bytes: forecast.error.round() as u64,
            ratio: bytes / forecast.memory.max(1.0),
            store_nanoseconds: each(trial.store, trial.pages),
            read_nanoseconds: each(trial.read, trial.pages),
            read_one_nanoseconds: each(trial.read_one, trial.clusters.len() as u64),
            is_recommended: false,
        }
    }
}
