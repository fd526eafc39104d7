//! `uzram stat PID --prometheus`: the metrics of a program and of each of its processes.

use crate::admin::exposition::Metrics;
use prometheus::Opts;
use run::Program;
use run::{Figures, number, text as word};

/// The metrics of a process's memory. Each element holds the metric's name, its help text, and the
/// name of the statistic that is its value.
const SIZES: [[&str; 3]; 7] = [
    ["held_bytes", "Anonymous memory of the process, which the limit counts.", "tree_held"],
    ["resident_bytes", "Memory of the program that is resident.", "resident"],
    ["resident_max_bytes", "The most that was.", "resident_max"],
    ["stored_bytes", "Memory of the program that is stored, before compression.", "stored"],
    ["compressed_bytes", "The same, after compression.", "compressed"],
    ["pool_bytes", "Pages that hold what is compressed.", "pool"],
    ["block_size_bytes", "What is stored and comes back as one.", "block"],
];

/// The metrics of a process's activity. Each element holds the same three names and texts as in
/// `SIZES`, and a divisor. The metric's value is the statistic divided by the divisor.
const COUNTS: [(&str, &str, &str, f64); 9] = [
    ("evicted_blocks", "Blocks that were stored.", "evicted", 1.0),
    ("filled_blocks", "Blocks that came back.", "filled", 1.0),
    ("refused_blocks", "Blocks that could not be stored.", "refused", 1.0),
    ("first_touches", "Blocks that were touched for the first time.", "first_touches", 1.0),
    ("kept_blocks", "Blocks that were touched before they were stored.", "kept", 1.0),
    ("faults", "Touches that the runtime answered.", "faults", 1.0),
    ("fault_seconds", "The time that these took.", "faults_us", 1e6),
    ("system_calls", "System calls that the runtime passed on.", "calls", 1.0),
    ("system_call_seconds", "The time that the runtime took for these.", "calls_us", 1e6),
];

/// Returns the metrics of a program as text.
pub(super) fn text(program: &Program) -> String {
    of(program.process(), &program.figures())
}

fn of(program: u64, figures: &Figures) -> String {
    let metrics = Metrics::default();
    let options = |name: &str, help: &str| {
        Opts::new(format!("uzram_run_{name}"), help).const_label("program", program.to_string())
    };
    let info = options("info", "What runs the program: its version.");
    metrics.gauge(info.const_label("version", env!("CARGO_PKG_VERSION")), 1.0);
    for (name, help, value) in [
        ("processes", "Processes of the program.", figures.processes.len() as u64),
        ("limit_bytes", "Limit of what they hold together; 0: none.", figures.sum("limit")),
        ("program_held_bytes", "What they hold together.", figures.sum("tree_held")),
        ("program_held_max_bytes", "The most that they held together.", figures.tree_held_max),
        ("short", "Whether they hold more than there is room for.", figures.is_short().into()),
    ] {
        metrics.gauge(options(name, help), value as f64);
    }
    for process in &figures.processes {
        let options = |name: &str, help: &str| {
            let options = options(name, help).const_label("name", word(process, "name"));
            options.const_label("process", number(process, "process").to_string())
        };
        let backend = options("backend_info", "How touches come to the runtime.");
        metrics.gauge(backend.const_label("backend", word(process, "backend")), 1.0);
        for [name, help, figure] in SIZES {
            metrics.gauge(options(name, help), number(process, figure) as f64);
        }
        for (name, help, figure, units) in COUNTS {
            let value = number(process, figure) as f64 / units;
            metrics.counter(options(&format!("{name}_total"), help), value);
        }
    }
    metrics.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_process_has_its_own_and_all_have_helps() {
        let process = |number: u64, name: &str| {
            let text = format!(
                "{{\"process\":{number},\"name\":\"{name}\",\"limit\":4096,\"tree_held\":9,\
                 \"faults_us\":1500000,\"backend\":\"signal\"}}"
            );
            serde_json::from_str(&text).unwrap()
        };
        let processes = vec![process(8, "a"), process(9, "b\\\"\\u001b")];
        let text = of(8, &Figures::new(processes, 20, Some(true)));
        let labels = "name=\"b\\\"\u{fffd}\",process=\"9\",program=\"8\"";
        for line in [
            "uzram_run_program_held_bytes{program=\"8\"} 18",
            "uzram_run_program_held_max_bytes{program=\"8\"} 20",
            "uzram_run_limit_bytes{program=\"8\"} 4096",
            "uzram_run_processes{program=\"8\"} 2",
            "uzram_run_short{program=\"8\"} 1",
            &format!("uzram_run_held_bytes{{{labels}}} 9"),
            &format!("uzram_run_fault_seconds_total{{{labels}}} 1.5"),
            "# TYPE uzram_run_fault_seconds_total counter",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        let values = text.lines().filter(|line| !line.starts_with('#')).count();
        let helps = text.lines().filter(|line| line.starts_with("# HELP uzram_run_")).count();
        assert_eq!((values, helps), (6 + 2 * 17, 6 + 17), "{text}");
        assert!(!text.contains(|letter: char| letter.is_control() && letter != '\n'), "{text}");
    }
}
