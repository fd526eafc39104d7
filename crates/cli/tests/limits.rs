//! `uzram fill` where memory or time run out.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;
use support::{Ended, PAGE, UZRAM, end, fill, noise, text, write_all};

const MIB: usize = 1 << 20;

/// The command under a shell line that ends in `exec "$@"`.
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
    for (limit, threads) in [("2M", "1"), ("2M", "3"), ("4M", "2"), ("1", "1")] {
        let args = ["--json", "--mem-limit", limit, "--threads", threads];
        let ended = end(fill().args(args).arg(dir.path()));
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert_eq!(ended.err.lines().count(), 1, "{ended:?}");
        let json = ended.json();
        let number = |key: &str| json[key].as_u64().unwrap_or_else(|| panic!("{key}: {json}"));
        let limit_text = if limit == "1" { "4.0 KiB" } else { &format!("{}.0 MiB", &limit[..1]) };
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
        if limit != "1" {
            let stored = number("mem_limit") / PAGE as u64 * 9 / 10;
            assert!(number("pages") >= stored, "{json}");
        }
    }
    let table = end(fill().args(["--mem-limit", "2M"]).arg(dir.path()));
    assert_eq!(table.code, Some(1), "{table:?}");
    assert!(table.out.contains("mm_stat"), "{table:?}");
}

#[test]
fn an_interrupt_ends_it_cleanly() {
    let dir = tempfile::tempdir().unwrap();
    write_all(dir.path(), &[("slow", text(1, 64 * MIB))]);
    let args = ["--algorithm", "zstd", "--level", "22", "--threads", "1"];
    let child: Child = fill().args(args).arg(dir.path()).spawn().unwrap();
    sleep(Duration::from_millis(500));
    let kill = format!("kill -INT {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let ended: Ended = child.wait_with_output().unwrap().into();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert_eq!((ended.out.as_str(), ended.err.as_str()), ("", "uzram: interrupted\n"));
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
    // So little that it has to fail, but neither by a panic nor by a signal.
    let ended = fill_under("ulimit -v 40000 && exec \"$@\"", &["--threads", "1"], dir.path());
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(ended.err.lines().count(), 1, "{ended:?}");
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

/// A memory cgroup of the test's own, gone when dropped.
struct Group(PathBuf);

impl Group {
    /// With this limit; `None` where none may be made.
    fn new(limit: usize) -> Option<Self> {
        let membership = fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = |controller: &str| {
            let named = |line: &&str| line.split(':').nth(1) == Some(controller);
            let line = membership.lines().find(named)?;
            Some(line.splitn(3, ':').nth(2)?.trim_start_matches('/').to_owned())
        };
        let v1 = Path::new("/sys/fs/cgroup/memory");
        let (mount, own, file) = match own("memory").filter(|_| v1.is_dir()) {
            Some(own) => (v1, own, "memory.limit_in_bytes"),
            None => (Path::new("/sys/fs/cgroup"), own("")?, "memory.max"),
        };
        let parent = Some(mount.join(own)).filter(|dir| dir.is_dir()).unwrap_or(mount.to_owned());
        let group = Group(parent.join(format!("uzram-test-{}", std::process::id())));
        fs::create_dir(&group.0).ok()?;
        // Dropped, and so removed, if the controller is missing here.
        fs::write(group.0.join(file), limit.to_string()).ok()?;
        Some(group)
    }

    /// The command as a process of the group.
    fn fill(&self, args: &[&str], path: &Path) -> Ended {
        let procs = self.0.join("cgroup.procs");
        let line = format!("echo $$ > '{}' && exec \"$@\"", procs.display());
        fill_under(&line, args, path)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The last process may take a moment to leave it.
        for _ in 0..50 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            sleep(Duration::from_millis(20));
        }
        eprintln!("{} could not be removed", self.0.display());
    }
}

#[test]
fn it_works_in_a_memory_cgroup_of_64_mib() {
    let Some(group) = Group::new(64 * MIB) else {
        eprintln!(
            "it_works_in_a_memory_cgroup_of_64_mib: skipped, no memory cgroup may be made here"
        );
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    write_all(dir.path(), &[("a", text(1, 60 * MIB)), ("b", noise(2, 20 * MIB))]);
    let ended = group.fill(&["--json"], dir.path());
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    let json = ended.json();
    assert_eq!((&json["mismatches"], &json["orig_data_size"]), (&0.into(), &(80 * MIB).into()));
    let limit = json["mem_limit"].as_u64().unwrap() as usize;
    assert!(limit > 64 * MIB * 80 / 100 && limit < 64 * MIB * 90 / 100, "{json}");

    // More than fits: told, and not killed.
    write_all(dir.path(), &[("c", noise(3, 80 * MIB))]);
    for args in [&["--json"][..], &["--json", "--threads", "12", "--algorithm", "zstd"]] {
        let ended = group.fill(args, dir.path());
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.err.contains("all of them read back as written"), "{ended:?}");
        assert_eq!(ended.json()["mismatches"], 0);
    }
}
