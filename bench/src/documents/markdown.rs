//! The report as Markdown.

use super::found::{Cell, Table};
use super::results::{Machine, Outcome, Results, State};
use crate::report::Line;
use crate::size::mebibytes;

const INTRODUCTION: &str = "\
Five public documents define what uzram does. This report has the experiments of these documents,
repeated on real input with uzram, and beside it with the kernel of the same machine wherever that
can do the same work. A figure that is not what it must be is marked 🔴, and one for which the
document or the kernel has a better one 🟠. In the page both are red.

`make experiments` measures all of it again.
";

/// Returns the report as Markdown.
pub fn report(results: &Results) -> String {
    let sections = results.experiments.iter().map(section);
    [opening(results)].into_iter().chain(sections).collect()
}

/// Returns the part of the report before the experiments.
pub(super) fn opening(results: &Results) -> String {
    let (machine, summary) = (machine(&results.machine), summary(results));
    format!("# The documents' experiments\n{INTRODUCTION}\n{machine}{summary}")
}

fn machine(machine: &Machine) -> String {
    let Machine { date, processor, memory, kernel, uzram, seed, is_quick } = machine;
    let extent = if *is_quick { "a quick run, with less of each" } else { "a full run" };
    let memory = mebibytes(*memory) / 1024.0;
    format!(
        "{date}, {extent}: uzram {uzram}, {kernel}, {processor}, {memory:.1} GiB of memory, \
         seed {seed:#x}.\n\n"
    )
}

fn summary(results: &Results) -> String {
    let mut text = head(&["experiment", "document", "figures that are what they must be", ""]);
    for Outcome { name, source, state, found, seconds, .. } in &results.experiments {
        let judged: Vec<bool> = found.figures.iter().filter_map(|line| line.pass).collect();
        let met = judged.iter().filter(|pass| **pass).count();
        let counts = format!("{met} of {}{}", judged.len(), mark(met < judged.len()));
        let ended = match state {
            State::Done => format!("{seconds:.0} s"),
            other => cell_text(&other.to_string()) + mark(matches!(other, State::Failed { .. })),
        };
        text += &format!("| [{name}](#{name}) | {source} | {counts} | {ended} |\n");
    }
    text + "\n"
}

pub(super) fn section(outcome: &Outcome) -> String {
    let Outcome { name, source, about, state, found, .. } = outcome;
    let mut text = format!("## {name}\n{source}. {about}\n\n");
    match state {
        State::Done => {}
        State::Skipped { reason } => {
            text += &format!("This experiment was skipped: {}.\n\n", cell_text(reason));
        }
        State::Failed { reason } => {
            text += &format!("This experiment failed: {}.\n\n", cell_text(reason));
        }
    }
    for one in &found.tables {
        text += &table(one);
    }
    text += &figures(&found.figures);
    for note in &found.notes {
        text += &format!("{}\n\n", cell_text(note));
    }
    text
}

fn table(table: &Table) -> String {
    let Table { title, head: columns, rows } = table;
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut text = format!(
        "**{title}**

{}",
        head(&columns)
    );
    for row in rows {
        let cells: Vec<String> = row.iter().map(cell).collect();
        text += &format!("| {} |\n", cells.join(" | "));
    }
    text + "\n"
}

/// Returns the two lines of Markdown that begin a table with the columns `columns`.
fn head(columns: &[&str]) -> String {
    format!("| {} |\n|{}\n", columns.join(" | "), " --- |".repeat(columns.len()))
}

fn cell(cell: &Cell) -> String {
    format!("{}{}", cell_text(&cell.text), mark(cell.is_short))
}

/// Escapes a text of unknown origin for a line or a cell of a table.
fn cell_text(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('|', "\\|").replace('\n', " ")
}

fn mark(is_short: bool) -> &'static str {
    if is_short { " 🔴" } else { "" }
}

/// Returns true if the rival's value is better. The direction of the bound decides whether larger
/// or smaller values are better.
fn is_behind(line: &Line) -> bool {
    let (Some(is), Some(rival)) = (line.value, line.rival_value) else { return false };
    match line.must.as_deref().and_then(|must| must.chars().next()) {
        Some('<') => rival < is,
        Some('>') => rival > is,
        None => line.unit == "s" && rival < is,
        _ => false,
    }
}

/// Returns the table of the figures that have a bound or a rival.
fn figures(figures: &[Line]) -> String {
    if figures.is_empty() {
        return String::new();
    }
    let mut text = head(&["figure", "is", "must be", "rival", ""]);
    for line in figures {
        let with_unit =
            |value: f64| format!("{} {}", number(value), line.unit).trim_end().to_owned();
        let is = line.value.map_or("not measured".to_owned(), with_unit);
        let must = line.must.as_deref().unwrap_or_default();
        let rival = line.rival.as_deref().unwrap_or_default();
        let theirs = line.rival_value.map(with_unit).unwrap_or_default();
        text += &format!(
            "| {} | {is}{} | {} | {} | {theirs} |\n",
            cell_text(&line.figure),
            match line.pass == Some(false) {
                false if is_behind(line) => " 🟠",
                fails => mark(fails),
            },
            cell_text(must),
            cell_text(rival),
        );
    }
    text + "\n"
}

/// Formats `value` with four digits. A longer integer part is not shortened.
fn number(value: f64) -> String {
    if !value.is_finite() {
        return value.to_string();
    }
    let digits = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 + 1 };
    let places = if value.fract() == 0.0 { 0 } else { (4 - digits).clamp(0, 4) as usize };
    format!("{value:.places$}")
}
