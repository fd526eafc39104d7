//! The command from the view of its users.
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
    for arguments in
        [&[][..], &["nothing"], &["rivals", "--limit", "much"], &["rivals", "--seed", "-"]]
    {
        assert_eq!(bench(arguments, dir.path()).status.code(), Some(2), "{arguments:?}");
    }
    assert_eq!(bench(&["--help"], dir.path()).status.code(), Some(0));
}

#[test]
fn rivals_run_on_a_little_of_the_system() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["rivals", "--json", "--input", "system", "--limit", "8M", "--seed", "7"];
    let output = bench(&arguments, dir.path());
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}{errors}");
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().all(|line| line["experiment"] == "rivals" && line["seed"] == 7));
    let value = |figure: &str| {
        let line = lines.iter().find(|line| line["figure"] == figure);
        line.unwrap_or_else(|| panic!("no {figure}"))["value"].as_f64()
    };
    assert_eq!(value("system/pages"), Some(2048.0));
    let kinds = ["same-filled", "compressible", "incompressible"];
    let sum: f64 = kinds.iter().filter_map(|kind| value(&format!("system/pages {kind}"))).sum();
    assert_eq!(sum, 2048.0);
    match value("system/kernel overhead over C") {
        Some(percent) => assert!(percent > 0.0 && percent < 50.0, "{percent}"),
        None => {
            println!("skipped: the kernel's part of rivals: {}", lines[lines.len() - 1]["rival"])
        }
    }
}

#[test]
fn an_input_without_a_page_is_an_error_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let output = bench(&["rivals", "--input", "system", "--limit", "100"], dir.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--limit"));
}

/// The kernel's geometry in uzram's allocator has the kernel's own figures, within half a percent.
#[test]
fn parity_with_the_kernel() {
    let output = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(["parity", "--input", "system", "--limit", "96M", "--json"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let mut judged = 0;
    for line in lines {
        if line["rival"].as_str().is_some_and(|rival| rival.starts_with("absent")) {
            println!("skipped: parity_with_the_kernel: {}", line["rival"]);
            return;
        }
        assert_ne!(line["pass"], false, "{line}");
        judged += usize::from(line["pass"] == true);
    }
    assert_eq!(judged, 2, "{text}{}", String::from_utf8_lossy(&output.stderr));
}
