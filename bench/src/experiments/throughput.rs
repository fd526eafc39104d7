//! The throughput of a uzram device with lz4, relative to the raw codec and to the kernel's device.
//! The uzram device is in this process. The kernel's device is used with direct I/O. The codec and
//! both devices take turns.

mod bed;

use bed::{Bed, Job, Side};

use super::Request;
use crate::Error;
use crate::report::{Bound, Figure, Report};
use crate::size::MIB;
use crate::summary::{median, ratio};
use crate::turns::{each, in_turns};

const NAME: &str = "throughput";
const ROUNDS: u64 = 7;
/// The default number of bytes of each input that are stored.
const LIMIT: u64 = 256 * MIB;
/// The minimum ratio of the device's scaling to two threads to the raw codec's scaling.
const SCALING_MIN: f64 = 0.95;
/// The minimum throughput of filling a fresh device, relative to the raw codec's throughput.
const FILL_MIN: f64 = 0.8;

/// A job with its number of pages per request. The bounds are the minimum throughputs relative to
/// the raw codec and to the kernel.
struct Row {
    what: &'static str,
    job: Job,
    each: usize,
    over_raw: Option<f64>,
    over_kernel: Option<f64>,
}

/// The jobs in the order in which they run. Before the first job, the device has just been filled.
/// Before the last job, it has been overwritten many times, so the objects of neighbouring slots
/// are scattered.
const ROWS: [Row; 6] = [
    Row {
        what: "reading by 64 KiB a device just filled",
        job: Job::Read,
        each: 16,
        over_raw: Some(0.88),
        over_kernel: Some(1.1),
    },
    Row {
        what: "overwriting with the same pages by 4 KiB",
        job: Job::Rewrite,
        each: 1,
        over_raw: Some(0.93),
        over_kernel: None,
    },
    Row {
        what: "overwriting with other pages by 4 KiB",
        job: Job::Replace,
        each: 1,
        over_raw: Some(0.93),
        over_kernel: Some(1.2),
    },
    Row {
        what: "overwriting with other pages by 64 KiB",
        job: Job::Replace,
        each: 16,
        over_raw: None,
        over_kernel: Some(1.05),
    },
    Row {
        what: "reading by 4 KiB in random order",
        job: Job::ReadAnywhere,
        each: 1,
        over_raw: Some(0.8),
        over_kernel: Some(1.4),
    },
    Row {
        what: "reading by 64 KiB after all the overwriting",
        job: Job::Read,
        each: 16,
        over_raw: None,
        over_kernel: Some(1.1),
    },
];

pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    for input in request.inputs(&crate::inputs::Input::ALL) {
        let pages = request.pages(input)?.capped(request.limit.unwrap_or(LIMIT)).load()?;
        let mut bed = Bed::new(&pages, request.seed)?;
        drop(pages);
        bed.check()?;
        fill(&bed, input.name(), report)?;
        for row in &ROWS {
            one_thread(&mut bed, input.name(), row, report)?;
        }
        scaling(&bed, input.name(), report)?;
    }
    Ok(())
}

fn one_thread(bed: &mut Bed, input: &str, row: &Row, report: &mut Report<'_>) -> Result<(), Error> {
    // `in_turns` only repeats the rounds here, because the bed itself lets all sides take turns in
    // each round.
    let rounds = in_turns(1, ROUNDS, |_| bed.round(row.job, row.each))?;
    bed.check()?;
    let [raw, ours, kernel] = [0, 1, 2].map(|side| each(&rounds[0], |times| times[side]));
    let what = format!("{input}/{}", row.what);
    let rate = |seconds: &[f64]| bed.bytes() as f64 / 1e6 / median(seconds);
    let figure = Figure::new(NAME, format!("{what}, ours over raw lz4"), ratio(&raw, &ours), "");
    report.add(figure.must(row.over_raw.map(Bound::at_least)))?;
    let figure = Figure::new(NAME, what.clone(), rate(&ours), "MB/s");
    report.add(figure.rival("raw lz4", rate(&raw)))?;
    let what = format!("{what}, ours over kernel zram");
    let figure = match bed.kernel_absent() {
        Some(reason) => Figure::missing(NAME, what, "").rival_absent(reason),
        None => {
            let figure = Figure::new(NAME, what, ratio(&kernel, &ours), "");
            figure.rival("kernel zram lz4, MB/s", rate(&kernel))
        }
    };
    report.add(figure.must(row.over_kernel.map(Bound::at_least)))
}

fn fill(bed: &Bed, input: &str, report: &mut Report<'_>) -> Result<(), Error> {
    let rounds = in_turns(1, ROUNDS, |_| bed.fill())?;
    let over_raw = median(rounds[0].iter().map(|[raw, ours]| raw / ours));
    let what = format!("{input}/filling a fresh device by 4 KiB, ours over raw lz4");
    report.add(Figure::new(NAME, what, over_raw, "").must(Bound::at_least(FILL_MIN)))
}

/// Reports the device's scaling to two threads relative to the raw codec's scaling.
fn scaling(bed: &Bed, input: &str, report: &mut Report<'_>) -> Result<(), Error> {
    for (job, what) in [(Job::Rewrite, "overwriting"), (Job::Read, "reading")] {
        let scales = in_turns(2, ROUNDS, |side| {
            let side = [Side::Raw, Side::Ours][side];
            Ok(bed.on_threads(side, job, 1)? / bed.on_threads(side, job, 2)?)
        })?;
        bed.check()?;
        let what = format!("{input}/two threads {what}, scaling over raw lz4's");
        let figure = Figure::new(NAME, what, ratio(&scales[1], &scales[0]), "");
        let figure = figure.must(Bound::at_least(SCALING_MIN));
        report.add(figure.rival("raw lz4's scaling", median(&scales[0])))?;
    }
    Ok(())
}
