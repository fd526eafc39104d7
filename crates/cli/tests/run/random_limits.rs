//! Tests programs that check their own memory, with random limits and options. `make long` runs
//! these tests for an hour, or for `RANDOM_LIMITS_SECONDS`.

use crate::linkages::{LINKAGES, compiled};
use crate::programs::Programs;
use crate::run;
use crate::suites::evicted;
use crate::support::Ended;
use fastrand::Rng;
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use testkit::wait::patience;
use testkit::{is_long, random_seed, scaled, setting};

const MIB: u64 = 1 << 20;

/// A program that checks its own memory.
struct Subject {
    name: &'static str,
    /// Draws the program's arguments at random.
    arguments: fn(&mut Rng) -> Vec<String>,
    output: &'static str,
    /// The lowest limit in MiB with which the program ends within a reasonable time.
    least_mib: u64,
    /// Whether the program works only with glibc.
    is_glibc: bool,
    /// Whether the program takes seconds natively. `make test` omits slow programs.
    is_slow: bool,
}

/// Returns a random number from 1 to `short`. In `make long`, the maximum is `long`.
fn number(rng: &mut Rng, short: usize, long: usize) -> String {
    rng.usize(1..=scaled(short, long)).to_string()
}

/// Returns the arguments for a run in which a child may evict before it counts its threads.
fn tight(mode: &str) -> Vec<String> {
    [mode, "tight"].map(str::to_owned).to_vec()
}

const ANY: Subject = Subject {
    name: "",
    arguments: |_| Vec::new(),
    output: "all is there\n",
    least_mib: 2,
    is_glibc: false,
    is_slow: false,
};

const SUBJECTS: [Subject; 15] = [
    Subject {
        name: "memory",
        arguments: |rng| {
            let mut all = vec![rng.u32(..).to_string(), number(rng, 2000, 8000)];
            all.push(rng.u32(1..5).to_string());
            all.extend(rng.bool().then(|| "fixed".to_owned()));
            all
        },
        output: "all is as it has to be\n",
        is_glibc: true,
        ..ANY
    },
    Subject {
        name: "waits",
        arguments: |rng| vec![number(rng, 4, 20), rng.u32(0..6).to_string()],
        ..ANY
    },
    Subject { name: "held", arguments: |rng| vec![number(rng, 10, 40)], ..ANY },
    Subject {
        name: "streams",
        arguments: |rng| vec![number(rng, 1000, 5000), rng.u32(1..4).to_string()],
        is_glibc: true,
        ..ANY
    },
    Subject {
        name: "replaced",
        arguments: |rng| vec![number(rng, 300, 2000)],
        output: "no touch raised a signal\n",
        ..ANY
    },
    Subject {
        name: "wrapped",
        arguments: |rng| vec![number(rng, 150, 500)],
        is_glibc: true,
        ..ANY
    },
    Subject { name: "robust", output: "all is as it has to be\n", ..ANY },
    Subject { name: "single", arguments: |_| tight("namespaces"), ..ANY },
    Subject { name: "single", arguments: |_| tight("exits"), ..ANY },
    Subject { name: "stopped", arguments: |rng| vec![number(rng, 5, 15)], is_slow: true, ..ANY },
    Subject {
        name: "cancel",
        arguments: |rng| vec![if rng.bool() { "held" } else { "all" }.to_owned()],
        output: "all were cancelled\n",
        least_mib: 48,
        is_glibc: true,
        is_slow: true,
    },
    Subject { name: "locals", output: "all is as it has to be\n", is_glibc: true, ..ANY },
    Subject {
        name: "peers",
        output: "read 1, beside 1, written 1, child 0, part 4096, refused 1\n",
        least_mib: 8,
        ..ANY
    },
    Subject { name: "lasting", output: "all is as it has to be\n", is_glibc: true, ..ANY },
    Subject {
        name: "children",
        arguments: |rng| vec![rng.u32(8..40).to_string()],
        output: "",
        ..ANY
    },
];

/// A Go program, whose heap is garbage-collected.
const HEAP: Subject = Subject {
    name: "heap",
    arguments: |rng| {
        vec![rng.u32(..).to_string(), rng.u32(500..1500).to_string(), rng.u32(1..5).to_string()]
    },
    least_mib: 16,
    ..ANY
};

/// The programs that were built so far. A program is built when it is drawn for the first time.
struct Built {
    programs: Programs,
    paths: BTreeMap<(&'static str, usize), Option<String>>,
    heap: Option<String>,
}

impl Built {
    fn new() -> Self {
        let programs = Programs::new();
        let heap = is_long().then(|| heap(&programs)).flatten();
        Built { programs, paths: BTreeMap::new(), heap }
    }

    /// Draws a program and a linkage. Returns `None` if the program can't be built with that
    /// linkage.
    fn draw(&mut self, rng: &mut Rng) -> Option<(&'static Subject, String)> {
        let nth = rng.usize(..=SUBJECTS.len());
        let Some(subject) = SUBJECTS.get(nth) else { return Some((&HEAP, self.heap.clone()?)) };
        let nth = rng.usize(..=LINKAGES.len());
        let linkage = LINKAGES.get(nth).copied().unwrap_or(("gcc", "-pie"));
        if (subject.is_glibc && linkage.0 != "gcc") || (subject.is_slow && !is_long()) {
            return None;
        }
        let path = self.paths.entry((subject.name, nth));
        let path = path.or_insert_with(|| compiled(&self.programs, subject.name, linkage));
        Some((subject, path.clone()?))
    }
}

/// Compiles the Go program. Returns `None` if no Go compiler is installed.
fn heap(programs: &Programs) -> Option<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/heap.go");
    let program = programs.path().join("heap");
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&program).arg(source);
    match go.env("GOCACHE", programs.path().join("cache")).status() {
        Ok(status) => assert!(status.success(), "{go:?}"),
        Err(error) => {
            eprintln!("LEFT OUT: the program in Go, as 'go' can't be executed: {error}");
            return None;
        }
    }
    Some(program.into_os_string().into_string().unwrap())
}

/// Draws all options except the limit.
fn options(rng: &mut Rng) -> Vec<&'static str> {
    let mut choose = |from: &[&'static str]| from[rng.usize(..from.len())];
    let mut options = vec!["--block", choose(&["4K", "8K", "16K", "32K", "64K"])];
    options.extend(["--algorithm", choose(&["lz4", "lz4hc", "zstd"])]);
    options.extend(["--backend", choose(&["best", "signal", "signal-mappings", "signal-remap"])]);
    options.extend((rng.u32(..3) == 0).then_some("--no-inject"));
    options.extend((rng.u32(..3) == 0).then_some("--stats"));
    options
}

/// A program in its own process group. The program is killed if it hangs.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ended = self.0.wait();
    }
}

/// Returns the states of all threads in a process group.
fn states(group: u32) -> String {
    let line = format!(
        "for thread in $(pgrep -g {group} | sed 's|.*|/proc/&/task/*|'); do \
         cut -d ' ' -f 1-3,14,15 $thread/stat; cat $thread/wchan; echo; done"
    );
    let shown = Command::new("sh").args(["-c", &line]).output().unwrap();
    String::from_utf8_lossy(&shown.stdout).into_owned()
}

/// Runs a command in a folder until it ends. Panics if the command hangs.
fn ends(command: &mut Command, folder: &Path, named: &str) -> Ended {
    let [out, err] = ["out", "err"].map(|name| folder.join(name));
    command.stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
    let mut running = Running(command.current_dir(folder).process_group(0).spawn().unwrap());
    let (begun, mut code) = (Instant::now(), None);
    while code.is_none() && begun.elapsed() < patience() {
        std::thread::sleep(Duration::from_millis(5));
        code = running.0.try_wait().unwrap();
    }
    let code = code.unwrap_or_else(|| panic!("{named} hangs:\n{}", states(running.0.id())));
    let read = |path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
    Ended { code: code.code(), out: read(&out), err: read(&err) }
}

/// Returns the lowest possible limit, as reported in the message about a low limit.
fn needed(ended: &Ended) -> Option<u64> {
    let (_, rest) = ended.err.split_once(" is too low: ")?;
    rest.split(' ').next()?.parse().ok()
}

/// Runs the program, options and limit that `seed` selects. Returns the number of blocks that the
/// program's processes evicted.
fn run_one(built: &mut Built, seed: u64) -> Option<u64> {
    let mut rng = Rng::with_seed(seed);
    let (subject, program) = built.draw(&mut rng)?;
    let folder = tempfile::tempdir().unwrap();
    let stats = folder.path().join("stats");
    let options = options(&mut rng);
    let arguments = (subject.arguments)(&mut rng);
    let before: &[&str] = match rng.u32(..4) {
        0 => &["sh", "-c", "\"$@\"; exit $?", "sh"],
        1 => &["env", "-i"],
        _ => &[],
    };
    let above = MIB << rng.u32(..7);
    let mut limit = subject.least_mib * MIB + rng.u64(..above);
    loop {
        fs::write(&stats, "").unwrap();
        let mut command = run(&["--limit", &limit.to_string(), "--stats-file"]);
        command.arg(&stats).args(&options).arg("--").args(before).arg(&program).args(&arguments);
        let named = format!("UZRAM_SEED={seed}: {command:?}");
        let ended = ends(&mut command, folder.path(), &named);
        let needed = needed(&ended).filter(|needed| *needed > limit);
        if let Some(needed) = needed.filter(|_| ended.code == Some(1)) {
            limit = needed;
            continue;
        }
        let of = (ended.code, ended.out.as_str());
        assert_eq!(of, (Some(0), subject.output), "{named}: {ended:?}");
        return Some(evicted(&stats));
    }
}

#[test]
fn programs_check_themselves_at_random_limits() {
    let seconds = setting("RANDOM_LIMITS_SECONDS", scaled(5, 3600) as u64);
    let (seed, begun, mut built) = (random_seed(), Instant::now(), Built::new());
    let (mut nth, mut runs, mut blocks) = (0, 0, 0);
    while runs == 0 || begun.elapsed() < Duration::from_secs(seconds) {
        if let Some(evicted) = run_one(&mut built, seed.wrapping_add(nth)) {
            (runs, blocks) = (runs + 1, blocks + evicted);
        }
        nth += 1;
    }
    eprintln!("{runs} programs at random limits evicted {blocks} blocks");
    assert!(!is_long() || blocks > 100_000, "{blocks}");
}
