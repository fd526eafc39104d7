//! Tests `uzram fill` when memory or time is short.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;
use support::{Ended, PAGE, UZRAM, end, fill, noise, text, until, write_all};
use testkit::cgroup::Group;

const MIB: usize = 1 << 20;

/// Runs `uzram fill` by the shell line `line`. The line ends in `exec "$@"`.
fn fill_under(line: &str, args: &[&str], path: &Path) -> Ended {
    let mut shell = Command::new("sh");
    shell.args(["-c", line, "sh", UZRAM, "fill"]).args(args).arg(path);
    end(shell.stdin(Stdio::null()))
}

#[test]
fn at_the_limit_what_is_stored_reads_back() {
    let dir = tempfile::tempdir().unwrap();
    let files = [("a", noise(1, 3 * MIB + 5)), ("b", text(2, MIB)), ("c", noise(3, 4 * MIB))];
    write_all(dir.path(), &files);
    for (limit, threads) in [("2M", "1"), ("2M", "3"), ("4M", "2"), ("64K", "1")] {
        let args = ["--json", "--mem-limit", limit, "--threads", threads];
        let ended = end(fill().args(args).arg(dir.path()));
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert_eq!(ended.err.lines().count(), 1, "{ended:?}");
        let json = ended.json();
        let number = |key: &str| json[key].as_u64().unwrap_or_else(|| panic!("{key}: {json}"));
        let is_least = limit == "64K";
        let limit_text = if is_least { "64.0 KiB" } else { &format!("{}.0 MiB", &limit[..1]) };
        let told = format!(
            "uzram: the memory limit of {limit_text} is reached after {} of {} pages, all of them read back \
             as written; raise --mem-limit, or give less with --input-limit\n",
            number("pages"),
            number("pages_planned"),
        );
        assert_eq!(ended.err, told);
        assert_eq!((number("mismatches"), number("changed_files")), (0, 0), "{json}");
        assert_eq!(number("pages"), number("pages_compared"), "{json}");
        assert_eq!(number("pages") * PAGE as u64, number("orig_data_size"), "{json}");
        assert!(number("mem_used_total") <= number("mem_limit"), "{json}");
        assert!(number("pages") < number("pages_planned"), "{json}");
        if !is_least {
            let stored = number("mem_limit") / PAGE as u64 * 9 / 10;
            assert!(number("pages") >= stored, "{json}");
        }
    }
    let table = end(fill().args(["--mem-limit", "2M"]).arg(dir.path()));
    assert_eq!(table.code, Some(1), "{table:?}");
    assert!(table.out.contains("mm_stat"), "{table:?}");
}

/// Returns whether a process has a handler for SIGINT.
fn handles_interrupt(child: &Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() & (1 << (Signal::INT.as_raw() - 1)) != 0
}

#[test]
fn an_interrupt_ends_it_cleanly() {
    let dir = tempfile::tempdir().unwrap();
    write_all(dir.path(), &[("slow", text(1, 64 * MIB))]);
    let args = ["--algorithm", "zstd", "--level", "22", "--threads", "1"];
    let child: Child = fill().args(args).arg(dir.path()).spawn().unwrap();
    until("it handles the signal", || handles_interrupt(&child));
    // Waits until the process is probably storing data.
    sleep(Duration::from_millis(500));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended: Ended = child.wait_with_output().unwrap().into();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert_eq!((ended.out.as_str(), ended.err.as_str()), ("", "uzram: interrupted\n"));
}

/// If the device does not hold all the data, the device is not saved, and an existing file remains.
#[test]
fn nothing_is_saved_if_the_limit_is_reached() {
    let dir = tempfile::tempdir().unwrap();
    write_all(dir.path(), &[("a", noise(1, 4 * MIB))]);
    let saved = dir.path().join("saved");
    for old in [None, Some("old")] {
        old.iter().for_each(|text| std::fs::write(&saved, text).unwrap());
        let mut fill = fill();
        fill.args(["--mem-limit", "1M", "--save"]).arg(&saved).arg(dir.path().join("a"));
        let ended = end(&mut fill);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.err.contains("nothing is saved to"), "{ended:?}");
        assert_eq!(std::fs::read_to_string(&saved).ok().as_deref(), old);
    }
}

#[test]
fn it_works_in_little_address_space() {
    let dir = tempfile::tempdir().unwrap();
    write_all(dir.path(), &[("a", text(1, 20 * MIB)), ("b", noise(2, 10 * MIB))]);
    for threads in ["1", "4", "16"] {
        let args = ["--json", "--threads", threads];
        let ended = fill_under("ulimit -v 4000000 && exec \"$@\"", &args, dir.path());
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
        assert_eq!(ended.json()["mismatches"], 0);
        assert_eq!(ended.json()["orig_data_size"], 30 * MIB);
    }
    // In this small address space the command must fail, but not by a panic or a signal.
    let ended = fill_under("ulimit -v 40000 && exec \"$@\"", &["--threads", "1"], dir.path());
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(ended.err.lines().count(), 1, "{ended:?}");
}

/// The input is a large sparse file. Memory does not suffice for the statistics of all pages of the
/// file.
#[test]
fn more_input_than_memory_has_figures_for_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(dir.path().join("sparse")).unwrap();
    file.set_len(15 << 40).unwrap();
    let ended = fill_under("ulimit -v 3000000 && exec \"$@\"", &[], dir.path());
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("beside the device") && ended.err.lines().count() == 1, "{ended:?}");
    file.set_len(2 << 40).unwrap();
    let ended = fill_under("ulimit -v 1500000 && exec \"$@\"", &[], dir.path());
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("--input-limit") && ended.err.lines().count() == 1, "{ended:?}");
}

#[test]
fn what_the_system_refuses_is_not_laid_to_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    write_all(dir.path(), &[("a", noise(1, 64 * MIB))]);
    let ended = fill_under("ulimit -v 80000 && exec \"$@\"", &["--threads", "1"], dir.path());
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(ended.err.lines().count(), 1, "{ended:?}");
    assert!(ended.err.starts_with("uzram: out of memory after "), "{ended:?}");
    for part in ["all of them read back as written", "ulimit -v", "--input-limit"] {
        assert!(ended.err.contains(part), "{part:?} is missing: {ended:?}");
    }
    assert!(!ended.err.contains("--mem-limit"), "{ended:?}");
}

/// Runs `uzram fill` in the cgroup.
fn fill_in(group: &Group, args: &[&str], path: &Path) -> Ended {
    fill_under(&group.enter(), args, path)
}

#[test]
fn it_works_in_a_memory_cgroup_of_64_mib() {
    let Some(group) = Group::new("fill", 64 * MIB) else {
        eprintln!(
            "it_works_in_a_memory_cgroup_of_64_mib: skipped, no memory cgroup may be made here"
        );
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    write_all(dir.path(), &[("a", text(1, 60 * MIB)), ("b", noise(2, 20 * MIB))]);
    let ended = fill_in(&group, &["--json"], dir.path());
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    let json = ended.json();
    assert_eq!((&json["mismatches"], &json["orig_data_size"]), (&0.into(), &(80 * MIB).into()));
    let limit = json["mem_limit"].as_u64().unwrap() as usize;
    assert!(limit > 64 * MIB * 80 / 100 && limit < 64 * MIB * 90 / 100, "{json}");

    // If the data do not fit, the command reports an error. The kernel does not kill the command.
    write_all(dir.path(), &[("c", noise(3, 80 * MIB))]);
    for args in [&["--json"][..], &["--json", "--threads", "12", "--algorithm", "zstd"]] {
        let ended = fill_in(&group, args, dir.path());
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.err.contains("all of them read back as written"), "{ended:?}");
        assert_eq!(ended.json()["mismatches"], 0);
    }
}
