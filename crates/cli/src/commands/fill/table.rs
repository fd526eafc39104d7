//! The results of `uzram fill`, as a table for people.

use super::cold_options::ColdReport;
use super::report::Report;
use crate::commands::geometry::name;
use crate::text::{counted, human};
use std::fmt::{self, Display, Write};

/// The text for unknown values.
const UNKNOWN: &str = "-";

/// Returns the whole text, in lines.
pub(crate) fn render(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a string can't fail.
    let _ = write_all(&mut text, report);
    text
}

fn write_all(out: &mut String, report: &Report) -> fmt::Result {
    head(out, report)?;
    sizes(out, report)?;
    shares(out, report)?;
    speed(out, report)?;
    checks(out, report)?;
    cold(out, report)?;
    writeln!(out, "\nmm_stat {}", report.mm_stat)?;
    if let Some(classes) = &report.classes {
        write!(out, "\n{classes}")?;
    }
    report.shown.iter().try_for_each(|shown| write!(out, "\n{}:\n{}", shown.name, shown.text))
}

fn head(out: &mut String, report: &Report) -> fmt::Result {
    let Report { algorithm, level, .. } = report;
    write!(out, "{algorithm}, level {level}, {}", counted(report.threads as u64, "thread"))?;
    write!(out, "; {}", counted(report.files, "file"))?;
    writeln!(out, ", {} of 4096 bytes", counted(report.pages, "page"))?;
    let (geometry, compaction) = (report.geometry, name(&report.compaction));
    writeln!(out, "blocks of {} bytes, {geometry}, compaction {compaction}", report.block_size)
}

fn sizes(out: &mut String, report: &Report) -> fmt::Result {
    let mut size = |label: &str, bytes: Option<i64>, note: &str| match bytes {
        Some(bytes) => row(out, label, &bytes, &format!("{:>12}  {note}", human(bytes))),
        None => row(out, label, &UNKNOWN, &format!("{UNKNOWN:>12}  {note}")),
    };
    let known = |bytes: u64| i64::try_from(bytes).ok();
    size("original", known(report.orig_data_size), "bytes stored, before compression")?;
    size("stored", known(report.compr_data_size), "after compression")?;
    size("codec (C)", known(report.codec_size), "by the raw codec, without same-filled pages")?;
    size("mem_used", known(report.mem_used_total), "pages of the pool, as the kernel counts")?;
    size("mem_total", known(report.mem_total), "everything the device holds")?;
    size("resident", report.rss_bytes.and_then(known), "the process")?;
    size("growth", report.rss_growth_bytes, "resident and swapped, since the device was made")?;
    size("page tables", report.page_table_bytes.and_then(known), "VmPTE of the process")
}

fn shares(out: &mut String, report: &Report) -> fmt::Result {
    let number = |value: Option<f64>, scale: f64, unit: &str| match value {
        Some(value) => format!("{:.2}{unit}", value * scale),
        None => UNKNOWN.to_owned(),
    };
    row(out, "ratio", &number(report.ratio, 1.0, ""), "original / mem_used")?;
    row(out, "overhead", &number(report.overhead, 100.0, "%"), "(mem_used - C) / C")?;
    let all = number(report.overhead_all, 100.0, "%");
    row(out, "overhead, all", &all, "(mem_total - C) / C, everything counted")?;
    row(out, "same-filled", &report.same_pages, "same-filled pages, of one repeated word")?;
    row(out, "huge", &report.huge_pages, "pages stored uncompressed")
}

fn speed(out: &mut String, report: &Report) -> fmt::Result {
    let rates = &report.rates;
    let beside = |name: &str, codec: f64, part: Option<f64>| {
        let part = part.map(|part| format!("; device / codec {part:.2} on the same pages"));
        format!("MB/s; raw codec {name} {codec:.1} MB/s{}", part.unwrap_or_default())
    };
    let write = beside("compresses", rates.codec_compress_mb_s, rates.write_over_codec);
    row(out, "write", &format_args!("{:.1}", rates.write_mb_s), &write)?;
    let read = beside("decompresses", rates.codec_decompress_mb_s, rates.read_over_codec);
    row(out, "read", &format_args!("{:.1}", rates.read_mb_s), &read)
}

fn checks(out: &mut String, report: &Report) -> fmt::Result {
    let compared = format!("of {} compared", counted(report.pages_compared, "page"));
    row(out, "mismatches", &report.mismatches, &compared)?;
    row(out, "skipped", &report.skipped_files, "files that can't be read")?;
    row(
        out,
        "changed",
        &report.changed_files,
        "files changed by others during the run, not compared",
    )
}

fn cold(out: &mut String, report: &Report) -> fmt::Result {
    let ColdReport { written_back_pages, backing_bytes, saved_bytes } = report.cold;
    if let (Some(pages), Some(bytes)) = (written_back_pages, backing_bytes) {
        let note = format!("pages; {bytes} bytes of the backing store");
        row(out, "written back", &pages, &note)?;
    }
    saved_bytes.map_or(Ok(()), |bytes| row(out, "saved", &bytes, "bytes of the file"))
}

/// Writes a line with the label, the value and its meaning.
fn row(out: &mut String, label: &str, value: &dyn Display, note: &str) -> fmt::Result {
    writeln!(out, "{label:<14} {:>16}  {note}", value.to_string())
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
