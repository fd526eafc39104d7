//! Tests `--stats`, which reports the statistics of processes as text or as JSON.

use crate::support::{Ended, end, text};
use crate::{end_of, run};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name}: {value}"))
}

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.err).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

/// Runs `sort`, which needs more memory than the limit. The output must be the same as without a
/// limit.
#[test]
fn a_job_that_evicts_gives_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("text");
    fs::write(&file, text(1, 24 << 20)).unwrap();
    let sort = |command: &mut Command| {
        command.args(["-S", "200M", "--parallel=1"]).arg(&file).env("LC_ALL", "C");
        end(command.stdin(Stdio::null()))
    };
    let expected = sort(&mut Command::new("sort"));
    assert!(expected.code == Some(0) && expected.out.len() >= 24 << 20);
    for algorithm in ["lz4", "zstd"] {
        let options =
            ["--limit", "40M", "--algorithm", algorithm, "--stats", "--json", "--", "sort"];
        let ended = sort(&mut run(&options));
        assert!(ended.out == expected.out && ended.code == Some(0), "{}", ended.err);
        let figures = json(&ended);
        assert_eq!(figures["processes"].as_array().unwrap().len(), 1, "{figures}");
        let sum = &figures["sum"];
        assert!(number(sum, "evicted") > 0 && number(sum, "faults") > 0, "{sum}");
        assert!(number(sum, "held_max") > 20 << 20 && number(sum, "calls") > 0, "{sum}");
        assert_eq!((number(sum, "limit"), number(sum, "block")), (40 << 20, 4096), "{sum}");
        assert!(sum["backend"].as_str().is_some_and(|backend| !backend.is_empty()), "{sum}");
        assert!(sum["backend_reason"].as_str().is_some_and(|why| !why.is_empty()), "{sum}");
        // The program frees its memory before it ends, so only the maximum of stored data is
        // checked.
        assert!(sum["ratio"].as_f64().is_some_and(|ratio| ratio > 1.0), "{sum}");
        assert!(number(sum, "compressed_max") > 1 << 20, "{sum}");
        assert!(number(sum, "resident_max") > 10 << 20, "{sum}");
        assert!(number(sum, "faults_us") > 0 && number(sum, "signal_ns") > 100, "{sum}");
        let timed = number(sum, "calls_timed");
        assert!((1..=number(sum, "calls")).contains(&timed), "{sum}");
        let call = number(sum, "signal_ns") + number(sum, "calls_timed_ns") / timed;
        assert!(number(sum, "call_ns").abs_diff(call) < 100, "{call}: {sum}");
    }
}

/// Evicted zeros use no memory. Blocks that the runtime makes accessible together with a touched
/// neighbour use no memory until they are touched themselves.
#[test]
fn what_is_resident_is_what_takes_memory() {
    const MAPPINGS: &str = "
import mmap
kept = []
for _ in range(1000):
    kept.append(mmap.mmap(-1, 65536, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    kept[-1].write(bytes(65536))
    kept[-1].madvise(21)";
    let program = ["python3", "-s", "-E", "-c", MAPPINGS];
    let ended = end_of(&["--limit", "32M", "--stats", "--json", "--"], &program);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let figures = json(&ended);
    assert!(number(&figures["sum"], "evicted") >= 16_000, "{figures}");
    for one in figures["processes"].as_array().unwrap() {
        assert!(number(one, "resident_max") < 32 << 20, "{one}");
        assert!(number(one, "held_max") < 32 << 20, "{one}");
    }
}

/// Each evicted block may be a separate mapping. The number of mappings still stays within the
/// system's maximum, and small regions are evicted too.
#[test]
fn small_pieces_go_with_each_backend() {
    const PIECES: &str = "
import mmap
kept = []
for nth in range(400):
    kept.append(mmap.mmap(-1, 131072, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    kept[-1].write(bytes([nth % 251]) * 131072)
    assert kept[nth // 2][131071] == nth // 2 % 251";
    for backend in ["signal", "signal-mappings", "signal-remap"] {
        let options = ["--limit", "24M", "--backend", backend, "--stats", "--json", "--"];
        let ended = end_of(&options, &["python3", "-s", "-E", "-c", PIECES]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let figures = json(&ended);
        assert!(number(&figures["sum"], "evicted") > 400, "{figures}");
        assert!(number(&figures["sum"], "tree_held_max") < 26 << 20, "{figures}");
    }
}

/// All memory of a call must be resident during the call, but need not be resident after the call.
#[test]
fn what_one_call_has_written_goes_after_it() {
    const READ: &str = "
import mmap
memory = mmap.mmap(-1, 100 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
with open('/dev/zero', 'rb', buffering=0) as zeros:
    assert zeros.readinto(memory) == 100 << 20
numbers = open('/proc/self/statm').read().split()
taken = (int(numbers[1]) - int(numbers[2])) * 4096
assert taken < 32 << 20, taken
assert memory.find(b'\\1') == -1";
    for backend in ["signal", "signal-mappings", "signal-remap"] {
        let options = ["--limit", "24M", "--backend", backend, "--"];
        let ended = end_of(&options, &["python3", "-s", "-E", "-c", READ]);
        assert_eq!(ended.code, Some(0), "{backend}: {ended:?}");
    }
}

/// The runtime does not manage mappings of less than 2 MiB at addresses that the program chooses.
#[test]
fn small_mappings_are_counted_as_they_grow() {
    const GROW: &str = "
import ctypes, os
map = ctypes.CDLL(None).mmap
map.restype = ctypes.c_void_p
map.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 4 * [ctypes.c_long]
managed = bytearray(22 << 20)
for at in range(0, len(managed), 4096): managed[at:at + 4096] = os.urandom(64) * 64
statm, most, MIB = os.open('/proc/self/statm', os.O_RDONLY), 0, 1 << 20
for nth in range(16):
    at = map(0x2000000000 + nth * MIB, MIB, 3, 0x100022, -1, 0)
    assert at == 0x2000000000 + nth * MIB
    ctypes.memset(at, 1, MIB)
    numbers = os.pread(statm, 100, 0).split()
    most = max(most, (int(numbers[1]) - int(numbers[2])) * 4096)
assert most < 34 * MIB, most
assert all(managed[at:at + 64] == managed[at + 64:at + 128] for at in range(0, 22 << 20, 4096))";
    let ended = end_of(&["--limit", "32M", "--"], &["python3", "-s", "-E", "-c", GROW]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn absurd_lengths_are_refused_as_natively() {
    const ASK: &str = "
import ctypes
libc = ctypes.CDLL(None)
size, at, MIB = ctypes.c_size_t, 0x2000000000, 1 << 20
libc.mmap.restype = size
libc.mmap.argtypes = [size, size] + 4 * [ctypes.c_long]
libc.mprotect.argtypes = [size, size, ctypes.c_int]
assert libc.mmap(at, MIB // 8, 3, 0x100022, -1, 0) == at
for bytes in 2**64 - 1, 2**64 - 4096:
    assert libc.mprotect(at, bytes, 3) == -1
    assert libc.mmap(0, bytes, 3, 0x22, -1, 0) == 2**64 - 1
    assert libc.mremap(size(at), size(4096), size(bytes), 1) == -1";
    let ended = end_of(&["--limit", "32M", "--"], &["python3", "-s", "-E", "-c", ASK]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

/// The child is killed while its parent runs. The parent is killed at the end.
#[test]
fn processes_that_signals_kill_have_their_figures() {
    const KILLED: &str = "
import os, sys
kept = [b'%d' % nth * 2000 for nth in range(10_000)]
if len(sys.argv) > 1:
    kept += [bytes([nth % 251]) * 4096 for nth in range(12_000)]
    os.spawnlp(os.P_WAIT, sys.executable, 'python3', '-c', sys.argv[1])
os.kill(os.getpid(), 9)";
    for options in [&["--limit", "40M"][..], &["--limit", "40M", "--no-inject"]] {
        let program = ["python3", "-c", KILLED, KILLED];
        let ended = end_of(&[options, &["--stats", "--json", "--"]].concat(), &program);
        assert_eq!(ended.code, Some(137), "{ended:?}");
        let figures = json(&ended);
        let killed = |one: &&Value| one["killed"] == true;
        let killed: Vec<_> =
            figures["processes"].as_array().unwrap().iter().filter(killed).collect();
        assert_eq!(killed.len(), 2, "{figures}");
        for one in killed {
            assert_eq!(one["name"], "python3", "{one}");
            assert!(number(one, "held_max") > 5 << 20, "{one}");
        }
        assert!(number(&figures["sum"], "evicted") > 1000, "{figures}");
    }
}

/// A process that executed a program without a runtime is not reported as killed. The statistics of
/// a process that could not write its line are still reported.
#[test]
fn processes_without_a_report_are_not_all_killed() {
    let script = ["bash", "-c", "/bin/true | /bin/cat; /bin/true; exit 0"];
    let ended = end_of(&["--limit", "32M", "--first-only", "--stats", "--json", "--"], &script);
    let figures = json(&ended);
    assert_eq!(figures["processes"].as_array().unwrap().len(), 1, "{figures}");
    if !rustix::process::geteuid().is_root() {
        return eprintln!("left out in part, as only root can change the root directory");
    }
    let script = ["/usr/bin/python3", "-c", "import os; os.chroot('/proc')"];
    let ended = end_of(&["--limit", "32M", "--stats", "--json", "--"], &script);
    let figures = json(&ended);
    let processes = figures["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 1, "{figures}");
    assert!(number(&processes[0], "calls") > 0 && processes[0]["killed"].is_null(), "{figures}");
}

#[test]
fn the_table_has_a_line_for_each_process() {
    let ended = end_of(&["--limit", "32M", "--stats", "--"], &["sh", "-c", "/bin/true; exit 3"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(3), ""), "{ended:?}");
    let lines: Vec<&str> = ended.err.lines().collect();
    assert_eq!(lines.len(), 7, "{ended:?}");
    let headings = ["process", "name", "peak held", "peak stored", "evictions", "faults", "calls"];
    assert!(headings.iter().all(|heading| lines[0].contains(heading)), "{ended:?}");
    let names = [" sh ", " true "];
    assert!(names.iter().all(|name| lines[1..3].iter().any(|line| line.contains(name))));
    assert!(lines[3].trim_start().starts_with("all "), "{ended:?}");
    assert!(lines[4].contains("of a limit of 32.0 MiB."), "{ended:?}");
    assert!(lines[5].starts_with("Nothing was compressed"), "{ended:?}");
    assert!(lines[6].contains("for page faults"), "{ended:?}");
}

#[test]
fn a_temporary_file_is_gone_in_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let of = |dir: &Path| {
        let mut command = run(&["--limit", "32M", "--stats", "--", "sh", "-c", "ls $TMPDIR"]);
        end(command.env("TMPDIR", dir))
    };
    let ended = of(dir.path());
    assert_eq!(ended.out.lines().count(), 1, "{ended:?}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    let ended = of(&dir.path().join("no"));
    assert!(ended.code == Some(1) && ended.err.contains("TMPDIR"), "{ended:?}");
    let comma = dir.path().join("a,b");
    fs::create_dir(&comma).unwrap();
    let ended = of(&comma);
    assert!(ended.code == Some(2) && ended.err.contains("comma"), "{ended:?}");
    assert_eq!(fs::read_dir(comma).unwrap().count(), 0);
}

#[test]
fn lines_are_appended_to_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("figures");
    let ended_with = |options: &[&str], program: &[&str]| {
        let mut command = run(&["--limit", "32M", "--stats-file", "figures"]);
        end(command.args(options).arg("--").args(program).current_dir(dir.path()))
    };
    let lines =
        || fs::read_to_string(&file).unwrap().lines().map(str::to_owned).collect::<Vec<_>>();
    // The program replaces the command `uzram`, and changes its working directory.
    let ended = ended_with(&[], &["sh", "-c", "cd /; /bin/true; exit 6"]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(6), ""), "{ended:?}");
    assert_eq!(lines().len(), 2);
    // The program is a child of the command `uzram`. The command reports only the lines that were
    // added during this run.
    let ended = ended_with(&["--stats", "--json"], &["true"]);
    let told = json(&ended);
    assert_eq!((told["processes"].as_array().unwrap().len(), lines().len()), (1, 3), "{told}");
    let last: Value = serde_json::from_str(&lines()[2]).unwrap();
    assert_eq!(told["processes"][0], last);
}

#[test]
fn a_file_that_can_not_be_written_is_told_beforehand() {
    let dir = tempfile::tempdir().unwrap();
    assert!(Command::new("mkfifo").arg(dir.path().join("pipe")).status().unwrap().success());
    for (path, code, part) in [
        ("no/file", 1, "No such file"),
        (".", 1, "Is a directory"),
        ("pipe", 1, "can't be written"),
        ("/dev/null", 1, "not a regular file"),
        ("", 2, "--stats-file"),
        ("a,b", 2, "comma"),
    ] {
        let mut command = run(&["--limit", "32M", "--stats-file", path, "--", "echo", "begun"]);
        let ended = end(command.current_dir(dir.path()));
        assert_eq!((ended.code, ended.out.as_str()), (Some(code), ""), "{path}: {ended:?}");
        assert!(ended.err.starts_with("uzram: ") && ended.err.contains(part), "{ended:?}");
    }
}
