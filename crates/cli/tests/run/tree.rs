//! Tests that all processes of a program together stay within the limit.

use crate::programs::Programs;
use crate::run;
use crate::support::{Ended, UZRAM, end, until};
use measure::memory::bytes;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;
use testkit::INCLUDED;

const MIB: u64 = 1 << 20;

struct Tree {
    programs: Programs,
    program: String,
}

/// The result of a program with the statistics of its processes.
struct Told {
    ended: Ended,
    processes: Vec<Value>,
    held_max: u64,
}

impl Told {
    fn sum(&self, name: &str) -> u64 {
        self.processes.iter().map(|process| process[name].as_u64().unwrap()).sum()
    }
}

pub fn compiled(programs: &Programs, name: &str, flags: &[&str]) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run/tree.c");
    let program = programs.path().join(name);
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-Wall", "-Werror", "-I", INCLUDED, "-o"])
        .arg(&program)
        .arg(source)
        .args(flags);
    assert!(gcc.status().expect("gcc").success());
    program.to_str().unwrap().to_owned()
}

impl Tree {
    fn new() -> Self {
        let programs = Programs::new();
        let program = compiled(&programs, "tree", &[]);
        Tree { programs, program }
    }

    fn stats(&self) -> PathBuf {
        self.programs.path().join("stats")
    }

    /// Returns the command that runs the program with this limit. The program's processes write
    /// their statistics.
    fn command(&self, limit: &str, args: &[&str]) -> Command {
        let mut command = run(&["--limit", limit, "--stats", "--json", "--stats-file"]);
        command.arg(self.stats()).arg("--").arg(&self.program).args(args);
        command
    }

    fn lines(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.stats()).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Runs the program until it ends.
    fn told(&self, limit: &str, args: &[&str]) -> Told {
        let ended = end(&mut self.command(limit, args));
        assert_eq!((ended.code, ended.out.as_str()), (Some(0), ""), "{args:?}: {ended:?}");
        let at = ended.err.find('{').unwrap_or_else(|| panic!("{ended:?}"));
        let figures: Value = serde_json::from_str(&ended.err[at..]).unwrap();
        let held_max = figures["tree_held_max"].as_u64().unwrap();
        let processes = figures["processes"].as_array().unwrap().clone();
        assert!(processes.iter().all(|process| process["in_tree"] == 1), "{processes:?}");
        Told { ended, processes, held_max }
    }

    /// Waits until `processes` processes have written their lines. Some processes can end after the
    /// first process.
    fn until_told(&self, processes: usize) -> Vec<Value> {
        until("all have ended", || self.lines().len() == processes);
        self.lines()
    }
}

/// Returns the sum of one of the kernel's memory statistics over the processes of a session.
fn seen(session: u32, name: &str) -> u64 {
    let of = |path: PathBuf| {
        let stat = fs::read_to_string(path.join("stat")).ok()?;
        let number = stat.rsplit(") ").next()?.split(' ').nth(3)?.parse::<u32>().ok()?;
        let rollup = (number == session).then(|| fs::read_to_string(path.join("smaps_rollup")))?;
        bytes(&rollup.ok()?, name)
    };
    let entries = fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| of(entry.unwrap().path())).sum::<u64>()
}

struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}

/// Returns the maximum memory of a program. Two consecutive samples must have reached this value.
/// The program's first process begins a session. All processes are stopped during a sample.
/// Otherwise memory could move to a process that is sampled later, and be counted twice.
fn most_seen(command: &Command, name: &str) -> u64 {
    let mut own = Command::new("setsid");
    own.arg(UZRAM).args(command.get_args());
    let mut child = Ends(own.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let (mut most, mut before, session) = (0, 0, Pid::from_child(&child.0));
    loop {
        if let Some(status) = child.0.try_wait().unwrap() {
            assert!(status.success(), "{status}");
            return most;
        }
        // The process group does not exist before the first process has created it.
        let send = |signal| _ = kill_process_group(session, signal);
        send(Signal::STOP);
        let now = seen(child.0.id(), name);
        send(Signal::CONT);
        most = most.max(now.min(before));
        before = now;
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn three_children_at_once_keep_one_limit() {
    let tree = Tree::new();
    let most = most_seen(&tree.command("64M", &["three", "38"]), "Anonymous");
    println!("at most {most}");
    assert!(most > 40 * MIB && most <= 64 * MIB + 64 * MIB / 10, "{most}");
    let lines = tree.lines();
    assert_eq!(lines.len(), 4);
    // Several processes evict, but perhaps not all of them. A process evicts at a fault. A process
    // that has written all of its memory can end before its next fault.
    let evicted = |line: &Value| line["evicted"].as_u64().unwrap();
    assert!(lines.iter().filter(|line| evicted(line) > 1000).count() >= 2, "{lines:?}");
}

/// Children that overwrite inherited memory make no system calls, and need no new blocks.
#[test]
fn children_that_overwrite_what_they_inherit_keep_the_limit() {
    let tree = Tree::new();
    let most = most_seen(&tree.command("64M", &["overwrite", "40"]), "Pss_Anon");
    println!("at most {most}");
    assert!(most > 50 * MIB && most <= 64 * MIB + 64 * MIB / 10, "{most}");
    let lines = tree.lines();
    assert!(lines.len() == 4 && lines.iter().all(|line| line["evicted"].as_u64() > Some(1000)));
}

#[test]
fn closing_all_descriptors_changes_nothing() {
    let tree = Tree::new();
    let told = tree.told("32M", &["close", "48"]);
    assert!(told.sum("evicted") > 4000 && told.held_max < 36 * MIB, "{}", told.held_max);
    assert_eq!(told.processes.len(), 1);
}

#[test]
fn processes_that_outlive_their_parents_keep_the_limit() {
    for mode in ["orphan", "daemon"] {
        let tree = Tree::new();
        let mut command = tree.command("32M", &[mode, "48"]);
        let ended = end(command.stdout(Stdio::null()).stderr(Stdio::null()));
        assert_eq!(ended.code, Some(0), "{mode}");
        let lines = tree.until_told(if mode == "orphan" { 2 } else { 3 });
        assert!(lines.iter().all(|line| line["in_tree"] == 1), "{mode}: {lines:?}");
        let last = lines.last().unwrap();
        assert!(last["evicted"].as_u64().unwrap() > 2000, "{mode}: {lines:?}");
        assert!(last["tree_held_max"].as_u64().unwrap() < 36 * MIB, "{mode}: {lines:?}");
    }
}

#[test]
fn a_static_program_in_between_is_passed_over() {
    let tree = Tree::new();
    let between = compiled(&tree.programs, "static", &["-static"]);
    // A child executes the static program, and the parent holds the shared descriptor.
    let line = format!("{between} static 4 {}; true", tree.program);
    let options = ["--limit", "32M", "--stats", "--json", "--", "sh", "-c", &line];
    let ended = end(&mut run(&options));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let figures: Value = serde_json::from_str(&ended.err).unwrap();
    let processes = figures["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 2, "{figures}");
    assert!(processes.iter().all(|process| process["in_tree"] == 1), "{figures}");
}

#[test]
fn a_parent_that_waits_gives_room_to_its_child() {
    let told = Tree::new().told("64M", &["idle", "50"]);
    println!("{:?}", told.processes);
    let evicted = |of: &Value| of["evicted"].as_u64().unwrap() << 12;
    // The child ends before its parent.
    let [child, parent] = &told.processes[..] else { panic!("{:?}", told.processes) };
    assert!(evicted(parent) > 12 * MIB, "{parent}");
    assert!(child["held_max"].as_u64().unwrap() > 24 * MIB, "{child}");
    assert!(told.held_max < 70 * MIB, "{}", told.held_max);
}

#[test]
fn what_a_killed_process_held_is_free() {
    let told = Tree::new().told("64M", &["kill", "36"]);
    assert_eq!(told.sum("evicted"), 0, "{:?}", told.processes);
    assert!(told.held_max > 36 * MIB && told.held_max < 66 * MIB, "{}", told.held_max);
}

#[test]
fn a_process_has_one_place_whatever_it_executes() {
    let told = Tree::new().told("64M", &["exec", "12"]);
    assert!(told.held_max < 20 * MIB, "{}", told.held_max);
    let told = Tree::new().told("64M", &["children"]);
    assert_eq!(told.processes.len(), 21);
    assert!(told.held_max < 30 * MIB, "{}", told.held_max);
}

#[test]
fn what_a_process_did_before_it_executed_a_program_is_told() {
    let told = Tree::new().told("32M", &["leave", "48"]);
    let same = Tree::new().told("32M", &["hold", "48"]);
    let [child, process] = &told.processes[..] else { panic!("{:?}", told.processes) };
    let of = |line: &Value, name: &str| line[name].as_u64().unwrap();
    // The statistics are counted once, although an earlier `execve` failed.
    for name in ["evicted", "filled", "faults", "first_touches"] {
        let (first, alone) = (of(process, name), same.sum(name));
        assert!(first > 500 && first.abs_diff(alone) < alone / 2, "{name}: {process}, {alone}");
        assert!(of(child, name) < 100, "{name}: {child}");
    }
    for name in ["held_max", "resident_max", "stored_max"] {
        assert!(of(process, name) > 16 * MIB, "{name}: {process}");
    }
    assert!(of(process, "held") < 8 * MIB && of(process, "resident") < 8 * MIB, "{process}");
    assert!(process["ratio"].as_f64().unwrap() > 1.0, "{process}");
}

/// Three processes share data that take 30 MiB when compressed.
#[test]
fn what_is_compressed_and_shared_counts_once() {
    let told = Tree::new().told("76M", &["share", "120"]);
    assert!(!told.ended.err.contains("can't be kept"), "{}", told.ended.err);
    assert_eq!(told.processes.len(), 3);
    assert!(told.sum("compressed_max") > 70 * MIB, "{:?}", told.processes);
}

#[test]
fn a_limit_that_can_not_be_kept_is_told_once() {
    let told = Tree::new().told("4M", &["hold", "60"]);
    let lines: Vec<&str> = told.ended.err.lines().filter(|line| line.contains("--limit")).collect();
    assert_eq!(lines.len(), 1, "{}", told.ended.err);
    assert!(lines[0].starts_with("uzram run: the limit of 4096 KiB can't be kept"), "{lines:?}");
    assert!(told.held_max > 4 * MIB, "{}", told.held_max);
    let kept = Tree::new().told("32M", &["hold", "60"]);
    assert!(!kept.ended.err.contains("can't be kept"), "{}", kept.ended.err);
}

/// A process that only computes evicts nothing while its child needs room.
#[test]
fn a_limit_that_was_exceeded_for_a_time_is_reported_at_the_end() {
    let told = Tree::new().told("32M", &["exceed", "22"]);
    assert_eq!(told.ended.code, Some(0), "{:?}", told.ended);
    let lines: Vec<&str> = told.ended.err.lines().filter(|line| line.contains("limit")).collect();
    let begin = "uzram run: the limit of 32768 KiB was exceeded for a time: all processes together \
        held ";
    let rest = lines[0].strip_prefix(begin).unwrap_or_else(|| panic!("{lines:?}"));
    let held: u64 = rest.split(' ').next().unwrap().parse().unwrap();
    assert!((34 << 10..80 << 10).contains(&held) && rest.contains(" (tree) held "), "{lines:?}");
    assert!(!told.ended.err.contains("can't be kept"), "{}", told.ended.err);
}

/// The message names the process that holds the most memory, and the kinds of its memory.
#[test]
fn a_limit_that_can_not_be_kept_is_explained() {
    let of = |mode, mib, kind: &str| {
        let ended = Tree::new().told("20M", &[mode, mib]).ended;
        let line = ended.err.lines().find(|line| line.contains("can't be kept"));
        let line = line.unwrap_or_else(|| panic!("{mode}: {ended:?}"));
        let (_, named) = line.split_once("Process ").unwrap();
        let (_, named) = named.split_once(" (tree) holds ").unwrap();
        let (all, kinds) = named.split_once(" KiB of it: ").unwrap();
        let (kinds, _) = kinds.split_once(". The program").unwrap();
        let kinds: Vec<(u64, &str)> = kinds
            .split(", ")
            .map(|kind| kind.split_once(" KiB ").unwrap())
            .map(|(kib, name)| (kib.parse().unwrap(), name))
            .collect();
        let (kib, first) = kinds[0];
        assert!(kib > 10 << 10 && first.starts_with(kind), "{mode}: {line}");
        // Each number is rounded down, so the sum of the numbers may be smaller than the total.
        let (all, sum) = (all.parse::<u64>().unwrap(), kinds.iter().map(|(kib, _)| kib).sum());
        assert!((0..10).contains(&all.wrapping_sub(sum)), "{mode}, in all {sum}: {line}");
    };
    of("lock", "40", "locked");
    of("shm", "40", "shared memory");
    of("hold", "120", "compressed");
}

/// Shared memory is counted once, not once for each process that maps it.
#[test]
fn shared_memory_counts_once() {
    let told = Tree::new().told("200M", &["shm", "40"]);
    assert_eq!((told.ended.code, told.processes.len()), (Some(0), 3), "{:?}", told.ended);
    let held_max = told.held_max;
    assert!((40 * MIB..60 * MIB).contains(&held_max), "{held_max}");
}

/// If a program's standard error is redirected, the redirected output contains no line of the
/// runtime. A shell writes the line when it ends, because its standard error is the command's.
#[test]
fn that_it_can_not_be_kept_is_told_where_the_command_says_what_it_says() {
    let tree = Tree::new();
    let said = |script: &str| {
        let script = script.replace("HOLD", &format!("{} hold 60", tree.program));
        let ended = end(run(&["--limit", "4M", "--", "sh", "-c"]).arg(&script));
        let said = (ended.code, ended.out.as_str(), ended.err.matches("can't be kept").count());
        assert_eq!(said, (Some(0), "", 1), "{script}: {ended:?}");
    };
    said("HOLD");
    said("HOLD 2>&1 | cat");
    said("HOLD 2>/dev/null; HOLD 2>&-");
    let file = tree.programs.path().join("errors");
    said(&format!("HOLD 2>{0}; cat {0}", file.display()));
}
