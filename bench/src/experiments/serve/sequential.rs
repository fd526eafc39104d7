//! Sequential requests of 1 MiB, four at a time on each connection. The figures are the throughput,
//! and the processor time of the server and its clients.

use super::clients::{self, Job, Load};
use super::host::{Disk, Host};
use super::{NAME, ROUNDS, filled, told};
use crate::Error;
use crate::processor_time;
use crate::report::{Figure, Report};
use crate::size::{GIB, MIB};
use crate::summary::median;
use crate::turns::{each, in_turns};

const JOBS: [u32; 2] = [1, 4];

const ZSTD_READS_MIN: f64 = 1.4;
const ZSTD_WRITES_MIN: f64 = 2.5;
const LZ4_READS_MIN: f64 = 0.6;

/// The results of a server's turn.
struct Turn {
    /// 10^6 bytes per second.
    rate: f64,
    /// Seconds of processor time per GiB, of the server and of its clients.
    cpu: [f64; 2],
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
    let turns =
        in_turns(2, ROUNDS, |side| turn([ours, rival][side], load, heap.len() as u64, seed))?;
    let part = |of: &dyn Fn(&Turn) -> f64| [0, 1].map(|side| each(&turns[side], of));
    let name = rival.name();
    let [ours, rivals] = part(&|turn| turn.rate);
    told(what, "MB/s", &ours, (&name, &rivals), least, report)?;
    for (side, of) in [("server", 0), ("clients", 1)] {
        let [ours, rivals] = part(&|turn| turn.cpu[of]).map(median);
        let figure = format!("{what}: processor time of the {side}");
        report.add(Figure::new(NAME, figure, ours, "s/GiB").rival(&name, rivals))?;
    }
    Ok(())
}

fn turn(host: &Host, load: Load, bytes: u64, seed: u64) -> Result<Turn, Error> {
    let before = [host.processor_time()?, processor_time::of_children()?];
    let outcome = clients::fio(host, load, bytes, seed)?;
    let gib = outcome.bytes / GIB as f64;
    let after = [host.processor_time()?, processor_time::of_children()?];
    Ok(Turn {
        rate: outcome.rate * load.request as f64 / 1e6,
        cpu: [0, 1].map(|nth| (after[nth] - before[nth]) / gib),
    })
}
