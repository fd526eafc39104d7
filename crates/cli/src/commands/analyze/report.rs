//! The report of `uzram analyze`.

use super::advice::{self, Advice};
use super::row::Row;
use super::sample::{CLUSTER_PAGES, Sample};
use measure::page::PAGE_SIZE;
use serde::Serialize;

/// The source of the sample.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Source {
    /// `files` or `process`.
    pub(super) kind: &'static str,
    /// The paths, or the ID and the name of the process.
    pub(super) name: String,
    pub(super) files: Option<u64>,
    pub(super) pid: Option<u32>,
    /// For a process, the bytes that are swapped out, which are not sampled.
    pub(super) swapped_bytes: Option<u64>,
    /// The time in seconds for which the pages were not used, if requested.
    pub(super) idle_seconds: Option<u64>,
}

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    pub(super) source: Source,
    /// The size in bytes of all pages that could be sampled.
    pub(super) data_bytes: u64,
    pub(super) sample_bytes: u64,
    /// The number of 64-KiB clusters in the sample, the number in all the data, and the number of
    /// sampled clusters that could not be read.
    pub(super) clusters: u64,
    pub(super) clusters_in_all: u64,
    pub(super) clusters_unread: u64,
    /// True if the sample contains all the data and so has no sampling error.
    pub(super) is_all: bool,
    pub(super) candidates: Vec<Row>,
    pub(super) advice: Advice,
}

impl Report {
    pub(super) fn new(source: Source, sample: &Sample, mut rows: Vec<Row>) -> Self {
        let data_bytes = sample.population * PAGE_SIZE as u64;
        // There are no files with which a dictionary for a process could be trained.
        let is_process = source.pid.is_some();
        let can_be_had = |row: &Row| !is_process || row.dictionary_bytes == 0;
        let best = advice::best(rows.iter().enumerate().filter(|(_, row)| can_be_had(row)));
        if let Some(best) = best {
            rows[best].is_recommended = true;
        }
        Report {
            source,
            data_bytes,
            sample_bytes: sample.bytes(),
            clusters: sample.clusters().count() as u64,
            clusters_in_all: sample.population.div_ceil(CLUSTER_PAGES),
            clusters_unread: sample.unread,
            is_all: sample.is_all,
            advice: Advice::new(data_bytes, is_process, best, &rows),
            candidates: rows,
        }
    }
}
