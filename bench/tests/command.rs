//! Tests the command `bench` as its users run it.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn bench(arguments: &[&str], cache: &std::path::Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(arguments)
        .env("UZRAM_BENCH_DIR", cache)
        .output()
        .unwrap()
}

#[test]
fn wrong_use_ends_with_2() {
    let dir = tempfile::tempdir().unwrap();
    for arguments in [&[][..], &["nothing"], &["fill", "--limit", "much"], &["fill", "--seed", "-"]]
    {
        assert_eq!(bench(arguments, dir.path()).status.code(), Some(2), "{arguments:?}");
    }
    assert_eq!(bench(&["--help"], dir.path()).status.code(), Some(0));
}

#[test]
fn a_figure_is_a_line_of_json() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["sparse", "--json", "--input", "system", "--limit", "8M", "--seed", "7"];
    let output = bench(&arguments, dir.path());
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{text}{errors}");
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4, "{text}{errors}");
    assert!(lines.iter().all(|line| line["experiment"] == "sparse" && line["seed"] == 7));
}

#[test]
fn an_input_without_a_page_is_an_error_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let output = bench(&["fill", "--input", "system", "--limit", "100"], dir.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--limit"));
}
