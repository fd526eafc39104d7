//! The figures of the rivals on the shared inputs: the kernel's zram with lz4.

use crate::census::Census;
use measure::clock::{Clock, Stopwatch};

use super::Request;
use crate::Error;
use crate::aligned::AlignedBuf;
use crate::inputs::Input;
use crate::kernel::{KernelZram, MmStat, Rival};
use crate::report::{Bound, Figure, Report};
use crate::size::{MIB, mebibytes};
use crate::summary::Summary;

const NAME: &str = "rivals";
const ALGORITHM: &str = "lz4";
const REQUEST: usize = MIB as usize;
const ROUNDS: usize = 5;

pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    for input in request.inputs(&Input::ALL) {
        let pages = request.pages(input)?.load()?;
        let census = Census::of(&pages)?;
        report_census(input, &census, report)?;
        match measure(&pages)? {
            Rival::Present(measured) => report_kernel(input, &census, &measured, report)?,
            Rival::Absent(reason) => report_absent(input, &reason, report)?,
        }
    }
    Ok(())
}

struct Measured {
    stat: MmStat,
    write_seconds: Summary,
    read_seconds: Summary,
    bytes: u64,
}

// Uses a fresh device in each round, because overwriting pages would be different work.
fn measure(pages: &AlignedBuf) -> Result<Rival<Measured>, Error> {
    let bytes = pages.len() as u64;
    let (mut writes, mut reads) = (Vec::new(), Vec::new());
    let mut stat = MmStat::default();
    let mut back = AlignedBuf::zeroed(pages.len());
    // The first round warms up.
    for round in 0..=ROUNDS {
        let device = match KernelZram::acquire(ALGORITHM, bytes)? {
            Rival::Present(device) => device,
            Rival::Absent(reason) => return Ok(Rival::Absent(reason)),
        };
        let (mut write, mut read) = (Stopwatch::new(Clock::Wall), Stopwatch::new(Clock::Wall));
        write.time(|| device.write(0, pages, REQUEST))?;
        stat = device.mm_stat()?;
        // Data left from the previous round must not be mistaken for data read in this one.
        back.fill(0xff);
        read.time(|| device.read(0, &mut back, REQUEST))?;
        device.compare(0, pages, &back)?;
        device.remove()?;
        if round > 0 {
            writes.push(write.seconds());
            reads.push(read.seconds());
        }
    }
    match (Summary::of(&writes), Summary::of(&reads)) {
        (Some(write_seconds), Some(read_seconds)) => {
            Ok(Rival::Present(Measured { stat, write_seconds, read_seconds, bytes }))
        }
        _ => Ok(Rival::Absent("nothing was measured".into())),
    }
}

fn named(input: Input, figure: &str) -> String {
    format!("{}/{figure}", input.name())
}

fn report_census(input: Input, census: &Census, report: &mut Report<'_>) -> Result<(), Error> {
    for (figure, value) in [
        ("pages", census.page_count()),
        ("pages same-filled", census.same_filled),
        ("pages compressible", census.compressible),
        ("pages incompressible", census.incompressible),
    ] {
        report.add(Figure::new(NAME, named(input, figure), value as f64, "pages"))?;
    }
    let stored = mebibytes(census.stored_bytes);
    report.add(Figure::new(NAME, named(input, "C by raw lz4"), stored, "MiB"))
}

fn report_kernel(
    input: Input,
    census: &Census,
    measured: &Measured,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let Measured { stat, write_seconds, read_seconds, bytes } = measured;
    let same =
        Figure::new(NAME, named(input, "kernel same-filled"), stat.same_pages as f64, "pages");
    // If the two counts differed, C would not be the sum over the pages that the kernel stores.
    report.add(same.must(Bound::equal(census.same_filled as f64)))?;
    let rate = |seconds: f64| *bytes as f64 / 1e6 / seconds;
    let used = stat.mem_used_total as f64;
    for (figure, value, unit) in [
        ("kernel stored raw", stat.huge_pages as f64, "pages"),
        ("kernel compr_data", stat.compr_data_size as f64 / MIB as f64, "MiB"),
        ("kernel mem_used", used / MIB as f64, "MiB"),
        ("kernel mem_used of original", used / *bytes as f64 * 100.0, "%"),
        ("kernel write", rate(write_seconds.median), "MB/s"),
        ("kernel write, slowest", rate(write_seconds.max), "MB/s"),
        ("kernel write, fastest", rate(write_seconds.min), "MB/s"),
        ("kernel read", rate(read_seconds.median), "MB/s"),
        ("kernel read, slowest", rate(read_seconds.max), "MB/s"),
        ("kernel read, fastest", rate(read_seconds.min), "MB/s"),
    ] {
        report.add(Figure::new(NAME, named(input, figure), value, unit))?;
    }
    let name = named(input, "kernel overhead over C");
    report.add(match census.overhead_percent(stat.mem_used_total) {
        Some(percent) => Figure::new(NAME, name, percent, "%"),
        None => Figure::missing(NAME, name, "%"),
    })
}

fn report_absent(input: Input, reason: &str, report: &mut Report<'_>) -> Result<(), Error> {
    for (figure, unit) in
        [("kernel overhead over C", "%"), ("kernel write", "MB/s"), ("kernel read", "MB/s")]
    {
        report.add(Figure::missing(NAME, named(input, figure), unit).rival_absent(reason))?;
    }
    Ok(())
}
