//! Tests programs into which a host (`uzram-host`) is injected. Neither the programs nor their
//! observers detect the host.

use crate::programs::Programs;
use crate::support::{UZRAM, end};
use crate::{WAYS, end_of, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};
use testkit::scaled;

/// Compiles a program of `tests/programs`.
pub(crate) fn compiled(programs: &Programs, name: &str, flags: &[&str]) -> String {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let program = programs.path().join(name);
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-w", "-pthread", "-o"]).arg(&program).args(flags);
    gcc.arg(sources.join(name).with_extension("c"));
    assert!(gcc.status().unwrap().success());
    program.into_os_string().into_string().unwrap()
}

/// Returns two paths: the executable of a process, and the file that is mapped at the process's
/// lowest address.
fn executables(process: u32) -> [PathBuf; 2] {
    let of = |name: &str| PathBuf::from(format!("/proc/{process}/{name}"));
    let maps = fs::read_to_string(of("maps")).unwrap();
    let first = maps.lines().next().and_then(|line| line.split_whitespace().nth(5));
    [fs::read_link(of("exe")).unwrap(), PathBuf::from(first.unwrap_or_default())]
}

#[test]
fn others_see_the_program() {
    let sleeping = fs::canonicalize("/usr/bin/sleep").unwrap();
    for line in ["exec sleep 60", "sleep 60 & echo $!; wait"] {
        let mut child = run(WAYS[0]).args(["sh", "-c", line]).spawn().unwrap();
        let own = child.id();
        let descendants = || {
            let path = format!("/proc/{own}/task/{own}/children");
            let list = fs::read_to_string(path).unwrap();
            list.split_whitespace().map(|it| it.parse().unwrap()).collect::<Vec<u32>>()
        };
        let is_asleep = |process: &u32| {
            fs::read_to_string(format!("/proc/{process}/comm")).is_ok_and(|name| name == "sleep\n")
        };
        let from = Instant::now();
        let process = loop {
            let all = [descendants(), vec![own]].concat();
            if let Some(found) = all.into_iter().find(is_asleep) {
                break found;
            }
            assert!(from.elapsed() < Duration::from_secs(60), "{line}");
            sleep(Duration::from_millis(10));
        };
        assert_eq!(executables(process), [sleeping.clone(), sleeping.clone()], "{line}");
        let arguments = fs::read(format!("/proc/{process}/cmdline")).unwrap();
        assert_eq!(arguments, b"sleep\x0060\0", "{line}");
        let is_own = process == own;
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(process as i32).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
        assert!(is_own || child.wait().unwrap().success());
        let _ended = child.wait().unwrap();
    }
}

#[test]
fn programs_are_executed_in_all_ways() {
    let programs = Programs::new();
    let rounds = scaled(3, 60).to_string();
    for flags in [&["-static"][..], &["-static-pie"], &[]] {
        let program = compiled(&programs, "executes", flags);
        let command = [program.as_str(), &rounds];
        for (way, is_injected) in WAYS.into_iter().zip(["1", "1", ""]) {
            let mut shown = run(way);
            if !is_injected.is_empty() {
                shown.env("IS_INJECTED", is_injected);
            }
            let ended = end(shown.args(command));
            assert_eq!(ended.out, "all is as it has to be\n", "{flags:?}: {ended:?}");
        }
    }
}

/// A host needs more memory than some of these limits permit. The program must still see its own
/// limits.
#[test]
fn small_limits_are_the_programs_alone() {
    let programs = Programs::new();
    let program = compiled(&programs, "limited", &["-static"]);
    for limit in ["-Sd 300", "-Sd 1000", "-Sv 6000", "-Ss 96", "-s 96", "-Ss unlimited"] {
        let line = format!("ulimit {limit}; exec {program}");
        let natively = end(Command::new("sh").args(["-c", &line]));
        let ended = end_of(WAYS[0], &["sh", "-c", &line]);
        assert_eq!(natively.code, Some(0), "{limit}: {natively:?}");
        assert_eq!((&ended.out, ended.code), (&natively.out, Some(0)), "{limit}: {ended:?}");
    }
}

#[test]
fn a_limit_that_a_child_sets_stays_after_a_failed_call() {
    let programs = Programs::new();
    let program = compiled(&programs, "limited", &["-static"]);
    let line = format!("ulimit -Sv 2000000; exec {program} child");
    let natively = end(Command::new("sh").args(["-c", &line]));
    assert!(natively.out.contains("\n9 1024000000 "), "{natively:?}");
    for way in [WAYS[0], WAYS[2]] {
        let ended = end_of(way, &["sh", "-c", &line]);
        assert_eq!((&ended.out, ended.code), (&natively.out, Some(0)), "{way:?}: {ended:?}");
    }
}

/// A PID namespace ends with its first process. So the program, not the helper, must be the first
/// process.
#[test]
fn the_first_process_of_a_namespace_is_the_programs() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out, as only root may make a namespace of processes");
        return;
    }
    let line = "sh -c 'echo $$'; sh -c 'exec sh -c \"echo \\$\\$\"'; (echo a)";
    let command = ["unshare", "--pid", "sh", "-c", line];
    let expected = end(Command::new(command[0]).args(&command[1..]));
    for way in WAYS {
        let ended = end_of(way, &command);
        assert_eq!((ended.out, ended.code), (expected.out.clone(), expected.code), "{way:?}");
    }
    let forked = ["unshare", "--pid", "--fork", "--mount-proc"];
    let first = "readlink /proc/1/exe; (exit 3); echo $$ $?";
    let inner = [&forked[..], &[UZRAM, "run"], WAYS[0], &["sh", "-c", first]].concat();
    let ended = end(Command::new(inner[0]).args(&inner[1..]));
    let shell = fs::canonicalize("/bin/sh").unwrap();
    assert_eq!(ended.out, format!("{}\n1 3\n", shell.display()), "{ended:?}");
}

/// If tracing of this process is refused, a host runs the program.
#[test]
fn hosts_run_programs_where_tracing_is_refused() {
    let programs = Programs::new();
    let refuses = compiled(&programs, "refuses", &[]);
    let error = (0x0005_0000 | libc::EPERM).to_string();
    let kill = 0x8000_0000_u32.to_string();
    let seen = "sh -c 'readlink /proc/$$/exe; exit 4'; exec sh -c 'exit 5'";
    for (action, number) in [
        (&error, libc::SYS_ptrace),
        (&kill, libc::SYS_ptrace),
        (&error, libc::SYS_process_vm_readv),
        (&kill, libc::SYS_process_vm_readv),
    ] {
        let number = number.to_string();
        let mut command = Command::new(&refuses);
        command.args([action, &number, UZRAM, "run"]).args(WAYS[0]).args(["sh", "-c", seen]);
        let ended = end(&mut command);
        assert_eq!(ended.code, Some(5), "{action} {number}: {ended:?}");
        assert!(ended.out.ends_with("uzram-host\n"), "{action} {number}: {ended:?}");
    }
}
