//! Tests how `uzram run` starts and ends programs.

#![allow(clippy::unwrap_used, reason = "tests")]
#![cfg(target_arch = "x86_64")]

mod databases;
mod debuggers;
mod figures;
mod injected;
mod java;
mod large;
mod linkages;
mod live;
mod programs;
mod random_limits;
mod refusals;
mod rights;
mod sandboxes;
mod signals;
mod suites;
#[path = "../support/mod.rs"]
mod support;
mod tree;

use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use support::{Ended, UZRAM, end};
use testkit::cgroup::Group;

/// Returns the command `uzram run` with these options.
fn run(options: &[&str]) -> Command {
    let mut command = Command::new(UZRAM);
    command.arg("run").args(options).stdin(Stdio::null());
    command
}

/// The ways to run a program: in place of the command, as a child of the command, and by a host
/// that maps the program.
const WAYS: [&[&str]; 3] = [
    &["--limit", "32M", "--"],
    &["--limit", "32M", "--stats", "--"],
    &["--limit", "32M", "--no-inject", "--"],
];

fn end_of(options: &[&str], program: &[&str]) -> Ended {
    end(run(options).args(program))
}

#[test]
fn it_ends_as_the_program_does() {
    for way in WAYS {
        for (program, code) in
            [(&["true"][..], 0), (&["false"], 1), (&["sh", "-c", "exit 7"], 7), (&["/bin/true"], 0)]
        {
            let ended = end_of(way, program);
            assert_eq!((ended.code, ended.out.as_str()), (Some(code), ""), "{program:?} {ended:?}");
        }
    }
    let killed = ["sh", "-c", "kill -9 $$"];
    let output = run(WAYS[0]).args(killed).output().unwrap();
    assert_eq!((output.status.signal(), &output.stderr[..]), (Some(9), &b""[..]), "{output:?}");
    let ended = end_of(WAYS[1], &killed);
    assert!(ended.code == Some(137) && ended.err.contains(" sh (killed) "), "{ended:?}");
}

#[test]
fn arguments_reach_the_program_as_they_are() {
    for way in WAYS {
        let ended = end_of(way, &["printf", "<%s>", "--stats", "--", "", "a b"]);
        assert_eq!(ended.out, "<--stats><--><><a b>", "{ended:?}");
        // The program's argument 0 is the name that was passed to the command.
        let ended = end_of(way, &["sh", "-c", "tr '\\0' ' ' < /proc/$$/cmdline"]);
        assert!(ended.out.starts_with("sh -c tr"), "{ended:?}");
    }
    // Without `--`, arguments after the program's name belong to the program, even if they begin
    // with a hyphen.
    let ended = end_of(&["--limit", "32M"], &["printf", "%s", "--limit", "--", "5X"]);
    assert_eq!((ended.out.as_str(), ended.code), ("--limit--5X", Some(0)), "{ended:?}");
    // The name by which `uzram` was started has no effect.
    let ended = end(run(WAYS[0]).arg0("uzram").args(["echo", "is there"]));
    assert_eq!(ended.out, "is there\n", "{ended:?}");
}

/// The environment of the program, and of programs that it executes, gets no additional library or
/// settings.
#[test]
fn the_environment_stays_as_it_was() {
    let line = "env | grep -v ^_= | sort; env -i env; sh -c 'env | grep -v ^_= | sort'";
    let shown = |command: &mut Command| end(command.args(["sh", "-c", line]).env("ONE", "1")).out;
    let expected = shown(&mut Command::new("env"));
    assert!(expected.contains("ONE=1"), "{expected}");
    for way in WAYS {
        assert_eq!(shown(&mut run(way)), expected);
    }
}

/// The environment can specify a library that replaces functions of the C library, such as
/// fakeroot's library. That library is still loaded.
#[test]
fn libraries_that_the_environment_names_are_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let (source, other) = (dir.path().join("other.c"), dir.path().join("other.so"));
    let text = "#include <dlfcn.h>\n#include <sys/types.h>\n\
        ssize_t read(int fd, void *to, size_t bytes) {\n\
          ssize_t (*next)(int, void *, size_t) = dlsym((void *)-1l, \"read\");\n\
          ssize_t got = next(fd, to, bytes);\n\
          for (ssize_t nth = 0; fd == 0 && nth < got; nth++) ((char *)to)[nth] ^= 0x20;\n\
          return got;\n\
        }\n";
    fs::write(&source, text).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-shared", "-fPIC", "-o"]).args([&other, &source]);
    assert!(gcc.status().unwrap().success());
    for way in WAYS {
        let mut command = run(way);
        command.env("LD_PRELOAD", &other).arg("cat");
        command.stdin(File::open("/proc/sys/kernel/ostype").unwrap());
        let ended = end(&mut command);
        assert_eq!((ended.out.as_str(), ended.code), ("lINUX*", Some(0)), "{ended:?}");
    }
}

#[test]
fn programs_that_are_executed_can_be_left_as_they_are() {
    let hosts = "grep -c uzram-host /proc/$$/maps";
    let show = format!("{hosts}; sh -c '{hosts}'; env -i sh -c '{hosts}'");
    let options = ["--limit", "32M", "--first-only", "--stats", "--json", "--"];
    let ended = end_of(&options, &["sh", "-c", &show]);
    let lines: Vec<&str> = ended.out.lines().collect();
    assert!(lines[0].parse::<u32>().unwrap() > 0, "{ended:?}");
    assert_eq!(lines[1..], ["0", "0"], "{ended:?}");
    let from = ended.err.find('{').unwrap();
    let told: serde_json::Value = serde_json::from_str(&ended.err[from..]).unwrap();
    assert_eq!(told["processes"].as_array().unwrap().len(), 1, "{told}");
}

#[test]
fn ignored_signals_stay_so() {
    let show = "grep SigIgn /proc/$$/status";
    for ignored in ["", "trap '' PIPE;", "trap '' HUP INT TERM;"] {
        let of = |way: &[&str]| {
            let line = format!("{ignored} exec \"$@\"");
            let mut command = Command::new("sh");
            command.args(["-c", &line, "sh"]).args(way).args(["sh", "-c", show]);
            end(&mut command).out
        };
        let expected = of(&[]);
        assert!(expected.contains("SigIgn"));
        for way in WAYS {
            assert_eq!(of(&[&[UZRAM, "run"], way].concat()), expected, "{ignored} {way:?}");
        }
    }
}

#[test]
fn a_percentage_is_one_of_the_cgroups_limit() {
    let Some(group) = Group::new("run", 200 << 20) else {
        eprintln!("left out, as no memory cgroup may be made here");
        return;
    };
    for (limit, bytes) in
        [(&[][..], (200 << 20) / 100 * 85), (&["--limit", "50%"], (200 << 20) / 100 * 50)]
    {
        let mut command = Command::new("sh");
        command.args(["-c", &group.enter(), "sh", UZRAM, "run"]).args(limit);
        let stat = format!("{UZRAM} stat --json $$");
        let ended = end(command.args(["--", "sh", "-c", &stat]));
        assert!(ended.out.contains(&format!("\"limit\": {bytes},")), "{ended:?}");
    }
}
