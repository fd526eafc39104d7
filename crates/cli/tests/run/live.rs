//! Tests `uzram stat PID`, which shows the memory and the activity of a running program.

use crate::programs::Programs;
use crate::run;
use crate::support::metrics::lint;
use crate::support::{Ended, UZRAM, end, until};
use crate::tree::compiled;
use fastrand::Rng;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;
use std::fs::{File, Permissions, copy, set_permissions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};

const NOBODY: u32 = 65534;

/// A running program that ends when its standard input ends.
struct Running {
    command: Child,
    input: Option<ChildStdin>,
    /// The first line of the program's output.
    line: String,
}

impl Running {
    fn new(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut command = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(command.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let input = command.stdin.take();
        Running { command, input, line }
    }

    fn numbers(&self) -> Vec<u32> {
        self.line.split_whitespace().map(|number| number.parse().unwrap()).collect()
    }

    fn end(&mut self) {
        drop(self.input.take());
        self.command.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

fn stat(process: u32, options: &[&str]) -> Ended {
    end(Command::new(UZRAM).arg("stat").args(options).arg(process.to_string()))
}

fn json(process: u32) -> Value {
    let ended = stat(process, &["--json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    serde_json::from_str(&ended.out).unwrap()
}

fn numbers(told: &Value) -> Vec<u32> {
    let processes = told["processes"].as_array().unwrap().iter();
    processes.map(|process| process["process"].as_u64().unwrap() as u32).collect()
}

#[test]
fn processes_are_shown_while_they_run() {
    let programs = Programs::new();
    let program = compiled(&programs, "tree", &[]);
    for options in [&["--limit", "32M", "--"][..], &["--limit", "32M", "--stats", "--"]] {
        let mut running = Running::new(run(options).args([&program, "stay", "40"]));
        let both = running.numbers();
        // The ID of either process or of the command selects both processes.
        for asked in [both[0], both[1], running.command.id()] {
            until("both have begun", || numbers(&json(asked)).len() == 2);
            let told = json(asked);
            assert_eq!(numbers(&told), both, "{told}");
            let [parent, child] = [0, 1].map(|nth| &told["processes"][nth]);
            let of = |line: &Value, name: &str| line[name].as_u64().unwrap();
            assert_eq!((&parent["name"], &child["name"]), (&"tree".into(), &"tree".into()));
            assert!(of(parent, "evicted") > 2000 && of(parent, "faults") > 100, "{told}");
            assert!(of(parent, "compressed") > 1 << 20 && of(parent, "calls") > 5, "{told}");
            assert!(of(child, "first_touches") < 100, "{told}");
            // Memory that the child shares with its parent is charged to the parent, so it is
            // counted once.
            assert!(of(child, "tree_held") > 1 << 20, "{told}");
            let sum = of(parent, "tree_held") + of(child, "tree_held");
            assert_eq!(of(&told["sum"], "tree_held"), sum, "{told}");
            assert!(of(&told, "tree_held_max") > 24 << 20, "{told}");
            assert!(told["is_short"].is_boolean() && of(parent, "limit") == 32 << 20, "{told}");
        }
        let table = stat(both[1], &[]).out;
        assert_eq!(table.lines().count(), 6, "{table}");
        for part in
            ["process", "name", "resident", " tree ", "\n    all ", " of 32.0 MiB, at most "]
        {
            assert!(table.contains(part), "{part}: {table}");
        }
        kill_process(Pid::from_raw(both[1] as i32).unwrap(), Signal::KILL).unwrap();
        until("the killed one is gone", || numbers(&json(both[0])) == both[..1]);
        running.end();
        let ended = stat(both[0], &[]);
        assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{ended:?}");
        assert!(ended.err.contains("there is none of this number"), "{ended:?}");
    }
}

#[test]
fn metrics_are_told_of_a_program_and_its_processes() {
    let programs = Programs::new();
    let program = compiled(&programs, "tree", &[]);
    let running = Running::new(run(&["--limit", "32M", "--"]).args([&program, "stay", "40"]));
    let both = running.numbers();
    until("both have begun", || numbers(&json(both[0])).len() == 2);
    let ended = stat(both[1], &["--prometheus"]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    lint(&ended.out);
    let value = |name: &str, labels: &str| {
        let start = format!("uzram_run_{name}{{{labels}program=\"{}\"}} ", both[1]);
        let line = ended.out.lines().find_map(|line| line.strip_prefix(&start));
        let value = line.unwrap_or_else(|| panic!("{start} is not in {}", ended.out));
        value.parse::<f64>().unwrap()
    };
    assert_eq!((value("processes", ""), value("limit_bytes", "")), (2.0, f64::from(32 << 20)));
    let of = |nth: usize| format!("name=\"tree\",process=\"{}\",", both[nth]);
    assert!(value("evicted_blocks_total", &of(0)) > 2000.0, "{}", ended.out);
    assert!(value("compressed_bytes", &of(0)) > f64::from(1 << 20), "{}", ended.out);
    let held = value("held_bytes", &of(0)) + value("held_bytes", &of(1));
    assert_eq!(value("program_held_bytes", ""), held, "{}", ended.out);
    let wrong = stat(both[0], &["--prometheus", "--watch"]);
    assert_eq!((wrong.code, wrong.out.as_str()), (Some(2), ""), "{wrong:?}");
}

/// Starts `uzram stat --watch` with these options.
fn watch(process: u32, options: &[&str]) -> Child {
    let mut command = Command::new(UZRAM);
    command.args(["stat", "--watch"]).args(options).arg(process.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_line_comes_every_second_until_the_program_ends() {
    let programs = Programs::new();
    let program = compiled(&programs, "tree", &[]);
    let mut running = Running::new(run(&["--limit", "32M", "--"]).args([&program, "stay", "40"]));
    let both = running.numbers();
    until("both have begun", || numbers(&json(both[0])).len() == 2);
    let [mut told, mut plain, mut interrupted] =
        [(0, &["--json"][..]), (1, &[]), (0, &[])].map(|(nth, options)| watch(both[nth], options));
    let mut lines = BufReader::new(told.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        let told: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(numbers(&told), both, "{told}");
        assert_eq!(told["sum"]["limit"], 32 << 20, "{told}");
    }
    let mut shown = BufReader::new(plain.stdout.take().unwrap()).lines();
    let head = shown.next().unwrap().unwrap();
    assert!(head.trim_start().starts_with("RESIDENT ") && head.ends_with("ROOM"), "{head}");
    let line = shown.next().unwrap().unwrap();
    let cells: Vec<_> = line.split_whitespace().collect();
    assert_eq!((cells.len(), cells[9]), (11, "2"), "{line}");
    let mut first = String::new();
    BufReader::new(interrupted.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
    kill_process(Pid::from_child(&interrupted), Signal::INT).unwrap();
    let ended = interrupted.wait_with_output().unwrap();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");

    // A program with several processes has not ended when one of its processes ends, even the
    // process whose ID was passed.
    kill_process(Pid::from_raw(both[1] as i32).unwrap(), Signal::KILL).unwrap();
    until("the killed one is told no more", || {
        let line = shown.next().unwrap().unwrap();
        line.split_whitespace().nth(9) == Some("1")
    });
    running.end();
    for ended in [told.wait_with_output().unwrap(), plain.wait_with_output().unwrap()] {
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(
            (ended.status.code(), said.as_str()),
            (Some(0), "uzram: the program has ended\n")
        );
    }
    let late = watch(both[0], &[]).wait_with_output().unwrap();
    let said = String::from_utf8(late.stderr).unwrap();
    assert!(late.status.code() == Some(1) && said.contains("none of this number"), "{said}");
}

#[test]
fn a_program_on_a_terminal_has_bars() {
    let running =
        Running::new(run(&["--limit", "32M", "--"]).args(["sh", "-c", "echo $$; read end"]));
    let line = format!("timeout -s INT 1 {UZRAM} stat --watch {}", running.numbers()[0]);
    let terminal = Command::new("script").args(["-qec", &line, "/dev/null"]).output().unwrap();
    let shown = String::from_utf8(terminal.stdout).unwrap();
    assert!(shown.contains("  [....") && shown.contains("LIMIT"), "{shown}");
}

#[test]
fn a_program_within_another_has_its_own_figures() {
    let line = format!("{UZRAM} run --limit 20M -- sh -c 'echo $PPID $$; read end'; true");
    let running = Running::new(run(&["--limit", "48M", "--"]).args(["sh", "-c", &line]));
    let both = running.numbers();
    for (asked, limit) in both.iter().zip([48 << 20, 20 << 20]) {
        let told = json(*asked);
        assert_eq!(told["sum"]["limit"].as_u64(), Some(limit), "{told}");
        assert!(numbers(&told).contains(asked), "{told}");
    }
}

#[test]
fn what_can_not_be_shown_is_told() {
    let running = Running::new(Command::new("sh").args(["-c", "echo $$; read end"]));
    let other = running.numbers()[0];
    for (args, code, part) in [
        (vec![other.to_string()], 1, "it is no process of a program"),
        (vec!["4194303".to_owned()], 1, "there is none of this number"),
        (vec!["0".to_owned()], 2, "expected the number of a process"),
        (vec!["-5".to_owned()], 2, "-5"),
        (vec!["x".to_owned()], 2, "expected the number of a process"),
        (vec!["4294967297".to_owned()], 2, "expected the number of a process"),
        (vec!["--control".to_owned(), "c".to_owned(), other.to_string()], 2, "--control"),
    ] {
        let ended = end(Command::new(UZRAM).arg("stat").args(&args));
        assert_eq!((ended.code, ended.out.as_str()), (Some(code), ""), "{args:?}: {ended:?}");
        assert!(ended.err.starts_with("uzram: ") && ended.err.contains(part), "{ended:?}");
        assert_eq!(ended.err.lines().count(), 1, "{ended:?}");
    }
}

#[test]
fn another_users_program_is_not_shown() {
    if !geteuid().is_root() {
        eprintln!("left out, as nobody else's processes can be made by this user");
        return;
    }
    let running =
        Running::new(run(&["--limit", "32M", "--"]).args(["sh", "-c", "echo $$; read end"]));
    let process = running.numbers()[0];
    assert_eq!(numbers(&json(process)), [process]);
    // Copies the command, so that every user is allowed to execute the copy.
    let dir = tempfile::tempdir().unwrap();
    set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let command = dir.path().join("uzram");
    copy(UZRAM, &command).unwrap();
    let mut asks = Command::new(command);
    let ended = end(asks.args(["stat", &process.to_string()]).uid(NOBODY).gid(NOBODY));
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{ended:?}");
    assert!(ended.err.contains("Permission denied") && ended.err.contains("ask as"), "{ended:?}");
}

#[test]
fn what_a_program_calls_itself_does_no_harm() {
    let line = "printf 'a\\033[31m' > /proc/$$/comm; echo $$; read end";
    let running = Running::new(run(&["--limit", "32M", "--"]).args(["sh", "-c", line]));
    let process = running.numbers()[0];
    assert_eq!(json(process)["processes"][0]["name"], "a\\u{1b}[31m");
    let table = stat(process, &[]).out;
    assert!(table.contains("a\\u{1b}[31m") && !table.contains('\x1b'), "{table:?}");
}

/// Starts a process with an open file that resembles the memory file that the processes of a
/// program under `uzram run` share.
fn with_file(name: &str, contents: &[u8], seals: SealFlags) -> Running {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(memfd_create(name, flags).unwrap());
    file.write_all(contents).unwrap();
    fcntl_add_seals(&file, seals).unwrap();
    let line = "echo $$; exec sleep 1000 <&2";
    let mut command = Command::new("sh");
    command.args(["-c", line]).stdout(Stdio::piped()).stderr(file);
    let mut command = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(command.stdout.take().unwrap()).read_line(&mut line).unwrap();
    Running { command, input: None, line }
}

#[test]
fn a_file_that_says_anything_is_read() {
    const ALL: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);
    let mut rng = Rng::with_seed(testkit::seed(1));
    let asked = |name: &str, contents: &[u8], seals| {
        let mut running = with_file(name, contents, seals);
        let process = running.numbers()[0];
        let ended = [&[][..], &["--json"], &["--prometheus"]].map(|how| stat(process, how));
        running.command.kill().unwrap();
        ended
    };
    let mut words = vec![0_u64; procgroup::GroupSnapshot::BYTES / 8];
    let bytes =
        |words: &[u64]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>();
    let [table, ..] = asked("uzram-run", &bytes(&words), ALL);
    assert_eq!(table.out, "no process has begun, or all have ended\n", "{table:?}");
    words[0] = u64::from_le_bytes(*b"uzramtr9");
    for nth in 0..12 {
        words[1..].fill_with(|| rng.u64(..) >> rng.u32(..64));
        // Sets the number of used slots to 5, or to more than exist.
        words[2] = if nth % 2 == 0 { 5 } else { u64::MAX };
        for slot in 0..510 {
            words[16 + 16 * slot] = rng.u64(1..100_000) * rng.u64(..2).max((slot == 0).into());
            words[16 + 16 * 510 + 64 * slot] = words[16 + 16 * slot];
        }
        let [table, told, metrics] = asked("uzram-run", &bytes(&words), ALL);
        lint(&metrics.out);
        assert!(table.code == Some(0) && table.out.contains("together "), "{table:?}");
        let told: Value = serde_json::from_str(&told.out).unwrap();
        assert!(numbers(&told).len() <= if nth % 2 == 0 { 5 } else { 510 });
    }
    words[0] += 1;
    let whole = bytes(&words);
    let short = &whole[..whole.len() - 8];
    for (name, contents, seals) in [
        ("uzram-run", &whole[..], ALL),
        ("uzram-run", short, ALL),
        ("uzram-run", &[], ALL),
        ("uzram-run", &whole[..], SealFlags::GROW),
        ("uzram-ran", &whole[..], ALL),
    ] {
        let [table, told, metrics] = asked(name, contents, seals);
        assert_eq!([table.code, told.code, metrics.code], [Some(1); 3], "{name}: {table:?}");
        assert!(table.err.contains("it is no process of a program"), "{table:?}");
    }
}
