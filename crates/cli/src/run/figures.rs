//! What the processes of a program did, as a table for people and as JSON.

use measure::text::{human, json};
use serde::Serialize;
use serde_json::{Map, Value};
use std::cmp::max;
use std::collections::BTreeSet;

/// What a process has told: `zmem::Figures` as JSON.
pub(crate) type Line = Map<String, Value>;

/// Of these, processes' figures make no sum: the largest is told.
const LARGEST: [&str; 7] = [
    "limit",
    "block",
    "tree_held_max",
    "fault_us_median",
    "fault_us_99",
    "fault_us_999",
    "signal_ns",
];

/// See the module.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Figures {
    processes: Vec<Line>,
    /// What they come to together.
    sum: Line,
    /// The most that all of them held at a time, those that a signal ended too. Resident pages
    /// that parents and children share are counted for each.
    tree_held_max: u64,
    /// Whether they hold more than the limit has room for, if they still run.
    #[serde(skip_serializing_if = "Option::is_none")]
    is_short: Option<bool>,
}

/// When a column is shown: of processes that run, or that have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Live,
    Ended,
    Ever,
}

/// A column of the table: its heading, when it is shown, and what it tells of a line.
type Column = (&'static str, When, fn(&Line) -> String);

const COLUMNS: [Column; 20] = [
    ("process", When::Ever, |line| match line.get("process") {
        Some(Value::String(_)) => text(line, "process"),
        process => process.map_or("all".to_owned(), Value::to_string),
    }),
    ("name", When::Ever, |line| text(line, "name")),
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

/// Processes that held less than this share of the most memory are one line, if they are several.
const SHARE: u64 = 100;

/// Returns the sum of processes' figures, with the cost of a call and the ratio of all.
fn sum_of<'a>(processes: impl IntoIterator<Item = &'a Line>) -> Line {
    let mut sum = Line::new();
    for (name, value) in processes.into_iter().flatten() {
        if ["process", "name"].contains(&&**name) {
            continue;
        }
        let before = number(&sum, name);
        let both = value.as_u64().map(|value| match LARGEST.contains(&name.as_str()) {
            true => max(before, value),
            false => before.saturating_add(value),
        });
        sum.insert(name.clone(), both.map_or_else(|| value.clone(), Value::from));
    }
    let of = |name: &str| number(&sum, name) as f64;
    let per_call = (of("calls_us") * 1e3 / of("calls").max(1.0)) as u64;
    // Without stored data the ratio is null.
    let ratio = (of("stored_max") / of("compressed_max") * 100.0).round() / 100.0;
    sum.insert("call_ns".to_owned(), per_call.into());
    sum.insert("ratio".to_owned(), ratio.into());
    sum
}

impl Figures {
    /// Returns the figures of what processes wrote when they ended.
    pub(super) fn parse(text: &str, tree_held_max: u64) -> Self {
        // What is not whole was cut off as the disk was full.
        let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        Figures::new(lines.collect(), tree_held_max, None)
    }

    /// Returns the figures of processes.
    pub(crate) fn new(processes: Vec<Line>, tree_held_max: u64, is_short: Option<bool>) -> Self {
        let sum = sum_of(&processes);
        // Others may not have looked at the moment when one of them held most.
        let held_max = processes.iter().map(|line| number(line, "held_max")).max().unwrap_or(0);
        let tree_held_max = tree_held_max.max(held_max);
        Figures { processes, sum, tree_held_max, is_short }
    }

    /// Returns what each process has told.
    pub(crate) fn processes(&self) -> &[Line] {
        &self.processes
    }

    /// Returns what they come to together, of one name; 0 where there is none.
    pub(crate) fn sum(&self, name: &str) -> u64 {
        number(&self.sum, name)
    }

    pub(crate) fn held_max(&self) -> u64 {
        self.tree_held_max
    }

    pub(crate) fn is_short(&self) -> bool {
        self.is_short == Some(true)
    }

    pub(crate) fn json(&self) -> String {
        json(self)
    }

    /// Returns the same as one line.
    pub(crate) fn json_line(&self) -> String {
        // As in `json`, nothing can fail.
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// Returns the lines of the table: the processes with most memory first, ended ones with little
    /// as one, and their sum.
    fn lines(&self) -> Vec<Line> {
        let has_ended = self.is_short.is_none();
        let weight = if has_ended { "held_max" } else { "tree_held" };
        let mut lines = self.processes.clone();
        lines.sort_by_key(|line| std::cmp::Reverse(number(line, weight)));
        let least = self.tree_held_max / SHARE;
        let large = lines.partition_point(|line| number(line, weight) >= least);
        if has_ended && lines.len() - large > 1 {
            let mut small = sum_of(&lines[large..]);
            let others = format!("{} others", lines.len() - large);
            small.insert("process".to_owned(), others.into());
            lines.truncate(large);
            lines.push(small);
        }
        if self.processes.len() > 1 {
            lines.push(self.sum.clone());
        }
        lines
    }

    /// Returns the processes as a table, and sentences about them together.
    pub(crate) fn table(&self) -> String {
        if self.processes.is_empty() {
            return match self.is_short {
                None => "no process told what it did: those that a signal ends tell nothing\n",
                Some(_) => "no process has begun, or all have ended\n",
            }
            .to_owned();
        }
        let hidden = if self.is_short.is_some() { When::Ended } else { When::Live };
        let columns: Vec<_> = COLUMNS.iter().filter(|(_, when, _)| *when != hidden).collect();
        let mut rows: Vec<Vec<String>> =
            vec![columns.iter().map(|(head, ..)| (*head).to_owned()).collect()];
        let lines = self.lines();
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
        text + &match self.is_short {
            Some(is_short) => self.reasons() + &self.together(is_short),
            None => self.sentences(),
        }
    }

    /// Returns a line for each backend, which says why it was chosen.
    fn reasons(&self) -> String {
        let of =
            |line: &Line| format!("{}: {}\n", text(line, "backend"), text(line, "backend_reason"));
        self.processes.iter().map(of).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns how much processes that run hold.
    fn together(&self, is_short: bool) -> String {
        let most = human(self.tree_held_max);
        let [held, limit] = ["tree_held", "limit"].map(|name| human(self.sum(name)));
        let short = if is_short { "; short of room" } else { "" };
        format!("together {held} of {limit}, at most {most}{short}\n")
    }

    /// Returns three sentences: the most memory, the memory saved, the time taken.
    fn sentences(&self) -> String {
        let [stored, compressed] = ["stored_max", "compressed_max"].map(|name| self.sum(name));
        let [faults, calls] = ["faults_us", "calls_us"].map(|name| seconds(self.sum(name)));
        let saved = human(stored.saturating_sub(compressed));
        let [most, limit, stored, compressed] =
            [self.tree_held_max, self.sum("limit"), stored, compressed].map(human);
        let saved = match self.sum("evicted") {
            0 => "Nothing was compressed, because there was room.".to_owned(),
            _ => format!("Compression saved at most {saved}: {stored} took {compressed}."),
        };
        format!(
            "All processes together held at most {most}, of a limit of {limit}.\n{saved}\n\
             This took {faults} for page faults and {calls} for system calls, in all threads.\n"
        )
    }
}

/// Returns a number of a line; 0 where it has none.
pub(crate) fn number(line: &Line, name: &str) -> u64 {
    line.get(name).and_then(Value::as_u64).unwrap_or(0)
}

/// Returns a text of a line, which any program may have written: nothing in it steers a terminal.
pub(crate) fn text(line: &Line, name: &str) -> String {
    let told = line.get(name).and_then(Value::as_str).unwrap_or_default();
    told.replace(char::is_control, "\u{fffd}")
}

fn seconds(microseconds: u64) -> String {
    format!("{:.2} s", microseconds as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "\
        {\"process\":7,\"name\":\"sort\",\"limit\":9,\"held_max\":4096,\"stored_max\":3000,\
        \"compressed_max\":1000,\"ratio\":3.00,\"fault_us_99\":5,\"evicted\":1,\"calls\":10,\
        \"call_ns\":1000,\"calls_us\":10,\"backend\":\"signal\",\"backend_reason\":\"why\"}\n\
        {\"process\":8,\"limit\":9,\"held_max\":8192,\"stored_max\":0,\"compressed_max\":0,\
        \"ratio\":null,\"fault_us_99\":2,\"evicted\":2,\"calls\":90,\"call_ns\":3000,\
        \"calls_us\":270,\"backend\":\"signal\",\"backend_reason\":\"why\"}\n{\"process\":9,\"lim";

    #[test]
    fn sizes_are_added_and_times_are_not() {
        let figures = Figures::parse(LINES, 10_000);
        let json: Value = serde_json::from_str(&figures.json()).unwrap();
        assert_eq!(json["processes"].as_array().unwrap().len(), 2);
        let sum = |name: &str| json["sum"][name].as_u64();
        assert_eq!((sum("held_max"), sum("evicted")), (Some(12288), Some(3)));
        assert_eq!((sum("fault_us_99"), sum("limit"), sum("process")), (Some(5), Some(9), None));
        // What a call costs, and how much smaller data became, is of all of them.
        assert_eq!((sum("call_ns"), &json["sum"]["ratio"]), (Some(2800), &3.0.into()));
        assert_eq!(json.get("is_short"), None);
        assert_eq!(
            (&json["sum"]["backend"], &json["tree_held_max"]),
            (&"signal".into(), &10_000.into())
        );
    }

    #[test]
    fn the_table_has_a_line_for_each_and_one_for_all() {
        let table = Figures::parse(LINES, 10_000).table();
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
        // The one with most memory is first.
        assert!(lines[1].trim_start().starts_with('8') && lines[1].contains("8.0 KiB"), "{table}");
        assert!(lines[2].trim_start().starts_with('7') && lines[2].contains("sort"), "{table}");
        assert!(lines[3].contains("all") && lines[3].contains("12.0 KiB"), "{table}");
        assert!(lines[6].contains("0.00 s for page faults"), "{table}");
        let one = Figures::parse(LINES.lines().next().unwrap(), 0).table();
        assert_eq!(one.lines().count(), 5, "{one}");
        assert!(one.contains("at most 4.0 KiB"), "no less than one of them: {one}");
        assert!(Figures::parse("", 0).table().contains("no process"));
    }

    #[test]
    fn processes_with_little_memory_are_one_line() {
        let line = |process: u64, held: u64| {
            format!("{{\"process\":{process},\"held_max\":{held},\"evicted\":2}}\n")
        };
        let of = |helds: &[u64]| {
            let lines = helds.iter().enumerate().map(|(nth, held)| line(nth as u64, *held));
            Figures::parse(&lines.collect::<String>(), 100 << 10).table()
        };
        let table = of(&[1000, 50 << 10, 1023, 1024, 1]);
        let firsts: Vec<_> = table.lines().take(5).map(|line| line.trim_start()).collect();
        let begin = ["process", "1 ", "3 ", "3 others", "all"];
        assert!(begin.iter().zip(&firsts).all(|(it, line)| line.starts_with(it)), "{table}");
        assert!(firsts[3].contains(" 2.0 KiB "), "their sum: {table}");
        // One of them is itself.
        assert!(!of(&[1000, 50 << 10]).contains("others"));
    }

    #[test]
    fn processes_that_run_are_told_as_they_are() {
        let live = |lines: &str, is_short| {
            let lines = lines.lines().filter_map(|line| serde_json::from_str(line).ok());
            Figures::new(lines.collect(), 10 << 20, Some(is_short)).table()
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
