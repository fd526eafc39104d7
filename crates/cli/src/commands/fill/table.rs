//! Prints the results of `uzram fill` as a table for people.

use super::args::COMPACTION;
use super::report::Report;
use crate::text::{counted, human};
use crate::values::name_of;
use std::fmt::Display;

/// The text for unknown values.
const UNKNOWN: &str = "-";

pub(crate) fn render(report: &Report) -> String {
    let mut text = [head, sizes, shares, speed, checks, cold].map(|part| part(report)).concat();
    text += &format!("\nmm_stat {}\n", report.mm_stat);
    text.extend(report.classes.iter().map(|classes| format!("\n{classes}")));
    text.extend(report.shown.iter().map(|(name, shown)| format!("\n{name}:\n{shown}")));
    text
}

fn head(report: &Report) -> String {
    let Report { algorithm, level, block_size, geometry, .. } = report;
    let [threads, files, pages] =
        [(report.threads as u64, "thread"), (report.files, "file"), (report.pages, "page")]
            .map(|(count, thing)| counted(count, thing));
    let compaction = name_of(COMPACTION, report.compaction);
    format!(
        "{algorithm}, level {level}, {threads}; {files}, {pages} of 4096 bytes\n\
         blocks of {block_size} bytes, {geometry}, compaction {compaction}\n"
    )
}

fn sizes(report: &Report) -> String {
    let known = |bytes: u64| i64::try_from(bytes).ok();
    let size = |(label, bytes, note): (&str, Option<i64>, &str)| match bytes {
        Some(bytes) => row(label, &bytes, &format!("{:>12}  {note}", human(bytes))),
        None => row(label, &UNKNOWN, &format!("{UNKNOWN:>12}  {note}")),
    };
    let sizes = [
        ("original", known(report.orig_data_size), "bytes stored, before compression"),
        ("stored", known(report.compr_data_size), "after compression"),
        ("codec (C)", known(report.codec_size), "by the raw codec, without same-filled pages"),
        ("mem_used", known(report.mem_used_total), "pages of the pool, as the kernel counts"),
        ("mem_total", known(report.mem_total), "everything the device holds"),
        ("resident", report.rss_bytes.and_then(known), "the process"),
        ("growth", report.rss_growth_bytes, "resident and swapped, since the device was made"),
        ("page tables", report.page_table_bytes.and_then(known), "VmPTE of the process"),
    ];
    sizes.map(size).concat()
}

fn shares(report: &Report) -> String {
    let number = |value: Option<f64>, scale: f64, unit: &str| match value {
        Some(value) => format!("{:.2}{unit}", value * scale),
        None => UNKNOWN.to_owned(),
    };
    let percent = |share| number(share, 100.0, "%");
    row("ratio", &number(report.ratio, 1.0, ""), "original / mem_used")
        + &row("overhead", &percent(report.overhead), "(mem_used - C) / C")
        + &row(
            "overhead, all",
            &percent(report.overhead_all),
            "(mem_total - C) / C, everything counted",
        )
        + &row("same-filled", &report.same_pages, "same-filled pages, of one repeated word")
        + &row("huge", &report.huge_pages, "pages stored uncompressed")
}

fn speed(report: &Report) -> String {
    let line = |label, name: &str, rate: f64, codec: f64, part: Option<f64>| {
        let part = part.map(|part| format!("; device / codec {part:.2} on the same pages"));
        let note = format!("MB/s; raw codec {name} {codec:.1} MB/s{}", part.unwrap_or_default());
        row(label, &format_args!("{rate:.1}"), &note)
    };
    let of = &report.rates;
    let (write, read) = (of.codec_compress_mb_s, of.codec_decompress_mb_s);
    line("write", "compresses", of.write_mb_s, write, of.write_over_codec)
        + &line("read", "decompresses", of.read_mb_s, read, of.read_over_codec)
}

fn checks(report: &Report) -> String {
    let compared = format!("of {} compared", counted(report.pages_compared, "page"));
    let changed = "files changed by others during the run, not compared";
    row("mismatches", &report.mismatches, &compared)
        + &row("skipped", &report.skipped_files, "files that can't be read")
        + &row("changed", &report.changed_files, changed)
}

fn cold(report: &Report) -> String {
    let cold = report.cold;
    let written = cold.written_back_pages.zip(cold.backing_bytes).map(|(pages, bytes)| {
        row("written back", &pages, &format!("pages; {bytes} bytes of the backing store"))
    });
    let saved = cold.saved_bytes.map(|bytes| row("saved", &bytes, "bytes of the file"));
    [written, saved].into_iter().flatten().collect()
}

/// Returns a line with the label, the value and its meaning.
fn row(label: &str, value: &dyn Display, note: &str) -> String {
    format!("{label:<14} {:>16}  {note}\n", value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_figures_are_in_the_table() {
        let report = Report { classes: Some(" class  size\n".to_owned()), ..Report::example() };
        let text = render(&report);
        for part in [
            "lz4, level 1, 2 threads; 3 files, 5 pages of 4096 bytes\n",
            "\nblocks of 4096 bytes, native geometry, compaction auto\n",
            "20480",
            "1.67  original / mem_used",
            "53.60%",
            "104.80%",
            "1234.6  MB/s",
            "0.91 on the same pages",
            "\nmm_stat 20480 9000 12288 0 12288 1 0 2 2\n",
            "\n class  size\n",
        ] {
            assert!(text.contains(part), "{part:?} is missing:\n{text}");
        }
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text}");
        assert!(text.lines().all(|line| !line.ends_with(' ')), "{text}");
    }
}
