//! Common programs, each with work that uses memory.

use std::time::Duration;

use super::place::{Place, program};
use super::watch::LONGEST;
use crate::Error;
use crate::size::MIB;

#[derive(Debug)]
pub(super) struct Job {
    pub(super) name: &'static str,
    program: &'static str,
    /// The Debian package that contains the program.
    package: &'static str,
    /// The ratio of the program's memory to its limit.
    pub(super) times: f64,
    /// The options of `uzram run` besides the limit.
    pub(super) options: &'static [&'static str],
    make: Make,
    /// For a program whose garbage collector can limit the heap: sets that limit in bytes.
    collector: Option<fn(&mut Prepared, u64)>,
}

/// A job whose inputs exist.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    pub(super) command: Vec<String>,
    /// The time after which the job is killed.
    pub(super) longest: Duration,
}

/// Options for programs that use neighbouring data together.
pub(super) const WIDE: &[&str] = &["--block", "16K"];

/// Options for programs whose memory, compressed by lz4, would fill most of the limit.
pub(super) const DENSE: &[&str] = &["--algorithm", "zstd", "--level", "1", "--block", "16K"];

/// Returns the job's name in figures.
pub(super) fn told(name: &str, limit: u64, options: &[&str]) -> String {
    let with = match options {
        DENSE => ", zstd (level 1) in blocks of 16 KiB",
        WIDE => ", in blocks of 16 KiB",
        _ => "",
    };
    format!("{name} at {} MB{with}", limit / 1_000_000)
}

/// The jobs with a limit, besides [`HEAP`].
pub(super) const JOBS: [Job; 8] = [
    Job { options: DENSE, ..job("sort", "sort", "coreutils", 3.0, sort) },
    job("g++", "g++", "g++", 2.0, compiler),
    job("redis", "redis-server", "redis-server", 1.5, redis),
    job("node", "node", "nodejs", 2.0, node),
    Job { options: DENSE, ..job("sqlite3", "python3", "python3", 2.0, sqlite) },
    Job { options: DENSE, ..job("xz", "xz", "xz-utils", 1.25, xz) },
    Job { collector: Some(limit_go), ..job("Go", "go", "golang-go", 2.0, go_index) },
    Job {
        collector: Some(limit_java),
        ..job("Java", "javac", "default-jdk-headless", 2.0, java_index)
    },
];

/// CPython with a heap.
pub(super) const HEAP: Job = job("heap", "python3", "python3", 1.8, heap);

/// Jobs that read and write a million single bytes. The programs use glibc, linked dynamically or
/// statically, musl, or no C library.
pub(super) const BYTES: [Job; 4] = [
    job("dd bs=1", "dd", "coreutils", 1.0, bytes),
    job("busybox dd bs=1", "busybox", "busybox-static", 1.0, busybox_bytes),
    job("bytes, musl", "musl-gcc", "musl-tools", 1.0, musl_bytes),
    job("bytes, Go", "go", "golang-go", 1.0, go_bytes),
];

/// Returns the names of the jobs that a request can contain.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    JOBS.iter().chain(&BYTES).chain([&HEAP]).map(|job| job.name)
}

/// The size in bytes of the file whose words the jobs `Go` and `Java` index.
const INDEXED: u64 = 24_000_000;

type Make = fn(&Place, &str) -> Result<Vec<String>, Error>;

const fn job(
    name: &'static str,
    program: &'static str,
    package: &'static str,
    times: f64,
    make: Make,
) -> Job {
    Job { name, program, package, times, options: &[], make, collector: None }
}

impl Job {
    /// Creates the job's inputs. Returns `None`, and prints a line with the reason, if the program
    /// is not installed.
    pub(super) fn prepared(&self, place: &Place) -> Result<Option<Prepared>, Error> {
        let Some(path) = program(self.program) else {
            eprintln!(
                "bench: {} is left out: there is no {} that any user may execute; install the \
                 package {}",
                self.name, self.program, self.package
            );
            return Ok(None);
        };
        Ok(Some(Prepared { command: (self.make)(place, &path)?, longest: LONGEST }))
    }

    /// Returns the job with the heap limited to `bytes` by the program's own garbage collector.
    /// Returns `None` if the program has no such limit.
    pub(super) fn with_heap_limit(&self, job: &Prepared, bytes: u64) -> Option<Prepared> {
        let mut job = job.clone();
        self.collector.map(|limit| limit(&mut job, bytes))?;
        Some(job)
    }
}

fn words(program: &str, arguments: &[&str]) -> Vec<String> {
    [program].iter().chain(arguments).map(|&word| word.to_owned()).collect()
}

fn heap(place: &Place, python: &str) -> Result<Vec<String>, Error> {
    let script = place.file("heap.py", include_str!("heap.py"))?;
    let (bytes, seed) = (place.scale.heap.to_string(), place.scale.seed.to_string());
    Ok(words(python, &["-s", "-E", &script, &bytes, &seed]))
}

/// Sorts by the contents of the lines, which are in random order.
fn sort(place: &Place, sort: &str) -> Result<Vec<String>, Error> {
    let input = place.input("lines", place.scale.bytes(160_000_000))?;
    let room = format!("{}b", place.scale.bytes(480_000_000));
    Ok(words(sort, &["-t:", "-k3", "-S", &room, &input]))
}

fn compiler(place: &Place, compiler: &str) -> Result<Vec<String>, Error> {
    let source = place.input("source", place.scale.bytes(36_000))?;
    Ok(words(compiler, &["-x", "c++", "-std=c++17", "-O1", "-S", "-o", "-", &source]))
}

fn redis(place: &Place, server: &str) -> Result<Vec<String>, Error> {
    let script = place.file("server.py", include_str!("server.py"))?;
    let input = place.input("lines", place.scale.bytes(60_000_000))?;
    let python = program("python3").unwrap_or_else(|| "python3".to_owned());
    let seed = place.scale.seed.to_string();
    Ok(words(&python, &["-s", "-E", &script, server, &input, &seed]))
}

fn node(place: &Place, node: &str) -> Result<Vec<String>, Error> {
    let script = place.file("graph.js", include_str!("graph.js"))?;
    let (count, seed) = (place.scale.bytes(800_000).to_string(), place.scale.seed.to_string());
    Ok(words(node, &["--max-old-space-size=8192", &script, &count, &seed]))
}

fn sqlite(place: &Place, python: &str) -> Result<Vec<String>, Error> {
    let script = place.file("table.py", include_str!("table.py"))?;
    let input = place.input("lines", place.scale.bytes(60_000_000))?;
    let (cache, seed) = (place.scale.bytes(1_000_000_000), place.scale.seed.to_string());
    Ok(words(python, &["-s", "-E", &script, &input, &cache.to_string(), &seed]))
}

/// Compresses one half of the input on each of two threads. The dictionary is small, because with a
/// larger one the program would read all its memory continually, so no memory would be cold.
fn xz(place: &Place, xz: &str) -> Result<Vec<String>, Error> {
    let bytes = place.scale.bytes(60_000_000);
    let input = place.input("lines", bytes)?;
    let window = place.scale.bytes(MIB).max(64 << 10);
    let (filter, half) =
        (format!("--lzma2=preset=0,dict={window}"), format!("--block-size={}", bytes.div_ceil(2)));
    Ok(words(xz, &["-T2", &filter, &half, "-c", &input]))
}

fn bytes(place: &Place, dd: &str) -> Result<Vec<String>, Error> {
    Ok(words(dd, &["if=/dev/zero", "of=/dev/null", "bs=1", &count(place), "status=none"]))
}

/// Discards the report of busybox's `dd`, which does not support `status=none`.
fn busybox_bytes(place: &Place, busybox: &str) -> Result<Vec<String>, Error> {
    let line = "exec \"$0\" dd if=/dev/zero of=/dev/null bs=1 \"$1\" 2> /dev/null";
    Ok(words("sh", &["-c", line, busybox, &count(place)]))
}

fn count(place: &Place) -> String {
    format!("count={}", place.scale.bytes(1_000_000))
}

fn musl_bytes(place: &Place, compiler: &str) -> Result<Vec<String>, Error> {
    let source = place.file("bytes.c", include_str!("bytes.c"))?;
    compiled_bytes(place, words(compiler, &["-O1", "-static", "-o"]), &source)
}

fn go_bytes(place: &Place, compiler: &str) -> Result<Vec<String>, Error> {
    let source = place.file("bytes.go", include_str!("bytes.go"))?;
    compiled_bytes(place, words(compiler, &["build", "-o"]), &source)
}

fn compiled_bytes(place: &Place, command: Vec<String>, source: &str) -> Result<Vec<String>, Error> {
    let program = place.built(&command, source)?;
    Ok(words(&program, &[&place.scale.bytes(1_000_000).to_string()]))
}

/// Builds an index of the words of a file. The garbage collector marks the index repeatedly.
fn go_index(place: &Place, compiler: &str) -> Result<Vec<String>, Error> {
    let source = place.file("words.go", include_str!("programs/index.go"))?;
    let program = place.built(&words(compiler, &["build", "-o"]), &source)?;
    Ok(words(&program, &[&place.input("lines", place.scale.bytes(INDEXED))?]))
}

fn limit_go(job: &mut Prepared, bytes: u64) {
    job.command.splice(0..0, ["env".to_owned(), format!("GOMEMLIMIT={bytes}")]);
}

fn java_index(place: &Place, compiler: &str) -> Result<Vec<String>, Error> {
    let source = place.file("Index.java", include_str!("programs/Index.java"))?;
    let classes = place.built(&words(compiler, &["-d"]), &source)?;
    let java = program("java").unwrap_or_else(|| "java".to_owned());
    Ok(words(
        &java,
        &["-cp", &classes, "Index", &place.input("lines", place.scale.bytes(INDEXED))?],
    ))
}

fn limit_java(job: &mut Prepared, bytes: u64) {
    job.command.insert(1, format!("-Xmx{}k", bytes >> 10));
}
