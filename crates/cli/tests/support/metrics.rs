//! Checks metrics against the conventions of Prometheus.

use std::collections::HashMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Checks metrics against the conventions of Prometheus. If Prometheus's own tool is installed,
/// runs it too.
pub fn lint(metrics: &str) {
    check(metrics);
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped());
    promtool.stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = promtool.spawn() else {
        eprintln!("SKIPPED: promtool is not installed (Debian's package prometheus has it)");
        return;
    };
    child.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let checked = child.wait_with_output().unwrap();
    assert!(checked.status.success() && checked.stderr.is_empty(), "{checked:?}");
}

/// Checks that each metric has one help text, then one type, then values. Only counters end in
/// `_total`. The units are bytes and seconds.
fn check(metrics: &str) {
    let (mut helps, mut kinds, mut last) = (HashMap::new(), HashMap::new(), String::new());
    for line in metrics.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|it| it.split_once(' ')) {
            assert!(help.ends_with('.'), "{line}");
            assert!(helps.insert(name, help).is_none(), "{name} has two helps");
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|it| it.split_once(' '))
        {
            assert!(helps.contains_key(name) && kinds.insert(name, kind).is_none(), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            assert!(kind == "counter" || kind == "gauge", "{line}");
            last = name.to_owned();
        } else {
            let name = line.split(['{', ' ']).next().unwrap();
            assert_eq!(name, last, "a value stands apart from its type: {line}");
            assert!(line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() >= 0.0, "{line}");
        }
    }
    assert!(kinds.len() > 10 && kinds.len() == helps.len(), "{metrics}");
    for name in kinds.keys() {
        assert!(name.starts_with("uzram_"), "{name}");
        let others =
            ["_kb", "_kib", "_mb", "_us", "_ms", "_ns", "_milliseconds", "_micro", "_percent"];
        let name = format!("{name}_");
        let found = others.iter().find(|unit| name.contains(&format!("{unit}_")));
        assert!(found.is_none(), "{name} has another unit than bytes and seconds");
    }
}
