//! One run of a program: alone, in the kernel's cgroup, or under `uzram run`.

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, File};
use std::hash::Hasher;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdout, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde_json::Value;
use testkit::cgroup::Group;

use super::jobs::Prepared;
use super::launch::Order;
use super::place::Place;
use super::watch::{Look, Peak, watch};
use crate::Error;
use crate::kernel::{KernelSwap, Rival};
use crate::own::{Task, failed};
use crate::processor_time;
use crate::undo::{Action, Undo};

const GROUP: &str = "bench-run";

/// The way in which a program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Directly, without a limit.
    Alone,
    /// In a cgroup with this limit, in which the kernel swaps.
    Kernel(u64),
    /// Under `uzram run` with this limit.
    Ours { limit: u64, options: &'static [&'static str], is_confined: bool },
}

/// The outcome of a run.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) seconds: f64,
    /// User and system time of all processes, in seconds.
    pub(super) cpu: f64,
    /// Whether the program succeeded, and the checksum and the length of its output. Success,
    /// checksum and length are equal for two runs with the same behaviour.
    pub(super) shown: (bool, u64, u64),
    /// The largest memory, if the memory was sampled.
    pub(super) peak: Peak,
    /// The number of times that the kernel declared the cgroup out of memory.
    pub(super) given_up: u64,
    /// The sums of the statistics that the processes of the run wrote when they exited.
    pub(super) stats: Stats,
    /// The text that the processes wrote to standard error.
    pub(super) messages: String,
}

/// A function that returns one of the times of an outcome.
type Time = fn(&Outcome) -> f64;

pub(super) const PARTS: [(&str, Time); 2] =
    [("wall clock", |outcome| outcome.seconds), ("processor time", |outcome| outcome.cpu)];

/// Sums of statistics over all processes of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Stats {
    pub(super) stored: f64,
    pub(super) compressed: f64,
    pub(super) faults: f64,
    pub(super) evicted: f64,
    pub(super) backend: String,
}

/// The kernel's swap, which all runs in a cgroup use until it is dropped.
pub(super) struct Kernel(KernelSwap);

impl Kernel {
    /// Enables swap of `bytes` bytes, or returns the reason why swap or a cgroup is not available.
    pub(super) fn acquire(bytes: u64) -> Result<Rival<Kernel>, Error> {
        if Group::new(GROUP, 1 << 30).is_none() {
            return Ok(Rival::Absent("no memory cgroup may be made here".to_string()));
        }
        Ok(KernelSwap::acquire("lz4", bytes, page::page_size())?.map(Kernel))
    }

    /// Executes `work`. Returns its result, and the most bytes that the device used for compressed
    /// pages. No cgroup counts these bytes.
    pub(super) fn with_pool<T>(
        &self,
        work: impl FnOnce() -> Result<T, Error>,
    ) -> Result<(T, u64), Error> {
        self.0.count_most()?;
        let done = work()?;
        Ok((done, self.0.mm_stat()?.mem_used_max))
    }
}

/// Runs a program until it exits.
pub(super) fn run(
    job: &Prepared,
    side: Side,
    place: &Place,
    is_sampled: bool,
) -> Result<Outcome, Error> {
    let folder = place.folder()?;
    let stats = folder.path().join("stats");
    let messages = folder.path().join("messages");
    let before = processor_time::of_children()?;
    let begun = Instant::now();
    let ((process, output, group), undo) =
        Undo::of(|| spawn(job, side, place, folder.path(), &stats, &messages))?;
    let is_over = AtomicBool::new(false);
    let look = Look { is_sampled, longest: job.longest };
    let (ended, seconds, sum, watched) = thread::scope(|scope| {
        let reader = scope.spawn(|| summed(output));
        let watcher = scope.spawn(|| watch(process, group.as_deref(), look, &is_over));
        // NOWAIT leaves the process unreaped until its undo action runs, so the kernel does not
        // reuse its id.
        let ended = waitid(WaitId::Pid(process), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        let seconds = begun.elapsed().as_secs_f64();
        is_over.store(true, Ordering::Release);
        watcher.thread().unpark();
        let undone = undo.now();
        let (sum, watched) = (reader.join(), watcher.join());
        undone.map(|()| (ended, seconds, sum.unwrap_or_default(), watched.unwrap_or_default()))
    })?;
    let status = ended.ok().flatten().and_then(|status| status.exit_status());
    let cpu = processor_time::of_children()? - before;
    let shown = (status == Some(0), sum.0, sum.1);
    let (peak, given_up) = watched;
    let messages = fs::read(&messages).unwrap_or_default();
    let messages = String::from_utf8_lossy(&messages).into_owned();
    eprint!("{messages}");
    Ok(Outcome { seconds, cpu, shown, peak, given_up, stats: Stats::read(&stats), messages })
}

/// A process, its output, and its cgroup.
type Started = (Pid, ChildStdout, Option<Arc<Group>>);

/// Starts the program in a process group of its own. The undo action kills the whole group.
fn spawn(
    job: &Prepared,
    side: Side,
    place: &Place,
    folder: &Path,
    stats: &Path,
    messages: &Path,
) -> Result<(Started, Action), Error> {
    let mut order = Order { members: None, is_confined: false, command: Vec::new() };
    let mut group = None;
    match side {
        Side::Alone => {}
        Side::Kernel(limit) => {
            let made = Group::new(GROUP, limit as usize);
            let made = made.ok_or_else(|| failed("no cgroup could be made"))?;
            made.keep();
            order.members = Some(made.members());
            group = Some(Arc::new(made));
        }
        Side::Ours { limit, options, is_confined } => {
            order.is_confined = is_confined;
            let (command, limit) = (place.command(), limit.to_string());
            let (command, stats) = (command.to_string_lossy(), stats.to_string_lossy());
            let words = [&command, "run", "--limit", &limit, "--stats-file", &stats];
            let words = words.iter().chain(options).chain(&["--"]);
            order.command.extend(words.map(|&word| word.to_owned()));
        }
    }
    order.command.extend(job.command.iter().cloned());
    let mut command = Task::Launch.command(&order)?;
    command.current_dir(folder).process_group(0);
    command.env("LC_ALL", "C").env("PYTHONHASHSEED", "0").env("TMPDIR", folder);
    command.env("HOME", folder).env_remove("LD_PRELOAD").env_remove("MAKEFLAGS");
    let file = File::create(messages).map_err(failed)?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file);
    let mut child = command.spawn().map_err(failed)?;
    let output = child.stdout.take();
    let process = Pid::from_child(&child);
    let its_group = group.clone();
    let end: Action = Box::new(move || {
        // The program's remaining descendants are killed too.
        let _gone = kill_process_group(process, Signal::KILL);
        let _status = child.wait();
        // Removes the cgroup explicitly, because the watcher can still hold a reference to it.
        its_group.iter().for_each(|group| group.remove());
        Ok(())
    });
    let Some(output) = output else { unreachable!("it was asked for") };
    Ok(((process, output, group), end))
}

/// Returns a checksum of the output, and the length of the output.
fn summed(mut output: ChildStdout) -> (u64, u64) {
    let (mut sum, mut length) = (DefaultHasher::new(), 0);
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read) = output.read(&mut buffer) {
        if read == 0 {
            break;
        }
        // Hashes byte by byte, so that the sizes of the reads do not change the result.
        buffer[..read].iter().for_each(|&byte| sum.write_u8(byte));
        length += read as u64;
    }
    (sum.finish(), length)
}

impl Stats {
    fn read(path: &Path) -> Stats {
        let text = fs::read_to_string(path).unwrap_or_default();
        let lines: Vec<Value> =
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let sum = |name: &str| lines.iter().filter_map(|line| line[name].as_f64()).sum();
        let backend = lines.last().and_then(|line| line["backend"].as_str()).unwrap_or("none");
        Stats {
            stored: sum("stored"),
            compressed: sum("compressed"),
            faults: sum("faults"),
            evicted: sum("evicted"),
            backend: backend.to_owned(),
        }
    }
}
