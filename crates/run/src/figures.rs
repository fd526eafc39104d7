//! The statistics (figures) of each process of a program, and the sum of these figures.

use serde::Serialize;
use serde_json::{Map, Value};
use std::cmp::max;

/// The figures of a process: `procgroup::Figures` as JSON, with the name of the process.
pub type Line = Map<String, Value>;

/// The field that marks the figures of a process that ended without a report, usually because a
/// signal killed it.
pub const KILLED: &str = "killed";

/// For these figures, the sum contains the largest value of all processes.
const LARGEST: [&str; 7] = [
    "limit",
    "block",
    "tree_held_max",
    "fault_us_median",
    "fault_us_99",
    "fault_us_999",
    "signal_ns",
];

/// The figures of a program.
#[derive(Debug, Default, Serialize)]
pub struct Figures {
    /// The figures of each process.
    pub processes: Vec<Line>,
    /// The figures of all processes together.
    pub sum: Line,
    /// The maximum number of bytes that all processes held at the same time. A resident page that
    /// processes share after a fork may be counted for each of them.
    pub tree_held_max: u64,
    /// Whether the running processes hold more than the limit allows, or `None` if the program has
    /// ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_short: Option<bool>,
}

/// Returns the figures of all processes together. The time per call and the compression ratio are
/// computed over all processes.
pub fn sum_of<'a>(processes: impl IntoIterator<Item = &'a Line>) -> Line {
    let mut sum = Line::new();
    for (name, value) in processes.into_iter().flatten() {
        if ["process", "name", KILLED].contains(&&**name) {
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
    // The ratio is null if nothing was stored.
    let ratio = (of("stored_max") / of("compressed_max") * 100.0).round() / 100.0;
    sum.insert("call_ns".to_owned(), per_call.into());
    sum.insert("ratio".to_owned(), ratio.into());
    sum
}

impl Figures {
    /// Returns the figures of a program's processes, and their sum. `text` holds the lines that
    /// processes wrote when they ended. `unreported` holds the figures of processes that ended
    /// without writing a line.
    pub fn parse(text: &str, unreported: Vec<Line>, tree_held_max: u64) -> Self {
        // A process can write an incomplete line if the disk is full.
        let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        // The sum reports the backend of the last line, so the lines that processes wrote come
        // last.
        let lines = unreported.into_iter().chain(lines);
        Figures::new(lines.collect(), tree_held_max, None)
    }

    /// Returns the figures of `processes` with their sum.
    pub fn new(processes: Vec<Line>, tree_held_max: u64, is_short: Option<bool>) -> Self {
        let sum = sum_of(&processes);
        // `tree_held_max` may be too low, because the memory of all processes is added up only at
        // intervals. Between two sums, a process can reach its own maximum.
        let held_max = processes.iter().map(|line| number(line, "held_max")).max().unwrap_or(0);
        let tree_held_max = tree_held_max.max(held_max);
        Figures { processes, sum, tree_held_max, is_short }
    }

    /// Returns the figure `name` of the sum, or 0 if the sum has no such figure.
    pub fn sum(&self, name: &str) -> u64 {
        number(&self.sum, name)
    }

    /// Returns whether the running processes hold more than the limit allows.
    pub fn is_short(&self) -> bool {
        self.is_short == Some(true)
    }
}

/// Returns the number in the field `name` of a line, or 0 if the field is missing or is no number.
pub fn number(line: &Line, name: &str) -> u64 {
    line.get(name).and_then(Value::as_u64).unwrap_or(0)
}

/// Returns the text in the field `name` of a line. Replaces control characters, because a program
/// may have written the line.
pub fn text(line: &Line, name: &str) -> String {
    let text = line.get(name).and_then(Value::as_str).unwrap_or_default();
    text.replace(char::is_control, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two complete lines and an incomplete line of a statistics file.
    const LINES: &str = "\
        {\"process\":7,\"name\":\"sort\",\"limit\":9,\"held_max\":4096,\"stored_max\":3000,\
        \"compressed_max\":1000,\"ratio\":3.00,\"fault_us_99\":5,\"evicted\":1,\"calls\":10,\
        \"call_ns\":1000,\"calls_us\":10,\"backend\":\"signal\",\"backend_reason\":\"why\"}\n\
        {\"process\":8,\"limit\":9,\"held_max\":8192,\"stored_max\":0,\"compressed_max\":0,\
        \"ratio\":null,\"fault_us_99\":2,\"evicted\":2,\"calls\":90,\"call_ns\":3000,\
        \"calls_us\":270,\"backend\":\"signal\",\"backend_reason\":\"why\"}\n{\"process\":9,\"lim";

    #[test]
    fn sizes_are_added_and_times_are_not() {
        let figures = Figures::parse(LINES, Vec::new(), 10_000);
        let json = serde_json::to_value(&figures).unwrap();
        assert_eq!(json["processes"].as_array().unwrap().len(), 2);
        let sum = |name: &str| json["sum"][name].as_u64();
        assert_eq!((sum("held_max"), sum("evicted")), (Some(12288), Some(3)));
        assert_eq!((sum("fault_us_99"), sum("limit"), sum("process")), (Some(5), Some(9), None));
        // The time per call and the ratio are computed over all processes.
        assert_eq!((sum("call_ns"), &json["sum"]["ratio"]), (Some(2800), &3.0.into()));
        assert_eq!(json.get("is_short"), None);
        assert_eq!(
            (&json["sum"]["backend"], &json["tree_held_max"]),
            (&"signal".into(), &10_000.into())
        );
    }
}
