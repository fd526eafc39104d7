//! The metrics of a server in the text format of Prometheus, with names and units that follow the
//! conventions of Prometheus.

use super::exposition::Metrics;
use crate::policy::{METRICS_NAME_MAX, NEAR_PERCENT};
use crate::status::{RunningJob, Stat};
use prometheus::Opts;
use zram::SLOT_BYTES;

/// Returns true if `used` is at least `percent` percent of `limit`.
pub(crate) fn is_share(used: u64, limit: u64, percent: u64) -> bool {
    u128::from(used) * 100 >= u128::from(limit) * u128::from(percent)
}

/// Returns the metrics of a disk as text.
pub(crate) fn text(stat: &Stat) -> String {
    let metrics = Metrics::default();
    let disk = &stat.name[..stat.name.floor_char_boundary(METRICS_NAME_MAX)];
    let options =
        |name: &str, help: &str| Opts::new(format!("uzram_{name}"), help).const_label("disk", disk);
    let info = options("info", "What runs: its version, and the disk's algorithm.");
    let info = info.const_label("version", env!("CARGO_PKG_VERSION"));
    metrics.gauge(info.const_label("algorithm", &stat.algorithm), 1.0);
    for (name, help, value) in sizes(stat) {
        metrics.gauge(options(name, help), value as f64);
    }
    for (name, help, value) in counters(stat) {
        metrics.counter(options(&format!("{name}_total"), help), value);
    }
    if let Some(RunningJob { kind, done, of }) = &stat.job {
        for (name, help, slots) in [
            ("job_done_bytes", "How far the job under way is.", done),
            ("job_size_bytes", "How much it has to do; 0: not known.", of),
        ] {
            let bytes = (slots * SLOT_BYTES as u64) as f64;
            metrics.gauge(options(name, help).const_label("kind", kind), bytes);
        }
    }
    metrics.text()
}

/// Returns the name, the help text and the value of each metric whose value can decrease.
fn sizes(stat: &Stat) -> [(&'static str, &'static str, u64); 13] {
    [
        ("disk_size_bytes", "Size of the disk.", stat.disksize),
        ("data_bytes", "Data stored, before compression.", stat.orig_data_size),
        ("compressed_bytes", "Data stored, after compression.", stat.compr_data_size),
        ("pool_bytes", "Pages that hold compressed data.", stat.mem_used_total),
        ("pool_max_bytes", "The most pages that held compressed data.", stat.mem_used_max),
        ("pool_limit_bytes", "Limit of these pages; 0: none.", stat.mem_limit),
        (
            "pool_near_limit",
            "Whether these pages take 90% of their limit or more: 0 or 1.",
            (stat.mem_limit > 0 && is_share(stat.mem_used_total, stat.mem_limit, NEAR_PERCENT))
                .into(),
        ),
        ("memory_bytes", "Memory of the disk, tables and buffers too.", stat.mem_total),
        ("backing_bytes", "Data in the backing store.", stat.done.backing_bytes),
        ("same_filled_pages", "Pages of one repeated word.", stat.same_pages),
        ("incompressible_pages", "Pages stored uncompressed.", stat.huge_pages),
        ("connections", "Connections of NBD clients.", stat.connections as u64),
        ("read_only", "Whether clients can't write: 0 or 1.", stat.read_only.into()),
    ]
}

/// Returns the name, the help text and the value of each metric whose value only increases.
fn counters(stat: &Stat) -> [(&'static str, &'static str, f64); 9] {
    let done = &stat.done;
    let seconds = done.compaction_nanoseconds as f64 / 1e9;
    [
        ("failed_read_pages", "Pages that could not be read.", done.failed_reads as f64),
        ("failed_write_pages", "Pages that could not be written.", done.failed_writes as f64),
        ("discarded_pages", "Pages that clients discarded.", done.notify_free as f64),
        (
            "incompressible_stored_pages",
            "Pages that were stored uncompressed.",
            done.huge_pages_since as f64,
        ),
        ("compaction_moved_bytes", "Objects moved together.", done.compaction_moved_bytes as f64),
        ("compaction_freed_bytes", "Pages freed by that.", done.compaction_freed_bytes as f64),
        ("compaction_cpu_seconds", "Processor time of that.", seconds),
        ("backing_read_bytes", "Read from the backing store.", done.backing_read_bytes as f64),
        ("backing_written_bytes", "Written there.", done.backing_written_bytes as f64),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Done;

    #[test]
    fn every_number_has_a_help_a_type_and_a_name() {
        let done = Done { compaction_nanoseconds: 1_500_000_000, ..Done::default() };
        let stat = Stat {
            name: "a\"b".to_owned(),
            algorithm: "zstd".to_owned(),
            disksize: 1 << 40,
            mem_total: 7,
            done,
            job: Some(RunningJob { kind: "save".to_owned(), done: 2, of: 3 }),
            ..Stat::default()
        };
        let text = text(&stat);
        for line in [
            "uzram_disk_size_bytes{disk=\"a\\\"b\"} 1099511627776",
            "uzram_memory_bytes{disk=\"a\\\"b\"} 7",
            "uzram_compaction_cpu_seconds_total{disk=\"a\\\"b\"} 1.5",
            "# TYPE uzram_compaction_cpu_seconds_total counter",
            "# TYPE uzram_memory_bytes gauge",
            "uzram_job_done_bytes{disk=\"a\\\"b\",kind=\"save\"} 8192",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        let values = text.lines().filter(|line| !line.starts_with('#')).count();
        let helps = text.lines().filter(|line| line.starts_with("# HELP uzram_")).count();
        assert_eq!((values, helps), (25, 25), "{text}");
    }

    #[test]
    fn a_long_name_is_cut() {
        let stat = Stat { name: "\"\u{e4}".repeat(1000), ..Stat::default() };
        let text = text(&stat);
        assert!(text.contains("uzram_memory_bytes{disk=\"\\\"\u{e4}"), "{text}");
        // The server reserves `RESERVE` bytes for the texts of all clients and for other small
        // allocations.
        assert!(3 * text.len() < serve::metrics::RESERVE, "{} bytes", text.len());
    }
}
