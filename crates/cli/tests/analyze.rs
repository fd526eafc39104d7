//! What `uzram analyze` prints, of files and of a process. What it forecasts, `measure` tests.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use support::{PAGE, UZRAM, end, noise, text, write_all};

fn analyze(args: &[&str], paths: &[PathBuf]) -> Value {
    let mut command = Command::new(UZRAM);
    command.args(["analyze", "--json"]).args(args).args(paths);
    let ended = end(&mut command);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    ended.json()
}

#[test]
fn what_is_recommended_can_be_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    write_all(dir.path(), &[("file", [text(1, 900 * PAGE), noise(2, 100 * PAGE)].concat())]);
    let file = dir.path().join("file");
    let told = analyze(&[], std::slice::from_ref(&file));
    assert_eq!((&told["data_bytes"], &told["is_all"]), (&(1000 * PAGE).into(), &true.into()));
    assert!(
        told["candidates"]
            .as_array()
            .unwrap()
            .iter()
            .all(|row| row["error_bytes"] == 0 || row["dictionary_bytes"] != 0)
    );
    let serve = told["advice"]["serve"].as_array().unwrap();
    assert!(serve[0].as_str().unwrap().starts_with("--size 4M"), "{serve:?}");
    let kernel = told["advice"]["kernel"].as_array().unwrap();
    assert!(kernel.iter().any(|line| line.as_str().unwrap().ends_with("/mem_limit")));
    let table = end(Command::new(UZRAM).arg("analyze").arg(&file));
    assert_eq!(table.out.lines().filter(|line| line.starts_with("* ")).count(), 1, "{table:?}");
    assert!(table.out.contains("  uzram serve --size 4M ") && table.out.contains("sample: all"));
}

#[test]
fn a_process_is_looked_at_and_rows_are_appended() {
    let dir = tempfile::tempdir().unwrap();
    let held = "a = bytes(range(256)) * 65536; print(1, flush=True); import sys; sys.stdin.read()";
    let mut python = Command::new("python3");
    python.args(["-c", held]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut python = python.spawn().unwrap();
    std::io::Read::read_exact(python.stdout.as_mut().unwrap(), &mut [0; 2]).unwrap();
    let (pid, rows) = (python.id().to_string(), dir.path().join("rows"));
    let args = ["--pid", &pid, "--try", "lz4", "--block", "4K", "--parquet"];
    for round in 1..=2 {
        let told = analyze(&[&args[..], &[rows.to_str().unwrap()]].concat(), &[]);
        assert_eq!(told["source"]["pid"], python.id());
        assert!(told["source"]["name"].as_str().unwrap().contains("python3"), "{told}");
        let bytes = told["data_bytes"].as_u64().unwrap();
        assert!((16 << 20..64 << 20).contains(&bytes), "{bytes}");
        // Sixteen MiB of one page's content shrink to little.
        assert!(told["candidates"][0]["memory_bytes"].as_u64().unwrap() < bytes / 2, "{told}");
        let file = std::fs::read(&rows).unwrap();
        assert!(file.starts_with(b"PAR1") && file.ends_with(b"PAR1"), "round {round}");
    }
    drop(python.stdin.take());
    python.wait().unwrap();
    let gone = end(Command::new(UZRAM).args(["analyze", "--pid", &pid]));
    assert!(gone.code == Some(1) && gone.err.contains("can't be read"), "{gone:?}");
}

#[test]
fn wrong_use_is_told() {
    for (args, code, part) in [
        (&[][..], 2, "<PATH"),
        (&["--pid", "1", "x"], 2, "--pid"),
        (&["--pid", "0"], 2, "--pid"),
        (&["--idle", "1", "x"], 2, "--idle"),
        (&["--idle", "0", "--pid", "1"], 2, "from 1 to 1048576"),
        (&["--idle", "1048577", "--pid", "1"], 2, "from 1 to 1048576"),
        (&["--try", "zstd:99", "x"], 2, "99"),
        (&["--sample", "1K", "x"], 2, "at least 1M"),
        (&["no/such"], 1, "'no/such'"),
        (&["--parquet", "no/such/f", "/etc/hostname"], 1, "no/such/f"),
    ] {
        let ended = end(Command::new(UZRAM).arg("analyze").args(args));
        assert_eq!((ended.code, ended.err.lines().count()), (Some(code), 1), "{args:?}: {ended:?}");
        assert!(ended.err.contains(part), "{args:?}: {ended:?}");
    }
}
