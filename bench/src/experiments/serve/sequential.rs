//! Sequential requests of 1 MiB, four at a time on each connection: throughput, and the processor
//! time of the server and its clients.

use super::clients::{self, Job, Load};
use super::host::{Disk, Host};
use super::{NAME, ROUNDS, filled, told};
use crate::Error;
use crate::processor_time;
use crate::report::{Figure, Report};
use crate::size::{GIB, MIB};
use crate::summary::Summary;

const JOBS: [u32; 2] = [1, 4];

const ZSTD_READS_MIN: f64 = 1.4;
const ZSTD_WRITES_MIN: f64 = 2.5;
const LZ4_READS_MIN: f64 = 0.6;

/// The results of a server's turns.
#[derive(Debug, Default)]
struct Turns {
    /// 10^6 bytes per second.
    rates: Vec<f64>,
    /// Seconds of processor time per GiB.
    of_server: Vec<f64>,
    of_clients: Vec<f64>,
}

/// Measures servers that hold the heap.
pub fn run(
    zstd: &(Disk, Disk),
    lz4: &(Disk, Disk),
    input: (&[u8], u64),
    report: &mut Report<'_>,
) -> Result<(), Error> {
    for (what, disks, job, least) in [
        ("zstd: 1 MiB reads", zstd, Job::Read, Some(ZSTD_READS_MIN)),
        ("zstd: 1 MiB writes", zstd, Job::Write, Some(ZSTD_WRITES_MIN)),
        ("zstd: 1 MiB writes that compress", zstd, Job::CompressibleWrite, None),
        ("lz4 over uncompressed: 1 MiB reads", lz4, Job::Read, Some(LZ4_READS_MIN)),
    ] {
        let hosts = filled(disks, input.0)?;
        for jobs in JOBS {
            let load = Load { job, request: MIB, depth: 4, jobs, seconds: 2 };
            let what = format!("{what}, jobs: {jobs}");
            compare(&what, (&hosts.0, &hosts.1), (load, least), input, report)?;
        }
    }
    Ok(())
}

fn compare(
    what: &str,
    (ours, rival): (&Host, &Host),
    (load, least): (Load, Option<f64>),
    (heap, seed): (&[u8], u64),
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let mut turns: [Turns; 2] = Default::default();
    for _ in 0..ROUNDS {
        for (host, turns) in [rival, ours].into_iter().zip(&mut turns) {
            turns.add(host, load, heap.len() as u64, seed)?;
        }
    }
    let [rivals, ours] = turns;
    let name = rival.name();
    told(what, "MB/s", &ours.rates, (&name, &rivals.rates), least, report)?;
    let median = |values: &[f64]| Summary::of(values).map_or(f64::NAN, |summary| summary.median);
    for (side, ours, rivals) in [
        ("server", &ours.of_server, &rivals.of_server),
        ("clients", &ours.of_clients, &rivals.of_clients),
    ] {
        let figure = format!("{what}: processor time of the {side}");
        let figure = Figure::new(NAME, figure, median(ours), "s/GiB");
        report.add(figure.rival(&name, median(rivals)))?;
    }
    Ok(())
}

impl Turns {
    fn add(&mut self, host: &Host, load: Load, bytes: u64, seed: u64) -> Result<(), Error> {
        let before = (host.processor_time()?, processor_time::of_children()?);
        let outcome = clients::fio(host, load, bytes, seed)?;
        let gib = outcome.bytes / GIB as f64;
        self.rates.push(outcome.rate * load.request as f64 / 1e6);
        self.of_server.push((host.processor_time()? - before.0) / gib);
        self.of_clients.push((processor_time::of_children()? - before.1) / gib);
        Ok(())
    }
}
