//! Measures the memory of a process and its descendants from another process while they run.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use measure::memory::bytes;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use testkit::cgroup::Group;

const STEP: Duration = Duration::from_millis(15);
/// The interval between two samples of a cgroup. While the cgroup is out of memory, its processes
/// wait for the next sample, so the interval is short.
const GROUP_STEP: Duration = Duration::from_millis(2);
/// The time after which a program is considered hung.
pub(super) const LONGEST: Duration = Duration::from_secs(300);

/// The largest memory that a sample found, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Peak {
    /// Anonymous and shared memory, in bytes. Memory that several processes share is counted once.
    pub(super) anonymous: u64,
    /// Anonymous and shared memory plus page tables, in bytes.
    pub(super) with_tables: u64,
}

/// The tasks of a watcher.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// Whether the watcher samples the memory of the processes.
    pub(super) is_sampled: bool,
    /// The time after which the watcher kills the program.
    pub(super) longest: Duration,
}

/// Watches a process until `is_over` is set, and kills its process group after `look.longest`. If
/// the process's cgroup is out of memory, raises its limit for a moment, so that its processes
/// continue. Returns the largest memory, and the number of times that the limit was raised.
pub(super) fn watch(
    process: Pid,
    group: Option<&Group>,
    look: Look,
    is_over: &AtomicBool,
) -> (Peak, u64) {
    let begun = Instant::now();
    let (mut peak, mut given_up) = (Peak::default(), 0);
    let step = if group.is_some() { GROUP_STEP } else { STEP };
    while !is_over.load(Ordering::Acquire) {
        given_up += u64::from(group.is_some_and(Group::let_on));
        if look.is_sampled {
            let now = memory(&tree(process.as_raw_nonzero().get()));
            peak.anonymous = peak.anonymous.max(now.anonymous);
            peak.with_tables = peak.with_tables.max(now.with_tables);
        }
        if begun.elapsed() > look.longest {
            eprintln!("bench: a program is ended that takes more than {:?}", look.longest);
            // Kills descendants in other process groups first. If their parent were killed first,
            // the kernel would give them another parent.
            let all = tree(process.as_raw_nonzero().get());
            all.iter().skip(1).filter_map(|&number| Pid::from_raw(number)).for_each(|descendant| {
                let _ended = kill_process(descendant, Signal::KILL);
            });
            let _ended = kill_process_group(process, Signal::KILL);
        }
        thread::park_timeout(step);
    }
    (peak, given_up)
}

/// Returns the ids of a process and of all its descendants.
fn tree(root: i32) -> Vec<i32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let parents: Vec<(i32, i32)> =
        numbers.filter_map(|number| Some((number, parent(number)?))).collect();
    let mut tree = vec![root];
    let mut at = 0;
    while at < tree.len() {
        let children = parents.iter().filter(|(_, parent)| *parent == tree[at]);
        let children: Vec<i32> = children.map(|(number, _)| *number).collect();
        tree.extend(children);
        at += 1;
    }
    tree
}

/// Returns true if the process was created by vfork and has not executed a program.
fn shares_memory(process: i32) -> bool {
    let maps = |process: i32| fs::read_to_string(format!("/proc/{process}/maps")).ok();
    let parent = parent(process).filter(|&parent| stat(parent).is_some_and(is_uninterruptible));
    parent.is_some_and(|parent| maps(parent).is_some_and(|of| Some(of) == maps(process)))
}

fn is_uninterruptible(stat: String) -> bool {
    stat.starts_with("D ")
}

/// Returns the fields of `/proc/PID/stat`, beginning with the process's state.
fn stat(process: i32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    Some(stat.rsplit(") ").next()?.to_owned())
}

fn parent(process: i32) -> Option<i32> {
    stat(process)?.split(' ').nth(1)?.parse().ok()
}

/// Returns the memory of processes. A child of vfork that has not executed a program is not
/// counted, because it shares its parent's memory.
fn memory(processes: &[i32]) -> Peak {
    let processes: Vec<_> = processes.iter().filter(|&&process| !shares_memory(process)).collect();
    let sum = |file: &str, names: &[&str]| -> u64 {
        let texts = processes.iter().filter_map(|process| {
            // A process that has just exited has no memory.
            fs::read_to_string(format!("/proc/{process}/{file}")).ok()
        });
        texts.map(|text| names.iter().filter_map(|name| bytes(&text, name)).sum::<u64>()).sum()
    };
    let anonymous = sum("smaps_rollup", &["Pss_Anon", "Pss_Shmem"]);
    Peak { anonymous, with_tables: anonymous + sum("status", &["VmPTE"]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    #[test]
    fn memory_of_children_is_counted() {
        let own = std::process::id() as i32;
        let before = memory(&[own]);
        // Without `black_box`, the compiler would remove the unused allocation.
        let held = std::hint::black_box(vec![7_u8; 64 << 20]);
        let after = memory(&[own]);
        assert!(after.anonymous >= before.anonymous + (60 << 20), "{before:?} {after:?}");
        assert!(after.with_tables > after.anonymous);
        drop(held);
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!(tree(own).contains(&(child.id() as i32)));
        assert_eq!(tree(child.id() as i32), [child.id() as i32]);
        child.stdin.take().unwrap().flush().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn memory_that_vfork_shares_is_counted_once() {
        let dir = tempfile::tempdir().unwrap();
        let [source, made] = ["vfork.c", "vfork"].map(|name| dir.path().join(name));
        let text = "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
            int main(void) {\n  char *held = malloc(64 << 20);\n  memset(held, 7, 64 << 20);\n  \
            if (vfork() == 0) {\n    write(1, held, 1);\n    pause();\n    _exit(0);\n  }\n}\n";
        fs::write(&source, text).unwrap();
        let built = Command::new("cc").arg(&source).arg("-o").arg(&made).status().unwrap();
        assert!(built.success());
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("{}; true", made.display())).process_group(0);
        let mut child = shell.stdout(Stdio::piped()).spawn().unwrap();
        child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
        let held = memory(&tree(child.id() as i32)).anonymous;
        kill_process_group(Pid::from_child(&child), Signal::KILL).unwrap();
        child.wait().unwrap();
        assert!((64 << 20..100 << 20).contains(&held), "{held}");
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_descendants_of_other_groups() {
        let line = "setsid sh -c 'sleep 20; echo late' & echo; wait";
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).process_group(0).stdout(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        let mut output = child.stdout.take().unwrap();
        output.read_exact(&mut [0]).unwrap();
        let (process, is_over) = (Pid::from_child(&child), AtomicBool::new(false));
        let look = Look { is_sampled: false, longest: Duration::ZERO };
        thread::scope(|scope| {
            scope.spawn(|| watch(process, None, look, &is_over));
            // The read returns when the last process that could write to the pipe has exited.
            let (read, status) = (output.read(&mut [0]), child.wait());
            is_over.store(true, Ordering::Release);
            assert_eq!(read.unwrap(), 0);
            assert!(!status.unwrap().success());
        });
    }
}
