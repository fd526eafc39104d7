//! Checks that the test suites of programs have the same results with `uzram run` as natively.
//! `tools/suites.sh` fetches the suites, and `make long` runs them.

use super::UZRAM;
use crate::programs::Programs;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::is_long;

/// The units of redis's test suite. The units for clusters, modules and TLS need software that is
/// not installed.
const UNITS: &[&str] = &[
    "unit/dump",
    "unit/auth",
    "unit/protocol",
    "unit/keyspace",
    "unit/scan",
    "unit/info",
    "unit/type/string",
    "unit/type/incr",
    "unit/type/list",
    "unit/type/list-2",
    "unit/type/list-3",
    "unit/type/set",
    "unit/type/zset",
    "unit/type/hash",
    "unit/type/stream",
    "unit/type/stream-cgroups",
    "unit/sort",
    "unit/expire",
    "unit/other",
    "unit/multi",
    "unit/aofrw",
    "unit/acl",
    "unit/latency-monitor",
    "unit/pubsub",
    "unit/slowlog",
    "unit/scripting",
    "unit/functions",
    "unit/introspection",
    "unit/introspection-2",
    "unit/limits",
    "unit/bitops",
    "unit/bitfield",
    "unit/geo",
    "unit/hyperloglog",
    "unit/lazyfree",
    "unit/pause",
    "unit/querybuf",
    "unit/tracking",
    "unit/networking",
    "unit/replybufsize",
    "integration/aof",
    "integration/rdb",
    "integration/redis-cli",
    "integration/redis-benchmark",
    "integration/convert-ziplist-hash-on-load",
];
/// The limit of redis. Even a server without data needs more memory than this limit.
const LIMIT: &str = "5M";

/// Runs every NODE_STEPth test of node, in the order of the tests' names.
const NODE_STEP: usize = 24;
/// The limit of node's tests. Most of the tests need more memory, so a line reports that the limit
/// can't be kept.
const NODE_LIMIT: &str = "10M";

/// Packages of Go's distribution. For each package: a limit below the memory of its tests, and a
/// minimum number of evicted blocks.
const GO: [(&str, &str, u64); 6] = [
    ("sync", "20M", 0),
    ("syscall", "20M", 0),
    ("os/exec", "20M", 0),
    ("os/signal", "20M", 0),
    ("net", "20M", 0),
    ("runtime", "60M", 1_000),
];

/// Returns the folder of a program's test suite. Returns `None` if the suite was not fetched or
/// long tests do not run.
pub fn suite(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/suites").join(name);
    if !is_long() || !path.exists() {
        eprintln!("LEFT OUT: {name}'s own tests, which `make long` runs");
        return None;
    }
    Some(path.canonicalize().unwrap())
}

/// Returns the number of evicted blocks, summed over the lines that processes wrote when they
/// ended.
pub fn evicted(stats: &Path) -> u64 {
    let text = fs::read_to_string(stats).unwrap();
    let of = |line| serde_json::from_str::<Value>(line).unwrap()["evicted"].as_u64().unwrap();
    text.lines().map(of).sum()
}

/// Runs units of redis's test suite with a server that the command `server` starts. Returns how
/// often each result occurred.
fn redis(suite: &Path, server: &str, units: &[&str]) -> BTreeMap<String, usize> {
    let place = Programs::new();
    fs::create_dir(place.path().join("src")).unwrap();
    place.file("src/redis-server", format!("#!/bin/sh\n{server} \"$@\"\n").as_bytes(), 0o755);
    for name in ["redis-cli", "redis-benchmark", "redis-check-aof", "redis-check-rdb"] {
        symlink(Path::new("/usr/bin").join(name), place.path().join("src").join(name)).unwrap();
    }
    let mut copy = Command::new("cp");
    copy.arg("-r").arg(suite.join("tests")).arg(place.path());
    assert!(copy.status().unwrap().success());
    let mut tests = Command::new("tclsh");
    tests.args(["tests/test_helper.tcl", "--clients", "2"]).env("TERM", "dumb");
    units.iter().for_each(|unit| _ = tests.args(["--single", unit]));
    let output = tests.current_dir(place.path()).output().expect("tclsh");
    let told = String::from_utf8_lossy(&output.stdout);
    let mut ends = BTreeMap::new();
    for line in told.lines().filter(|line| line.starts_with('[')) {
        // A line has the form `[ok]: A name (12 ms)`. The time varies between runs, so it is cut
        // off.
        let is_end = ["[ok]", "[err]", "[exception]"].iter().any(|end| line.starts_with(end));
        if is_end {
            let named = line.rsplit_once(" (").map_or(line, |(named, _)| named);
            *ends.entry(named.split(" in tests/").next().unwrap().to_owned()).or_insert(0) += 1;
        }
    }
    assert!(!ends.is_empty(), "{told}");
    ends
}

#[test]
fn redis_ends_its_own_tests_as_it_does_without() {
    let Some(suite) = suite("redis") else { return };
    let dir = tempfile::tempdir().unwrap();
    let stats = dir.path().join("stats");
    fs::write(&stats, "").unwrap();
    let run = format!("exec {UZRAM} run --limit {LIMIT} --stats-file {}", stats.display());
    let without = "exec /usr/bin/redis-server".to_owned();
    let with = format!("{run} -- /usr/bin/redis-server");
    let before = redis(&suite, &without, UNITS);
    let after = redis(&suite, &with, UNITS);
    assert_eq!(before, after);
    let evicted = evicted(&stats);
    eprintln!("redis: {} tests, {evicted} blocks went", before.values().sum::<usize>());
    assert!(evicted > 100_000, "{evicted}");
}

/// Runs one of node's tests by `program`. `text` is the source of the test. Returns the exit code.
fn node(program: &[&str], test: &Path, text: &str, place: &Path) -> Option<i32> {
    let flags = text.lines().find_map(|line| line.strip_prefix("// Flags: ")).unwrap_or_default();
    let mut command = Command::new("timeout");
    command.args(["-k", "1", "100"]).args(program).arg("node").args(flags.split_whitespace());
    command.arg(test).env("NODE_TEST_DIR", place).env_remove("NODE_OPTIONS");
    command.current_dir(place).output().expect("timeout").status.code()
}

#[test]
fn node_ends_its_own_tests_as_it_does_without() {
    let Some(suite) = suite("nodejs") else { return };
    let dir = tempfile::tempdir().unwrap();
    let stats = dir.path().join("stats");
    fs::write(&stats, "").unwrap();
    let mut tests: Vec<_> = fs::read_dir(suite.join("test/parallel"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "js"))
        .collect();
    tests.sort();
    let run = [UZRAM, "run", "--limit", NODE_LIMIT, "--stats-file", stats.to_str().unwrap(), "--"];
    let mut ends = BTreeMap::new();
    for test in tests.iter().step_by(NODE_STEP) {
        let text = fs::read(test).unwrap();
        let text = String::from_utf8_lossy(&text);
        // Some results vary between runs, so the results must be equal in at least one of three
        // attempts.
        let both = (0..3)
            .map(|_| [&[][..], &run[..]].map(|program| node(program, test, &text, dir.path())))
            .find(|[without, with]| without == with);
        let [end, _] = both.unwrap_or_else(|| panic!("{} ends otherwise", test.display()));
        *ends.entry(end).or_insert(0) += 1;
    }
    let evicted = evicted(&stats);
    eprintln!("node: {ends:?} by exit code, {evicted} blocks went");
    assert!(evicted > 10_000, "{evicted}");
}

/// Runs the compiled tests of a Go package in the package's folder. Returns the result of each
/// test.
fn go(program: &[&str], tests: &Path, folder: &Path) -> BTreeMap<String, String> {
    let mut command = Command::new("timeout");
    command.args(["-k", "1", "900"]).args(program).arg(tests);
    command.args(["-test.short", "-test.v"]).current_dir(folder);
    let output = command.output().expect("timeout");
    let told = String::from_utf8_lossy(&output.stdout);
    let ends = told.lines().filter_map(|line| line.trim_start().strip_prefix("--- "));
    // A line has the form `PASS: TestName (0.01s)`.
    let ends: BTreeMap<_, _> = ends
        .filter_map(|end| end.split_once(": "))
        .map(|(end, name)| (name.split(" (").next().unwrap().to_owned(), end.to_owned()))
        .collect();
    assert!(!ends.is_empty(), "{output:?}");
    ends
}

#[test]
fn go_ends_its_own_tests_as_it_does_without() {
    let root = Command::new("go").args(["env", "GOROOT"]).output().ok();
    let root = root.map(|output| String::from_utf8(output.stdout).unwrap());
    let root = root.map(|root| PathBuf::from(root.trim_end()).join("src"));
    let Some(root) = root.filter(|root| is_long() && root.join("runtime/gc_test.go").exists())
    else {
        return eprintln!("LEFT OUT: Go's own tests, which `make long` runs if Go is installed");
    };
    let dir = tempfile::tempdir().unwrap();
    let stats = dir.path().join("stats");
    for (package, limit, least) in GO {
        fs::write(&stats, "").unwrap();
        let (tests, folder) = (dir.path().join("tests"), root.join(package));
        let mut compiler = Command::new("go");
        compiler.args(["test", "-c", "-o"]).arg(&tests).arg(package).current_dir(&root);
        assert!(compiler.env("GOCACHE", dir.path()).status().unwrap().success(), "{package}");
        let path = stats.to_str().unwrap();
        let run = [UZRAM, "run", "--limit", limit, "--stats-file", path, "--"];
        // Some results depend on timing, so each test must pass in at least one of three runs.
        let mut missing = go(&[], &tests, &folder);
        let count = missing.len();
        for _ in 0..3 {
            let ends = go(&run, &tests, &folder);
            missing.retain(|name, end| end == "PASS" && ends.get(name) != Some(end));
            if missing.is_empty() {
                break;
            }
        }
        assert!(missing.is_empty(), "{package}: {missing:?}");
        let evicted = evicted(&stats);
        eprintln!("go, {package}: {count} tests, {evicted} blocks went");
        assert!(evicted >= least, "{package}: {evicted}");
    }
}
