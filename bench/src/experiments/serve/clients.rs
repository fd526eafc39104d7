//! Benchmark clients: fio with its nbd engine, and nbdcopy.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tempfile::NamedTempFile;

use super::host::Host;
use crate::Error;
use crate::tool::Tool;

const REMEDY: &str = "see its message; where it names the server, see the server's";
const FIO: Tool = Tool { name: "fio", package: "fio", remedy: REMEDY };
const NBDCOPY: Tool = Tool { name: "nbdcopy", package: "libnbd-bin", remedy: REMEDY };
/// Options with which fio fills its buffer for each request. Three quarters of the data are
/// compressible.
const COMPRESSIBLE: [&str; 3] =
    ["--refill_buffers", "--buffer_compress_percentage=75", "--buffer_compress_chunk=4k"];

/// The order and direction of fio's requests.
#[derive(Debug, Clone, Copy)]
pub enum Job {
    RandomWrite,
    RandomRead,
    RandomMixed,
    /// Writes from buffers that fio fills only once.
    Write,
    /// Writes from buffers that fio fills for each request. Three quarters of a buffer's data are
    /// compressible.
    CompressibleWrite,
    Read,
}

/// The requests that fio sends.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    pub job: Job,
    /// The size of a request in bytes.
    pub request: u64,
    /// The number of concurrent requests of a connection.
    pub depth: u32,
    /// The number of connections, each with a part of the disk.
    pub jobs: u32,
    pub seconds: u32,
}

/// The outcome of a run of fio.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// Requests per second.
    pub rate: f64,
    /// The number of bytes read and written.
    pub bytes: f64,
}

impl Job {
    /// Returns fio's name for the job.
    fn name(self) -> &'static str {
        match self {
            Job::RandomWrite => "randwrite",
            Job::RandomRead => "randread",
            Job::RandomMixed => "randrw",
            Job::Write | Job::CompressibleWrite => "write",
            Job::Read => "read",
        }
    }
}

/// Returns a file of `bytes` bytes with the heap, repeated as needed.
pub fn image(heap: &[u8], bytes: u64) -> Result<NamedTempFile, Error> {
    let mut left = bytes as usize;
    let made = NamedTempFile::new().and_then(|mut file| {
        while left > 0 {
            let part = left.min(heap.len());
            file.write_all(&heap[..part])?;
            left -= part;
        }
        Ok(file)
    });
    made.map_err(Error::file("write", &std::env::temp_dir(), "make room there, or set TMPDIR"))
}

/// Runs fio with the requests `load` on a disk of `bytes` bytes.
pub fn fio(host: &Host, load: Load, bytes: u64, seed: u64) -> Result<Outcome, Error> {
    let Load { job, request, depth, jobs, seconds } = load;
    let part = bytes / u64::from(jobs) / request * request;
    let mut command = FIO.command();
    command.args(["--name=v", "--ioengine=nbd", "--time_based", "--group_reporting"]);
    if !matches!(job, Job::Write) {
        command.args(COMPRESSIBLE);
    }
    command.args(["--output-format=json", &format!("--runtime={seconds}")]);
    command.args([&format!("--rw={}", job.name()), &format!("--bs={request}")]);
    command.args([&format!("--iodepth={depth}"), &format!("--numjobs={jobs}")]);
    command.args([&format!("--size={part}"), &format!("--offset_increment={part}")]);
    command.arg(format!("--randseed={}", seed >> 1)).arg(format!("--uri={}", host.uri()));
    let output = FIO.run(command.stdin(Stdio::null()))?.stdout;
    let output = String::from_utf8_lossy(&output);
    // Other messages can precede the JSON report.
    let json = output.find('{').map_or("", |at| &output[at..]);
    let report: Value = serde_json::from_str(json).unwrap_or_default();
    let sum = |field: &str| {
        let of = |way: &str| report["jobs"][0][way][field].as_f64();
        of("read").zip(of("write")).map(|(read, write)| read + write)
    };
    let outcome = sum("iops").zip(sum("io_bytes")).map(|(rate, bytes)| Outcome { rate, bytes });
    outcome.ok_or_else(|| Error::Malformed {
        thing: "the report of fio".to_owned(),
        text: output.chars().take(200).collect(),
        expected: "JSON with the rates of a job",
    })
}

/// Copies a file to a disk. Returns the duration in seconds.
pub fn copy_in(image: &Path, host: &Host, connections: u32) -> Result<f64, Error> {
    copy(image.as_os_str(), host.uri().as_ref(), connections)
}

/// Copies all of a disk to the file `to`. Returns the duration in seconds.
pub fn copy_out(host: &Host, connections: u32, to: &Path) -> Result<f64, Error> {
    copy(host.uri().as_ref(), to.as_os_str(), connections)
}

fn copy(from: &std::ffi::OsStr, to: &std::ffi::OsStr, connections: u32) -> Result<f64, Error> {
    let mut command = NBDCOPY.command();
    command.arg(format!("--connections={connections}")).arg(from).arg(to);
    NBDCOPY.seconds(command.stdin(Stdio::null()))
}
