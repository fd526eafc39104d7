//! Tests Java programs. One program is a database in the Java heap under load, which tools of the
//! JDK examine. The other programs are the tests of a library. `tools/suites.sh` fetches the
//! programs, and `make long` runs these tests.

use crate::run;
use crate::suites::{evicted, suite};
use crate::support::{end, until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use testkit::wait::patience;

/// The limit in MiB. The heap below is smaller than the limit, but the heap and Java's other memory
/// together exceed the limit.
const LIMIT_MIB: u64 = 112;
const HEAP: [&str; 3] = ["-Xmx96m", "-Xmn16m", "-XX:+UseSerialGC"];
const HEAP_BYTES: u64 = 96 << 20;

const ROWS: &str = "12000";
const THREADS: &str = "4";

/// Packages of commons-lang3 whose tests neither sleep nor test all time zones.
const PACKAGES: [&str; 9] =
    ["builder", "compare", "event", "exception", "function", "math", "mutable", "reflect", "tuple"];

/// Returns a command that runs Java, with a limit if `stats` is set. Each process then appends its
/// statistics to the file `stats`.
fn java(stats: Option<&Path>) -> Command {
    let Some(stats) = stats else {
        let mut command = Command::new("java");
        command.args(HEAP).stdin(Stdio::null());
        return command;
    };
    fs::write(stats, "").unwrap();
    let mut command = run(&["--limit", &format!("{LIMIT_MIB}M"), "--stats-file"]);
    command.arg(stats).args(["--", "java"]).args(HEAP);
    command
}

/// Returns the paths of the libraries whose names contain one of `parts`.
fn libraries(suite: &Path, parts: &[&str]) -> String {
    let paths = fs::read_dir(suite.join("lib")).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<String> =
        paths.map(|path| path.into_os_string().into_string().unwrap()).collect();
    paths.retain(|path| parts.iter().any(|part| path.contains(part)));
    paths.sort();
    paths.join(":")
}

/// Asserts that the limit was kept or a message reports the excess. The function also asserts that
/// much memory was evicted.
fn keeps(stats: &Path, messages: &str) {
    let text = fs::read_to_string(stats).unwrap();
    let held = |line| serde_json::from_str::<Value>(line).unwrap()["tree_held_max"].as_u64();
    let most = text.lines().filter_map(held).max().unwrap() >> 20;
    let evicted = evicted(stats);
    eprintln!("java: at most {most} MiB of {LIMIT_MIB} MiB, {evicted} blocks evicted");
    let is_kept = most <= LIMIT_MIB + LIMIT_MIB / 10;
    assert!(is_kept || messages.contains("can't be kept"), "{most} MiB: {messages}");
    assert!(evicted > 1000, "{evicted}");
}

/// A process that is killed when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _ended = self.0.wait();
    }
}

/// Asserts that tools of the JDK show the state of a process. Returns the threads that the tools
/// list.
fn look(process: u32) -> String {
    let process = process.to_string();
    let size = format!("-XX:MaxHeapSize={HEAP_BYTES}");
    let mut threads = String::new();
    for (command, shown) in [
        (&["jcmd", &process, "GC.heap_info"][..], "tenured generation"),
        (&["jcmd", &process, "VM.flags"], size.as_str()),
        (&["jcmd", &process, "Thread.print"], "\"main\""),
        (&["jstack", &process], "Full thread dump"),
    ] {
        let patience = patience().as_secs().to_string();
        let ended = end(Command::new("timeout").args(["-k", "1", &patience]).args(command));
        assert!(ended.code == Some(0) && ended.out.contains(shown), "{command:?}: {ended:?}");
        threads = ended.out;
    }
    threads
}

/// Appends each line of `from` to `to` when the line arrives.
fn read(from: impl Read, to: &Mutex<String>) {
    for line in BufReader::new(from).lines() {
        *to.lock().unwrap() += &format!("{}\n", line.unwrap());
    }
}

#[test]
fn h2_under_load_answers_as_without() {
    let Some(suite) = suite("java") else { return };
    let dir = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/Load.java");
    let mut compiler = Command::new("javac");
    assert!(compiler.arg("-d").arg(dir.path()).arg(source).status().unwrap().success());
    let path = format!("{}:{}", dir.path().display(), libraries(&suite, &["h2-"]));
    let program = ["-cp", path.as_str(), "Load", ROWS, THREADS];
    let without = end(java(None).args(program));
    assert_eq!(without.code, Some(0), "{without:?}");

    let stats = dir.path().join("stats");
    let mut with = java(Some(&stats));
    with.args(program).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let [out, errors] = [Mutex::new(String::new()), Mutex::new(String::new())];
    let status = thread::scope(|scope| {
        // If a check fails, dropping this value kills the process. The threads that read its output
        // then end too.
        let mut running = Running(with.spawn().unwrap());
        let (process, input) = (running.0.id(), running.0.stdin.take());
        let (stdout, stderr) = (running.0.stdout.take(), running.0.stderr.take());
        scope.spawn(|| read(stdout.unwrap(), &out));
        scope.spawn(|| read(stderr.unwrap(), &errors));
        let has = |line: &str| out.lock().unwrap().contains(line);
        let mut is_over = || running.0.try_wait().unwrap().is_some();
        until("the load begins", || has("begun\n") || is_over());
        while !has("loaded\n") && !is_over() {
            look(process);
        }
        if !is_over() {
            let threads = look(process);
            for nth in 0..THREADS.parse().unwrap() {
                assert!(threads.contains(&format!("\"load-{nth}\"")), "{threads}");
            }
        }
        drop(input);
        until("the load ends", is_over);
        running.0.wait().unwrap()
    });
    let errors = errors.into_inner().unwrap();
    assert!(status.success(), "{status}: {errors}");
    assert_eq!(out.into_inner().unwrap(), without.out);
    keeps(&stats, &errors);
}

/// Runs the tests of a library. Returns the result of each test, and the messages on standard
/// error.
fn tests(suite: &Path, stats: Option<&Path>, place: &Path) -> (BTreeMap<String, bool>, String) {
    let reports = place.join("reports");
    let mut command = java(stats);
    let parts = ["commons-lang3", "hamcrest", "easymock", "objenesis", "pioneer", "jsr305"];
    command.arg("-jar").arg(libraries(suite, &["console-standalone"]));
    command.args(["--class-path", &libraries(suite, &parts)]);
    command.args(["--scan-class-path", &libraries(suite, &["-tests.jar"])]);
    for package in PACKAGES {
        command.arg(format!("--include-package=org.apache.commons.lang3.{package}"));
    }
    command.args(["--details=none", "--reports-dir"]).arg(&reports).current_dir(place);
    let ended = end(&mut command);
    let text = fs::read_to_string(reports.join("TEST-junit-jupiter.xml"));
    let text = text.unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    // A test has the form `<testcase name="test()" classname="org..." time="0.1">`. If the test
    // failed, `<failure ...` follows.
    let each = text.split("<testcase ").skip(1).map(|part| {
        let name = part.split(" time=").next().unwrap().to_owned();
        (name, !part.contains("<failure") && !part.contains("<error"))
    });
    let ends: BTreeMap<_, _> = each.collect();
    assert!(ends.len() > 100, "{ended:?}");
    (ends, ended.err)
}

#[test]
fn a_java_library_ends_its_own_tests_as_it_does_without() {
    let Some(suite) = suite("java") else { return };
    let dir = tempfile::tempdir().unwrap();
    let stats = dir.path().join("stats");
    let (mut missing, _) = tests(&suite, None, dir.path());
    let count = missing.len();
    // Some results depend on timing, so each test must pass in at least one of three runs.
    for _ in 0..3 {
        let (ends, messages) = tests(&suite, Some(&stats), dir.path());
        keeps(&stats, &messages);
        missing.retain(|name, passes| *passes && ends.get(name) != Some(&true));
        if missing.is_empty() {
            break;
        }
    }
    assert!(missing.is_empty(), "of {count}: {missing:?}");
    eprintln!("java: {count} tests of commons-lang3");
}
