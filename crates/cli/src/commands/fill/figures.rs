//! Converts the results of `uzram fill` to its report.

use super::cold_options::ColdReport;
use super::report::{Rates, Report};
use super::totals::{Meter, Totals, mb_s, quotient};
use crate::error::Error;
use crate::text::{counted, escaped, human};
use measure::memory::ProcessMemory;
use measure::pages::{FilePlan, SkipReason, SkippedFiles};
use zram::{Config, MmStat};

/// The results after everything is stored.
pub(super) struct Filled {
    pub(super) before: ProcessMemory,
    pub(super) after: ProcessMemory,
    pub(super) stat: MmStat,
    pub(super) mem_total: u64,
    pub(super) classes: Option<String>,
    pub(super) shown: Vec<(&'static str, String)>,
    /// The error that ended the first phase early because the device was full. The number is the
    /// limit on the total memory, if the device reached that limit.
    pub(super) full: Option<(zsmalloc::Error, Option<u64>)>,
    pub(super) cold: ColdReport,
    /// The error of an incomplete write-back or save.
    pub(super) fault: Option<Error>,
    pub(super) totals: Vec<Totals>,
}

pub(super) fn report(
    settings: &Config,
    plan: &FilePlan,
    skipped: &SkippedFiles,
    threads: usize,
    filled: Filled,
) -> (Report, Option<Error>) {
    let Filled { before, after, stat, totals, .. } = filled;
    let sum = |of: fn(&Totals) -> u64| totals.iter().map(of).sum::<u64>();
    let codec_size = sum(|thread| thread.codec_bytes);
    let mismatches = sum(|thread| thread.mismatches);
    let over_codec = |used: u64| quotient(used as f64, codec_size as f64).map(|part| part - 1.0);
    let report = Report {
        algorithm: settings.algorithm.name(),
        level: settings.params.level.unwrap_or_else(|| settings.algorithm.default_level()),
        threads,
        block_size: settings.block,
        geometry: settings.geometry.into(),
        compaction: settings.compaction,
        files: plan.files(),
        pages: sum(|thread| thread.pages_stored),
        pages_planned: plan.pages().into(),
        pages_compared: sum(|thread| thread.pages_compared),
        orig_data_size: stat.orig_data_size,
        compr_data_size: stat.compr_data_size,
        codec_size,
        mem_used_total: stat.mem_used_total,
        mem_total: filled.mem_total,
        mem_limit: stat.mem_limit,
        rss_bytes: after.resident,
        rss_growth_bytes: after.growth_since(&before),
        page_table_bytes: after.page_tables,
        ratio: quotient(stat.orig_data_size as f64, stat.mem_used_total as f64),
        overhead: over_codec(stat.mem_used_total),
        overhead_all: over_codec(filled.mem_total),
        same_pages: stat.same_pages,
        huge_pages: stat.huge_pages,
        rates: rates(&totals),
        mismatches,
        skipped_files: skipped.count(SkipReason::Unreadable),
        changed_files: skipped.count(SkipReason::Changed),
        mm_stat: stat.to_string(),
        cold: filled.cold,
        classes: filled.classes,
        shown: filled.shown,
    };
    let mismatch = totals.iter().find_map(|thread| thread.mismatch);
    let failure = match (filled.full, mismatch) {
        (Some((source, limit)), _) => {
            let refused = out_of_memory(&report, source, limit);
            Some(match filled.fault {
                Some(fault) => Error::Failed(format!("{refused}; {fault}")),
                None => refused,
            })
        }
        (None, Some(file)) => {
            let first = escaped(&plan.path(file));
            Some(Error::Failed(format!(
                "{} did not read back as written, the first in '{first}'; please report it",
                counted(mismatches, "page")
            )))
        }
        (None, None) => filled.fault,
    };
    (report, failure)
}

fn rates(totals: &[Totals]) -> Rates {
    let rate = |meter: fn(&Totals) -> Meter| mb_s(totals, meter);
    Rates {
        write_mb_s: rate(|thread| thread.all.write),
        read_mb_s: rate(|thread| thread.all.read),
        codec_compress_mb_s: rate(|thread| thread.all.compress),
        codec_decompress_mb_s: rate(|thread| thread.all.decompress),
        write_over_codec: quotient(
            rate(|thread| thread.alike.write),
            rate(|thread| thread.alike.compress),
        ),
        read_over_codec: quotient(
            rate(|thread| thread.alike.read),
            rate(|thread| thread.alike.decompress),
        ),
    }
}

fn out_of_memory(report: &Report, source: zsmalloc::Error, total_limit: Option<u64>) -> Error {
    let Report { pages, pages_planned, mismatches, .. } = *report;
    let came_back = match mismatches {
        0 => "all of them read back as written".to_owned(),
        _ => format!("{mismatches} of them not read back as written"),
    };
    let stored = format!("{pages} of {}, {came_back}", counted(pages_planned, "page"));
    Error::Failed(match (total_limit, report.mem_limit) {
        (Some(limit), _) => format!(
            "the limit of all memory, {}, is reached after {stored}; raise total_limit, or give \
             less with --input-limit",
            human(limit)
        ),
        (None, limit @ 1..) if source.is_limit() => format!(
            "the memory limit of {} is reached after {stored}; raise --mem-limit, or give less \
             with --input-limit",
            human(limit)
        ),
        _ => format!(
            "out of memory after {stored}: {source}; free memory or raise the limit, or give less \
             with --input-limit"
        ),
    })
}
