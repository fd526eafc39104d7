//! The documents' experiments: the command, and the report.
#![allow(clippy::unwrap_used)]

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use bench::documents::{Results, html, markdown};
use rustix::process::{Pid, Signal, geteuid, kill_process_group};

/// The time within which an interrupted command must have removed all its objects.
const GONE_MAX: Duration = Duration::from_secs(20);

fn command(arguments: &[&str], out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
    command.arg("experiments").args(arguments).arg("--out").arg(out);
    command.env("UZRAM_BENCH_DIR", out.join("inputs"));
    command
}

fn experiments(arguments: &[&str], out: &Path) -> Output {
    command(arguments, out).output().unwrap()
}

/// Returns the mounts, loop devices and processes of this machine that refer to the directory.
fn traces(dir: &Path) -> Vec<String> {
    let dir = dir.to_str().unwrap();
    let below =
        |dir: &str| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mounts = mounts.lines().map(str::to_owned);
    // A process that exits during the search reads as empty.
    let text = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into();
    let loops = below("/sys/block").map(|device| text(&device.join("loop/backing_file")));
    let programs = below("/proc").map(|process| text(&process.join("cmdline")));
    mounts.chain(loops).chain(programs).filter(|trace: &String| trace.contains(dir)).collect()
}

#[test]
fn what_is_interrupted_leaves_nothing() {
    let has = |path: &str| Path::new(path).exists();
    if !geteuid().is_root() || !has("/dev/fuse") || !has("/dev/loop-control") {
        eprintln!(
            "documents: what is interrupted can't be tried: no root, /dev/fuse or loop devices"
        );
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (out, temporary) = (dir.path().join("out"), dir.path().join("temporary"));
    fs::create_dir(&temporary).unwrap();
    let text = out.join("inputs/linux-source-6.1/mm/zsmalloc.c");
    fs::create_dir_all(text.parent().unwrap()).unwrap();
    fs::write(&text, "int objects, pages;\n".repeat(4000)).unwrap();
    // The first round interrupts the command after a pause, the second round at once.
    for pause in [300, 0] {
        let mut command = command(&["pieces"], &out);
        command.env("TMPDIR", &temporary).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let seen: Vec<String> = lines.take_while(|line| !line.contains("chains of 4")).collect();
        // There must be traces of the command, its server, the server's mount, the loop device and
        // its file system.
        assert!(traces(&temporary).len() >= 4, "{seen:?}, {:?}", traces(&temporary));
        sleep(Duration::from_millis(pause));
        // Signals the group twice, like an impatient user at a terminal.
        let group = Pid::from_child(&child);
        kill_process_group(group, Signal::INT).unwrap();
        sleep(Duration::from_millis(20));
        let _ended_already = kill_process_group(group, Signal::INT);
        assert_eq!(child.wait().unwrap().code(), Some(130));
        let since = Instant::now();
        while !traces(&temporary).is_empty() {
            assert!(since.elapsed() < GONE_MAX, "{:?}", traces(&temporary));
            sleep(Duration::from_millis(50));
        }
        let left: Vec<_> = fs::read_dir(&temporary).unwrap().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
        assert!(!out.join("report.md").exists());
    }
}

#[test]
fn what_is_missing_is_said_and_the_rest_runs() {
    let dir = tempfile::tempdir().unwrap();
    // PATH has no programs, and the directory has no inputs.
    let output = command(&["classes", "build", "messaging", "untar", "pieces"], dir.path())
        .env("PATH", dir.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    for part in ["classes: done", "build: skipped", "messaging: skipped", "package valgrind"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    for part in ["untar: skipped", "pieces: skipped", "package gcc"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let report = fs::read_to_string(dir.path().join("report.md")).unwrap();
    assert!(report.contains("This experiment was skipped: it needs valgrind"), "{report}");
}

#[test]
fn what_has_no_input_is_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let python = dir.path().join("python3");
    fs::write(&python, "#!/bin/sh\nexit 1\n").unwrap();
    fs::set_permissions(&python, Permissions::from_mode(0o755)).unwrap();
    let output = command(&["swap"], dir.path()).env("PATH", dir.path()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("swap: skipped: python3 failed"), "{told}");
}

#[test]
fn what_falls_short_is_marked_and_no_text_is_markup() {
    let dir = tempfile::tempdir().unwrap();
    experiments(&["classes", "--quick"], dir.path());
    let path = dir.path().join("results.json");
    let text = fs::read_to_string(&path).unwrap();
    let page = |text: &str| {
        fs::write(&path, text).unwrap();
        let results = Results::read(dir.path()).unwrap();
        (markdown(&results), html(&results))
    };
    let (is_right, _) = page(&text);
    assert!(!is_right.contains("69 🔴"));
    let mut results: serde_json::Value = serde_json::from_str(&text).unwrap();
    let found = &mut results["experiments"][0]["found"];
    found["figures"][0]["pass"] = false.into();
    found["figures"][1]["must"] = "< 100".into();
    found["figures"][1]["rival_value"] = 1.into();
    found["notes"] = serde_json::json!(["<img src=x>\n# a | b & c"]);
    let (report, page) = page(&results.to_string());
    assert!(report.contains("69 🔴") && report.contains("69 🟠"), "{report}");
    assert_eq!(page.matches("class=\"short\"").count(), 3, "the summary's, and two");
    assert!(!page.contains("<img") && page.contains("&lt;img src=x&gt; # a | b &amp; c"));
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
    // The results have a fixed order, independent of the order of the arguments.
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

/// Returns the directory of the committed results.
fn committed() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/results")
}

#[test]
fn the_committed_report_is_of_the_committed_results() {
    let results = Results::read(&committed()).unwrap();
    for (name, text) in [("report.md", markdown(&results)), ("report.html", html(&results))] {
        let is = fs::read_to_string(committed().join(name)).unwrap();
        assert!(is == text, "docs/results/{name} is not what results.json comes to");
    }
}

#[test]
fn the_committed_run_is_whole() {
    let text = fs::read_to_string(committed().join("results.json")).unwrap();
    let results: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(results["machine"]["is_quick"], false);
    let ended: Vec<(&str, &str)> = results["experiments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of| (of["name"].as_str().unwrap(), of["state"].as_str().unwrap_or("not done")))
        .collect();
    let all = "untar pieces classes artifacts swap build slabinfo messaging";
    assert_eq!(ended, all.split(' ').map(|name| (name, "done")).collect::<Vec<_>>());
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    assert!(fs::read_to_string(readme).unwrap().contains("docs/results/report.md"));
}
