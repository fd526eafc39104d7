//! What the processes of a program did, as a table for people and as JSON.

use measure::text::{human, json};
use serde::Serialize;
use serde_json::{Map, Value};
use std::cmp::max;

/// A line that a process wrote.
type Line = Map<String, Value>;

/// Of these, processes' figures make no sum: the largest is told.
const LARGEST: [&str; 5] = ["limit", "block", "tree_held_max", "fault_us_median", "fault_us_99"];

/// See the module.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    processes: Vec<Line>,
    /// What they come to together.
    sum: Line,
    /// The most that all of them held at a time, those that a signal ended too. Pages that parents
    /// and children share are counted for each.
    tree_held_max: u64,
}

/// A column of the table: its heading, and what it tells of a line.
type Column = (&'static str, fn(&Line) -> String);

const COLUMNS: [Column; 12] = [
    ("process", |line| line.get("process").map_or("all".to_owned(), Value::to_string)),
    ("peak held", |line| human(number(line, "held_max"))),
    ("stored", |line| human(number(line, "stored"))),
    ("compressed", |line| human(number(line, "compressed"))),
    ("ratio", ratio),
    ("evictions", |line| number(line, "evicted").to_string()),
    ("faults", |line| number(line, "faults").to_string()),
    ("median", |line| format!("{} us", number(line, "fault_us_median"))),
    ("99%", |line| format!("{} us", number(line, "fault_us_99"))),
    ("refused", |line| number(line, "refused").to_string()),
    ("calls", |line| number(line, "calls").to_string()),
    ("backend", |line| line.get("backend").and_then(Value::as_str).unwrap_or_default().to_owned()),
];

impl Figures {
    /// Returns the figures of lines of JSON.
    pub(super) fn parse(text: &str, tree_held_max: u64) -> Self {
        // What is not whole was cut off as the disk was full.
        let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        let processes: Vec<Line> = lines.collect();
        let mut sum = Line::new();
        for (name, value) in processes.iter().flatten().filter(|(name, _)| *name != "process") {
            let before = number(&sum, name);
            let both = value.as_u64().map(|value| match LARGEST.contains(&name.as_str()) {
                true => max(before, value),
                false => before.saturating_add(value),
            });
            sum.insert(name.clone(), both.map_or_else(|| value.clone(), Value::from));
        }
        Figures { processes, sum, tree_held_max }
    }

    pub(super) fn json(&self) -> String {
        json(self)
    }

    /// Returns a line for each process, and one for all.
    pub(super) fn table(&self) -> String {
        if self.processes.is_empty() {
            return "no process told what it did: those that a signal ends tell nothing\n"
                .to_owned();
        }
        let all = Some(&self.sum).filter(|_| self.processes.len() > 1);
        let lines = self.processes.iter().chain(all);
        let head = COLUMNS.map(|(head, _)| head.to_owned());
        let mut rows = vec![head];
        rows.extend(lines.map(|line| COLUMNS.map(|(_, cell)| cell(line))));
        let mut widths = [0; COLUMNS.len()];
        for row in &rows {
            row.iter().zip(&mut widths).for_each(|(cell, width)| *width = max(*width, cell.len()));
        }
        // Numbers stand to the right; the last column is text.
        widths[COLUMNS.len() - 1] = 0;
        let mut text = String::new();
        for row in &rows {
            let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}"));
            text += cells.collect::<Vec<_>>().join("  ").trim_end();
            text.push('\n');
        }
        text + &format!("together at most {}, shared pages for each\n", human(self.tree_held_max))
    }
}

/// Returns a number of a line; 0 where it has none.
fn number(line: &Line, name: &str) -> u64 {
    line.get(name).and_then(Value::as_u64).unwrap_or(0)
}

/// How many times smaller what is stored became.
fn ratio(line: &Line) -> String {
    match (number(line, "stored"), number(line, "compressed")) {
        (_, 0) => "-".to_owned(),
        (stored, compressed) => format!("{:.2}", stored as f64 / compressed as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "\
        {\"process\":7,\"limit\":9,\"held_max\":4096,\"stored\":3000,\"compressed\":1000,\
        \"fault_us_99\":5,\"evicted\":1,\"backend\":\"signal\"}\n\
        {\"process\":8,\"limit\":9,\"held_max\":8192,\"stored\":0,\"compressed\":0,\
        \"fault_us_99\":2,\"evicted\":2,\"backend\":\"signal\"}\n{\"process\":9,\"lim";

    #[test]
    fn sizes_are_added_and_times_are_not() {
        let figures = Figures::parse(LINES, 10_000);
        let json: Value = serde_json::from_str(&figures.json()).unwrap();
        assert_eq!(json["processes"].as_array().unwrap().len(), 2);
        let sum = |name: &str| json["sum"][name].as_u64();
        assert_eq!((sum("held_max"), sum("evicted")), (Some(12288), Some(3)));
        assert_eq!((sum("fault_us_99"), sum("limit"), sum("process")), (Some(5), Some(9), None));
        assert_eq!(
            (&json["sum"]["backend"], &json["tree_held_max"]),
            (&"signal".into(), &10_000.into())
        );
    }

    #[test]
    fn the_table_has_a_line_for_each_and_one_for_all() {
        let table = Figures::parse(LINES, 10 << 20).table();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            (lines.len(), lines[4]),
            (5, "together at most 10.0 MiB, shared pages for each"),
            "{table}"
        );
        assert!(lines[0].trim_start().starts_with("process  peak held"), "{table}");
        assert!(lines[1].contains("4.0 KiB") && lines[1].contains("3.00"), "{table}");
        assert!(lines[2].contains(" - ") && lines[2].ends_with("signal"), "{table}");
        assert!(lines[3].contains("all") && lines[3].contains("12.0 KiB"), "{table}");
        let one = Figures::parse(LINES.lines().next().unwrap(), 0).table();
        assert!(one.lines().count() == 3 && !one.contains("all "), "{one}");
        assert!(Figures::parse("", 0).table().contains("no process"));
    }
}
