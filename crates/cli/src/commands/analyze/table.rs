//! The report as a table for people.

use super::report::{Report, Source};
use super::row::Row;
use crate::text::{counted, human};
use std::fmt::Write as _;

const HEAD: &str = "
  ALGORITHM  LEVEL  BLOCK    DICT      MEMORY       +/-  OF DATA   STORE    READ     ONE
";

/// Returns the table, followed by the advice.
pub(super) fn render(report: &Report) -> String {
    let mut text = head(report);
    text += HEAD;
    report.candidates.iter().for_each(|row| text += &line(row, report.data_bytes));
    text += "MEMORY: everything counted; +/-: error of the sample, in 95 of 100; STORE, READ, ONE: \
             processor\ntime in us for 4 KiB, stored, read with its neighbours, read by itself\n";
    text + &report.advice.text()
}

fn head(report: &Report) -> String {
    let Source { kind, name, files, swapped_bytes, idle_seconds, .. } = &report.source;
    let mut text = format!("{}: {}", if *kind == "files" { "files" } else { "process" }, name);
    let data = human(report.data_bytes);
    // Writing to a string can't fail.
    let _ = match files {
        Some(files) => write!(text, ": {data} in {}", counted(*files, "file")),
        None => write!(text, ": {data} of private anonymous memory are resident"),
    };
    if let Some(seconds) = idle_seconds {
        let _ = write!(text, " and were not used for {}", counted(*seconds, "second"));
    }
    if let Some(bytes @ 1..) = swapped_bytes {
        let _ = write!(text, "; {} more are swapped out and left out", human(*bytes));
    }
    let (sample, clusters) = (human(report.sample_bytes), counted(report.clusters, "piece"));
    let _ = match report.is_all {
        true => writeln!(text, "\nsample: all of it"),
        false => writeln!(text, "\nsample: {sample}, {clusters} of 64 KiB"),
    };
    if report.clusters_unread > 0 {
        let unread = counted(report.clusters_unread, "piece");
        let _ = writeln!(text, "{unread} could not be read, and are taken to be like the others");
    }
    text
}

fn line(row: &Row, data: u64) -> String {
    let mark = if row.is_recommended { '*' } else { ' ' };
    let block = format!("{}K", row.block_bytes >> 10);
    let dictionary = match row.dictionary_bytes {
        0 => "-".to_owned(),
        bytes => format!("{:.0}K", bytes as f64 / 1024.0),
    };
    let (memory, error) = (human(row.memory_bytes), human(row.error_bytes));
    let percent = 100.0 * row.memory_bytes as f64 / data as f64;
    let us = |nanoseconds: f64| nanoseconds / 1000.0;
    let what = format!("{mark} {:<9} {:>6} {block:>6} {dictionary:>7}", row.algorithm, row.level);
    format!(
        "{what} {memory:>11} {error:>9} {percent:>7.1}% {:>7.1} {:>7.1} {:>7.1}\n",
        us(row.store_nanoseconds),
        us(row.read_nanoseconds),
        us(row.read_one_nanoseconds),
    )
}
