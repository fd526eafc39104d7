//! uzram's NBD server compared with nbdkit's memory plugin. The same clients use both servers in
//! turns. Another experiment compares a mounted uzram device with the kernel's zram.

mod clients;
pub(crate) mod held;
pub(crate) mod host;
mod sequential;
pub(crate) mod tree;

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

pub use held::{Order, hold};
pub use tree::compare as fuse;

use measure::page::PAGE_SIZE;

use crate::Error;
use crate::inputs::Input;
use crate::report::{Bound, Figure, Report};
use crate::size::GIB;
use crate::summary::{median, ratio};
use crate::turns::{each, in_turns};
use clients::{Job, Load};
use host::{Disk, Host};

use super::Request;

const NAME: &str = "nbd";
/// The number of turns of each server.
const ROUNDS: u64 = 5;
/// The time within which a server notices that its clients have disconnected.
const LEFT_AFTER: Duration = Duration::from_secs(1);
/// The number of bytes that are copied to a disk and back. The copied data are the input `heap`,
/// repeated.
const COPIED: u64 = GIB;

/// The size of the blocks that nbdkit compresses, in bytes.
const NBDKIT_BLOCK: usize = 32 << 10;

const WRITES_MIN: f64 = 4.0;
const READS_MIN: f64 = 2.0;
const MIXED_MIN: f64 = 0.8;
const COPY_IN_MIN: f64 = 1.5;
const COPY_OUT_MIN: f64 = 1.2;

/// Measures clients of uzram's server and of nbdkit.
pub fn nbd(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    let pages = request.pages(Input::Heap)?.load()?;
    let heap = &*pages;
    let zstd = (Disk::zstd(PAGE_SIZE), Disk::Nbdkit { allocator: "zstd" });
    let large = (Disk::zstd(NBDKIT_BLOCK), Disk::Nbdkit { allocator: "zstd" });
    let lz4 = (Disk::lz4(), Disk::Nbdkit { allocator: "sparse" });
    let jobs = [
        ("zstd: random 4 KiB writes", &zstd, Job::RandomWrite, WRITES_MIN),
        ("zstd: random 4 KiB reads", &zstd, Job::RandomRead, READS_MIN),
        ("lz4 over uncompressed: 4 KiB reads and writes", &lz4, Job::RandomMixed, MIXED_MIN),
    ];
    for (what, disks, job, least) in jobs {
        random(what, disks, job, least, (heap, request.seed), report)?;
    }
    sequential::run(&zstd, &lz4, (heap, request.seed), report)?;
    [1, 4].iter().try_for_each(|&connections| copies(&large, connections, heap, report))
}

/// Measures random requests of one connection, on servers that hold the heap.
fn random(
    what: &str,
    disks: &(Disk, Disk),
    job: Job,
    least: f64,
    (heap, seed): (&[u8], u64),
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let bytes = heap.len() as u64;
    let (ours, rival) = filled(disks, heap)?;
    let load = Load { job, request: PAGE_SIZE as u64, depth: 16, jobs: 1, seconds: 4 };
    let rates = in_turns(2, ROUNDS, |side| {
        Ok(clients::fio([&ours, &rival][side], load, bytes, seed)?.rate)
    })?;
    told(what, "requests/s", &rates[0], (&disks.1.name(), &rates[1]), least, report)
}

/// Starts uzram's server and nbdkit, and copies the heap to both.
fn filled(disks: &(Disk, Disk), heap: &[u8]) -> Result<(Host, Host), Error> {
    let bytes = heap.len() as u64;
    let (ours, rival) = (Host::start(&disks.0, bytes)?, Host::start(&disks.1, bytes)?);
    let image = clients::image(heap, bytes)?;
    for host in [&ours, &rival] {
        clients::copy_in(image.path(), host, 1)?;
    }
    Ok((ours, rival))
}

/// Computes the ratio of our rate to the rival's rate in each turn. Reports the median ratio and
/// the median rates.
fn told(
    what: &str,
    unit: &'static str,
    ours: &[f64],
    (rival, rivals): (&str, &[f64]),
    least: impl Into<Option<f64>>,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let over = Figure::new(NAME, format!("{what}, ours over nbdkit's"), ratio(ours, rivals), "");
    report.add(over.must(least.into().map(Bound::at_least)))?;
    report.add(Figure::new(NAME, what, median(ours), unit).rival(rival, median(rivals)))
}

/// Copies a gibibyte to each server's disk and back, and reports the rates and the servers' memory.
fn copies(
    disks: &(Disk, Disk),
    connections: u32,
    heap: &[u8],
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let image = clients::image(heap, COPIED)?;
    let turns = in_turns(2, ROUNDS, |side| {
        // Each turn starts a fresh server, so that the copy to its disk overwrites no data.
        let host = Host::start([&disks.0, &disks.1][side], COPIED)?;
        let rate = |seconds: f64| COPIED as f64 / 1e6 / seconds;
        let rate_in = rate(clients::copy_in(image.path(), &host, connections)?);
        let rate_out = rate(clients::copy_out(&host, connections, Path::new("null:"))?);
        // Measures the memory that remains after the clients have disconnected.
        sleep(LEFT_AFTER);
        Ok([rate_in, rate_out, host.held()? as f64])
    })?;
    let part = |nth: usize| [0, 1].map(|side| each(&turns[side], |turn| turn[nth]));
    let rival = disks.1.name();
    for (nth, (way, least)) in [("in", COPY_IN_MIN), ("out", COPY_OUT_MIN)].into_iter().enumerate()
    {
        let what = format!("zstd: 1 GiB {way}, connections: {connections}");
        let [ours, rivals] = part(nth);
        told(&what, "MB/s", &ours, (&rival, &rivals), least, report)?;
    }
    let what = format!("zstd: memory for 1 GiB over nbdkit's, connections: {connections}");
    let [ours, rivals] = part(2).map(median);
    let ratio = Figure::new(NAME, what, ours / rivals, "").must(Bound::at_most(1.0));
    report.add(ratio.rival("nbdkit, bytes", rivals))
}
