//! Prints the statistics of a program's processes as a table.

use crate::policy::TABLE_SHARE;
use crate::text::human;
use run::{Figures, KILLED, Line, number, sum_of, text};
use serde_json::Value;
use std::cmp::max;
use std::collections::BTreeSet;

/// The processes that a column describes: running processes, ended processes, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Live,
    Ended,
    Ever,
}

/// A column of the table: its heading, the processes that it describes, and the function that
/// formats its cells.
type Column = (&'static str, When, fn(&Line) -> String);

const COLUMNS: [Column; 20] = [
    ("process", When::Ever, |line| match line.get("process") {
        Some(Value::String(_)) => text(line, "process"),
        process => process.map_or("all".to_owned(), Value::to_string),
    }),
    ("name", When::Ever, |line| {
        text(line, "name") + if line.contains_key(KILLED) { " (killed)" } else { "" }
    }),
    ("held", When::Live, |line| human(number(line, "tree_held"))),
    ("peak held", When::Ever, |line| human(number(line, "held_max"))),
    ("resident", When::Live, |line| human(number(line, "resident"))),
    ("stored", When::Live, |line| human(number(line, "stored"))),
    ("compressed", When::Live, |line| human(number(line, "compressed"))),
    ("peak stored", When::Ended, |line| human(number(line, "stored_max"))),
    ("peak compressed", When::Ended, |line| human(number(line, "compressed_max"))),
    ("ratio", When::Live, |line| {
        line.get("ratio").and_then(Value::as_f64).map_or("-".to_owned(), |of| format!("{of:.2}"))
    }),
    ("evictions", When::Ever, |line| number(line, "evicted").to_string()),
    ("refused", When::Live, |line| number(line, "refused").to_string()),
    ("faults", When::Ever, |line| number(line, "faults").to_string()),
    ("median", When::Live, |line| format!("{} us", number(line, "fault_us_median"))),
    ("99%", When::Live, |line| format!("{} us", number(line, "fault_us_99"))),
    ("in faults", When::Ever, |line| seconds(number(line, "faults_us"))),
    ("calls", When::Ever, |line| number(line, "calls").to_string()),
    ("each", When::Live, |line| format!("{:.1} us", number(line, "call_ns") as f64 / 1e3)),
    ("for calls", When::Ever, |line| seconds(number(line, "calls_us"))),
    ("backend", When::Live, |line| text(line, "backend")),
];

/// Returns the lines of the table, the largest process first. One line combines the small ended
/// processes. The last line is the sum.
fn lines(figures: &Figures) -> Vec<Line> {
    let has_ended = figures.is_short.is_none();
    let weight = if has_ended { "held_max" } else { "tree_held" };
    let mut lines = figures.processes.clone();
    lines.sort_by_key(|line| std::cmp::Reverse(number(line, weight)));
    let least = figures.tree_held_max / TABLE_SHARE;
    let large = lines.partition_point(|line| number(line, weight) >= least);
    if has_ended && lines.len() - large > 1 {
        let mut small = sum_of(&lines[large..]);
        let others = format!("{} others", lines.len() - large);
        small.insert("process".to_owned(), others.into());
        lines.truncate(large);
        lines.push(small);
    }
    if figures.processes.len() > 1 {
        lines.push(figures.sum.clone());
    }
    lines
}

/// Returns the table of the processes, followed by sentences about all processes.
pub(crate) fn table(figures: &Figures) -> String {
    if figures.processes.is_empty() {
        return match figures.is_short {
            None => "no process reported what it did\n",
            Some(_) => "no process has begun, or all have ended\n",
        }
        .to_owned();
    }
    let hidden = if figures.is_short.is_some() { When::Ended } else { When::Live };
    let columns: Vec<_> = COLUMNS.iter().filter(|(_, when, _)| *when != hidden).collect();
    let mut rows: Vec<Vec<String>> =
        vec![columns.iter().map(|(head, ..)| (*head).to_owned()).collect()];
    let lines = lines(figures);
    rows.extend(lines.iter().map(|line| columns.iter().map(|(.., cell)| cell(line)).collect()));
    let mut widths = vec![0; columns.len()];
    for row in &rows {
        row.iter().zip(&mut widths).for_each(|(cell, width)| *width = max(*width, cell.len()));
    }
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text + &match figures.is_short {
        Some(is_short) => reasons(figures) + &together(figures, is_short),
        None => sentences(figures),
    }
}

/// Returns a line for each backend, with the reason why a process uses it.
fn reasons(figures: &Figures) -> String {
    let of = |line: &Line| format!("{}: {}\n", text(line, "backend"), text(line, "backend_reason"));
    figures.processes.iter().map(of).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns a line about the memory of all running processes together.
fn together(figures: &Figures, is_short: bool) -> String {
    let most = human(figures.tree_held_max);
    let [held, limit] = ["tree_held", "limit"].map(|name| human(figures.sum(name)));
    let short = if is_short { "; short of room" } else { "" };
    format!("together {held} of {limit}, at most {most}{short}\n")
}

/// Returns a sentence about the maximum memory, one about the saved memory, and one about the time
/// of faults and calls.
fn sentences(figures: &Figures) -> String {
    let [stored, compressed] = ["stored_max", "compressed_max"].map(|name| figures.sum(name));
    let [faults, calls] = ["faults_us", "calls_us"].map(|name| seconds(figures.sum(name)));
    let saved = human(stored.saturating_sub(compressed));
    let [most, limit, stored, compressed] =
        [figures.tree_held_max, figures.sum("limit"), stored, compressed].map(human);
    let saved = match figures.sum("evicted") {
        0 => "Nothing was compressed, because there was room.".to_owned(),
        _ => format!("Compression saved at most {saved}: {stored} took {compressed}."),
    };
    format!(
        "All processes together held at most {most}, of a limit of {limit}.\n{saved}\n\
         This took {faults} for page faults and {calls} for system calls, in all threads.\n"
    )
}

fn seconds(microseconds: u64) -> String {
    format!("{:.2} s", microseconds as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::{table as table_of, *};

    /// Two complete lines of a statistics file, and an incomplete line.
    const LINES: &str = "\
        {\"process\":7,\"name\":\"sort\",\"limit\":9,\"held_max\":4096,\"stored_max\":3000,\
        \"compressed_max\":1000,\"evicted\":1}\n\
        {\"process\":8,\"limit\":9,\"held_max\":8192,\"evicted\":2}\n{\"process\":9,\"lim";

    #[test]
    fn the_table_has_a_line_for_each_and_one_for_all() {
        let table = table_of(&Figures::parse(LINES, Vec::new(), 10_000));
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            (lines.len(), lines[4], lines[5]),
            (
                7,
                "All processes together held at most 9.8 KiB, of a limit of 9 B.",
                "Compression saved at most 2.0 KiB: 2.9 KiB took 1000 B."
            ),
            "{table}"
        );
        assert!(lines[0].trim_start().starts_with("process  name  peak held"), "{table}");
        assert!(lines[1].trim_start().starts_with('8') && lines[1].contains("8.0 KiB"), "{table}");
        assert!(lines[2].trim_start().starts_with('7') && lines[2].contains("sort"), "{table}");
        assert!(lines[3].contains("all") && lines[3].contains("12.0 KiB"), "{table}");
        assert!(lines[6].contains("0.00 s for page faults"), "{table}");
        let one = table_of(&Figures::parse(LINES.lines().next().unwrap(), Vec::new(), 0));
        assert_eq!(one.lines().count(), 5, "{one}");
        assert!(one.contains("at most 4.0 KiB"), "no less than one of them: {one}");
        assert!(table_of(&Figures::parse("", Vec::new(), 0)).contains("no process"));
    }

    #[test]
    fn killed_processes_are_marked() {
        let killed = "{\"process\":10,\"name\":\"cat\",\"killed\":true,\"evicted\":9}";
        let figures = Figures::parse(LINES, vec![serde_json::from_str(killed).unwrap()], 0);
        assert_eq!((figures.processes.len(), figures.sum("evicted")), (3, 12));
        let table = table_of(&figures);
        let line = table.lines().find(|line| line.contains("cat")).unwrap();
        assert!(line.trim_start().starts_with("10  cat (killed) "), "{table}");
        assert_eq!(table.matches("killed").count(), 1, "{table}");
    }

    #[test]
    fn processes_with_little_memory_are_one_line() {
        let line = |process: u64, held: u64| {
            format!("{{\"process\":{process},\"held_max\":{held},\"evicted\":2}}\n")
        };
        let of = |helds: &[u64]| {
            let lines = helds.iter().enumerate().map(|(nth, held)| line(nth as u64, *held));
            table_of(&Figures::parse(&lines.collect::<String>(), Vec::new(), 100 << 10))
        };
        let table = of(&[1000, 50 << 10, 1023, 1024, 1]);
        let firsts: Vec<_> = table.lines().take(5).map(|line| line.trim_start()).collect();
        let begin = ["process", "1 ", "3 ", "3 others", "all"];
        assert!(begin.iter().zip(&firsts).all(|(it, line)| line.starts_with(it)), "{table}");
        assert!(firsts[3].contains(" 2.0 KiB "), "their sum: {table}");
        // A single small process has its own line.
        assert!(!of(&[1000, 50 << 10]).contains("others"));
    }

    #[test]
    fn running_processes_have_their_present_figures() {
        let live = |lines: &str, is_short| {
            let lines = lines.lines().filter_map(|line| serde_json::from_str(line).ok());
            table(&Figures::new(lines.collect(), 10 << 20, Some(is_short)))
        };
        let line = "{\"process\":7,\"name\":\"sort\",\"tree_held\":4096,\"limit\":8192}\n";
        let table = live(&line.repeat(2), true);
        for part in ["name", " sort ", " resident ", " stored ", " 8.0 KiB "] {
            assert!(table.contains(part), "{part}: {table}");
        }
        assert!(!table.contains("peak resident"), "{table}");
        let last = "together 8.0 KiB of 8.0 KiB, at most 10.0 MiB";
        assert!(table.ends_with(&format!("{last}; short of room\n")), "{table}");
        assert!(live(line, false).ends_with(", at most 10.0 MiB\n"));
        let odd = line.replace("sort", "\\u001b[2J\\nall");
        assert!(live(&odd, true).contains(" \u{fffd}[2J\u{fffd}all "), "{}", live(&odd, true));
        assert_eq!(live("", false), "no process has begun, or all have ended\n");
    }
}
