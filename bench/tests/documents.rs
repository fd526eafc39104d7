//! The documents' experiments: the command, and the report.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use bench::documents::{Results, html, markdown};

fn experiments(arguments: &[&str], out: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
    command.arg("experiments").args(arguments).arg("--out").arg(out);
    command.env("UZRAM_BENCH_DIR", out.join("inputs")).output().unwrap()
}

#[test]
fn what_is_asked_for_runs_and_is_written_down() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("deep/out");
    let output = experiments(&["slabinfo", "classes", "--quick", "--json"], &out);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    assert!(errors.contains("classes: done") && errors.contains("report.html"), "{errors}");
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let written = fs::read_to_string(out.join("results.json")).unwrap();
    assert_eq!(told, serde_json::from_str::<serde_json::Value>(&written).unwrap());
    // In the order of all, whatever was asked for first.
    let figures = |nth: usize| told["experiments"][nth]["found"]["figures"].as_array().unwrap();
    assert!(figures(0).iter().all(|line| line["experiment"] == "classes" && line["pass"] == true));
    assert_eq!((figures(0).len(), figures(1).len()), (39, 16));
    let results = Results::read(&out).unwrap();
    assert_eq!(fs::read_to_string(out.join("report.md")).unwrap(), markdown(&results));
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert_eq!(page, html(&results));
    for part in ["<h2 id=\"slabinfo\">", "<td>123</td>", "a quick run"] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn wrong_use_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for arguments in [&["nothing"][..], &["classes", "--slow"]] {
        assert_eq!(experiments(arguments, dir.path()).status.code(), Some(2), "{arguments:?}");
    }
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let output = experiments(&["classes"], &file.join("out"));
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--out"));
}
