//! Clients that measure: fio with its nbd engine, and nbdcopy.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;
use tempfile::NamedTempFile;

use super::host::Host;
use crate::Error;
use crate::undo::ended;

/// Seconds of a turn.
const SECONDS: u32 = 4;

/// Rates, turn by turn.
pub type Rates = [f64];

/// What fio does.
#[derive(Debug, Clone, Copy)]
pub enum Job {
    Write,
    Read,
    Mixed,
}

/// A file of the heap, over again until it has so many bytes.
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

/// Requests per second.
pub fn fio(host: &Host, job: Job, bytes: u64, seed: u64) -> Result<f64, Error> {
    let kind = match job {
        Job::Write => "randwrite",
        Job::Read => "randread",
        Job::Mixed => "randrw",
    };
    let mut command = Command::new("fio");
    command.args(["--name=v", "--ioengine=nbd", "--bs=4k", "--iodepth=16", "--time_based"]);
    command.args([
        "--refill_buffers",
        "--buffer_compress_percentage=75",
        "--buffer_compress_chunk=4k",
    ]);
    command.args([
        "--output-format=json",
        &format!("--runtime={SECONDS}"),
        &format!("--rw={kind}"),
    ]);
    command.arg(format!("--size={}", bytes / 4096 * 4096)).arg(format!("--randseed={}", seed >> 1));
    command.arg(format!("--uri={}", host.uri()));
    let told = run("fio", "fio", &mut command)?;
    // A line or two for people may stand before it.
    let json = told.find('{').map_or("", |at| &told[at..]);
    let job: Value = serde_json::from_str(json).unwrap_or_default();
    let rate = |way: &str| job["jobs"][0][way]["iops"].as_f64();
    rate("read").zip(rate("write")).map(|(read, write)| read + write).ok_or_else(|| {
        Error::Malformed {
            thing: "the report of fio".to_owned(),
            text: told.chars().take(200).collect(),
            expected: "JSON with the rates of a job",
        }
    })
}

/// Seconds that storing a file takes.
pub fn copy_in(image: &Path, host: &Host, connections: u32) -> Result<f64, Error> {
    copy(image.as_os_str(), host.uri().as_ref(), connections)
}

/// Seconds that reading all of a disk takes.
pub fn copy_out(host: &Host, connections: u32, to: &Path) -> Result<f64, Error> {
    copy(host.uri().as_ref(), to.as_os_str(), connections)
}

fn copy(from: &std::ffi::OsStr, to: &std::ffi::OsStr, connections: u32) -> Result<f64, Error> {
    let mut command = Command::new("nbdcopy");
    command.arg(format!("--connections={connections}")).arg(from).arg(to);
    let begun = Instant::now();
    run("nbdcopy", "libnbd-bin", &mut command)?;
    Ok(begun.elapsed().as_secs_f64())
}

/// What a program prints, which must not fail.
pub fn run(
    tool: &'static str,
    package: &'static str,
    command: &mut Command,
) -> Result<String, Error> {
    let remedy = "see its message; where it names the server, see the server's";
    let output = ended(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    let output = output.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::ToolMissing { tool, package },
        _ => Error::ToolFailed { tool, reason: error.to_string(), remedy },
    })?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Error::ToolFailed { tool, reason, remedy });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
