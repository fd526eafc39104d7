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
    /// For a process, the swapped-out bytes, which are not sampled.
    pub(super) swapped_bytes: Option<u64>,
    /// The value of `--idle`: only pages that were unused for this number of seconds are sampled.
    pub(super) idle_seconds: Option<u64>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    pub(super) source: Source,
    /// The size of the population in bytes.
    pub(super) data_bytes: u64,
    pub(super) sample_bytes: u64,
    /// The number of clusters in the sample, the number in the population, and the number of
    /// sampled clusters that could not be read.
    pub(super) clusters: u64,
    pub(super) clusters_in_all: u64,
    pub(super) clusters_unread: u64,
    /// True if the sample is all the data, so the forecast has no sampling error.
    pub(super) is_all: bool,
    pub(super) candidates: Vec<Row>,
    pub(super) advice: Advice,
}

impl Report {
    pub(super) fn new(source: Source, sample: &Sample, mut rows: Vec<Row>) -> Self {
        let data_bytes = sample.population * PAGE_SIZE as u64;
        // A process has no files that could train a dictionary, so none is recommended.
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
