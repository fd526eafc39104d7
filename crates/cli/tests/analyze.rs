//! Tests the output of `uzram analyze` for files and for a process. `forecast.rs` tests the
//! forecasts.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use serde_json::Value;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use support::{PAGE, UZRAM, end, noise, text, write_all};

/// The ID of a user without privileges.
const NOBODY: u32 = 65534;

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
    let mut python = python("a = bytes(range(256)) * 65536", &[]);
    let (pid, rows) = (python.id().to_string(), dir.path().join("rows"));
    let args = ["--pid", &pid, "--try", "lz4", "--block", "4K", "--parquet"];
    for round in 1..=2 {
        let told = analyze(&[&args[..], &[rows.to_str().unwrap()]].concat(), &[]);
        assert_eq!(told["source"]["pid"], python.id());
        assert!(told["source"]["name"].as_str().unwrap().contains("python3"), "{told}");
        let bytes = told["data_bytes"].as_u64().unwrap();
        assert!((16 << 20..64 << 20).contains(&bytes), "{bytes}");
        // Identical pages of 16 MiB in total take little memory.
        assert!(told["candidates"][0]["memory_bytes"].as_u64().unwrap() < bytes / 2, "{told}");
        let file = std::fs::read(&rows).unwrap();
        assert!(file.starts_with(b"PAR1") && file.ends_with(b"PAR1"), "round {round}");
    }
    drop(python.stdin.take());
    python.wait().unwrap();
    let gone = end(Command::new(UZRAM).args(["analyze", "--pid", &pid]));
    assert!(gone.code == Some(1) && gone.err.contains("can't be read"), "{gone:?}");
}

/// Starts a Python process that runs `code` and then waits.
fn python(code: &str, args: &[&Path]) -> Child {
    let mut python = Command::new("python3");
    let code = format!("{code}\nprint(1, flush=True); import sys; sys.stdin.read()");
    python.args(["-c", &code]).args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut python = python.spawn().unwrap();
    std::io::Read::read_exact(python.stdout.as_mut().unwrap(), &mut [0; 2]).unwrap();
    python
}

#[test]
fn names_may_be_of_any_bytes_and_pages_that_were_only_read_do_not_count() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(OsStr::from_bytes(b"a\xff b"));
    std::fs::write(&path, text(1, 4 * PAGE)).unwrap();
    let code = "import sys, mmap
file = open(sys.argv[1], 'rb')
mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
open('/proc/self/comm', 'wb').write(b'odd\\xff')
zeros = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
zeros[5] = 1
assert sum(zeros[::4096]) == 0";
    let mut python = python(code, &[&path]);
    let pid = python.id().to_string();
    let told = analyze(&["--pid", &pid, "--try", "zstd:1", "--block", "4K"], &[]);
    assert_eq!(told["source"]["name"], format!("{pid} odd\u{fffd}"));
    let bytes = told["data_bytes"].as_u64().unwrap();
    assert!((1 << 20..48 << 20).contains(&bytes), "{bytes}");
    let rows = told["candidates"].as_array().unwrap();
    let recommended = rows.iter().find(|row| row["is_recommended"] == true).unwrap();
    assert_eq!(recommended["dictionary_bytes"], 0, "there is no file to train one with");
    let run: Vec<_> = told["advice"]["run"].as_array().unwrap().iter().collect();
    assert_eq!(run, ["--limit SIZE", "--algorithm zstd --level 1", "--block 4K"]);
    drop(python.stdin.take());
    python.wait().unwrap();
}

#[test]
fn a_report_is_not_lost_when_its_rows_are() {
    let dir = tempfile::tempdir().unwrap();
    let [file, rows, empty, other] =
        ["file", "rows", "empty", "other"].map(|name| dir.path().join(name));
    let no_rows = text(2, PAGE);
    write_all(
        dir.path(),
        &[("file", text(1, 2000 * PAGE)), ("empty", Vec::new()), ("other", no_rows)],
    );
    let ask = |rows: &Path| {
        let args = ["analyze", "--try", "lz4", "--block", "4K", "--parquet"];
        end(Command::new(UZRAM).args(args).arg(rows).arg(&file))
    };
    // Writing the file fails for a reason that the command does not detect in advance.
    symlink("file", dir.path().join(".rows.saving")).unwrap();
    let ended = ask(&rows);
    assert!(ended.code == Some(1) && ended.err.contains("can't be appended to"), "{ended:?}");
    assert!(ended.out.contains("Recommended (*)") && !rows.exists(), "{ended:?}");
    // The command detects the failure in advance, so it tries no candidate.
    let ended = ask(&other);
    assert!(ended.code == Some(1) && ended.err.contains("can't be appended to"), "{ended:?}");
    assert_eq!(ended.out, "");
    let ended = ask(&empty);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert!(std::fs::read(&empty).unwrap().starts_with(b"PAR1"));
    // The umask determines the permissions of the file.
    let mut shell = Command::new("sh");
    let line = "umask 027; exec \"$0\" analyze --try lz4 --block 4K --parquet \"$1\" \"$2\"";
    let masked = dir.path().join("masked");
    let ended = end(shell.args(["-c", line, UZRAM]).args([&masked, &file]));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(std::fs::metadata(&masked).unwrap().mode() & 0o777, 0o640);
}

#[test]
fn why_a_file_can_not_be_read_is_told() {
    const NAME: &str = "why_a_file_can_not_be_read_is_told";
    let dir = tempfile::tempdir().unwrap();
    write_all(dir.path(), &[("mine", text(1, 600 * PAGE)), ("open", text(2, 600 * PAGE))]);
    let mode = |name: &str, mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(dir.path().join(name), permissions).unwrap();
    };
    mode("", 0o777);
    mode("open", 0o644);
    mode("mine", 0o000);
    // Root can read every file, so another user runs the command.
    let is_root = std::fs::File::open(dir.path().join("mine")).is_ok();
    let ask = |args: &[&str], name: &str| {
        let mut command = Command::new(UZRAM);
        command.args(args).arg(dir.path().join(name)).current_dir("/");
        let command = if is_root { command.uid(NOBODY).gid(NOBODY) } else { &mut command };
        command.output().map(support::Ended::from)
    };
    let analyze = ["analyze", "--try", "lz4", "--block", "4K"];
    let ended = match ask(&analyze, "") {
        Ok(ended) => ended,
        Err(error) => {
            eprintln!("{NAME}: skipped, nobody may not run the binary: {error}");
            return;
        }
    };
    assert!(ended.code == Some(0) && ended.out.contains("2.3 MiB in 1 file"), "{ended:?}");
    assert!(ended.err.contains("/mine': Permission denied"), "{ended:?}");
    let out = dir.path().join("out");
    let train = ["train-dictionary", "-o", out.to_str().unwrap()];
    for args in [&analyze[..], &train] {
        let ended = ask(args, "mine").unwrap();
        assert!(ended.code == Some(1) && ended.out.is_empty(), "{ended:?}");
        assert!(ended.err.contains("/mine' can't be used: Permission denied"), "{ended:?}");
    }
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
