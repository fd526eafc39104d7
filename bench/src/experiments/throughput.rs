//! The throughput of a uzram device with lz4 in the same process, relative to the raw codec and to
//! the kernel's device with direct I/O, all in turns.

mod bed;

use bed::{Bed, Job, Side};

use super::Request;
use crate::Error;
use crate::pairing::paired;
use crate::report::{Bound, Figure, Report};
use crate::size::MIB;

const NAME: &str = "throughput";
const ROUNDS: usize = 7;
/// The bytes of each input that are stored by default.
const LIMIT: u64 = 256 * MIB;
/// The minimum ratio of the device's scaling to two threads to the raw codec's scaling.
const SCALING_MIN: f64 = 0.95;
/// The minimum throughput of filling a fresh device, relative to the raw codec's throughput.
const FILL_MIN: f64 = 0.8;

/// A job, the number of pages of a request, and the minimum throughput relative to the raw codec
/// and to the kernel.
struct Row {
    what: &'static str,
    job: Job,
    each: usize,
    over_raw: Option<f64>,
    over_kernel: Option<f64>,
}

/// The jobs, in this order: the first finds the device freshly filled. The last finds it
/// overwritten many times, so that the objects of neighbouring slots are scattered.
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
    let mut seconds = [const { Vec::new() }; 3];
    for round in 0..=ROUNDS {
        let times = bed.round(row.job, row.each)?;
        // The first round warms up.
        if round > 0 {
            seconds.iter_mut().zip(times).for_each(|(row, time)| row.push(time));
        }
    }
    bed.check()?;
    let [raw, ours, kernel] = seconds;
    let what = format!("{input}/{}", row.what);
    let bound = |figure: Figure, least: Option<f64>| match least {
        Some(least) => figure.must(Bound::at_least(least)),
        None => figure,
    };
    let over_raw = paired(&raw, &ours)?;
    let figure = Figure::new(NAME, format!("{what}, ours over raw lz4"), over_raw.ratio.median, "");
    report.add(bound(figure, row.over_raw))?;
    let rate = |seconds: f64| bed.bytes() as f64 / 1e6 / seconds;
    let figure = Figure::new(NAME, what.clone(), rate(over_raw.b.median), "MB/s");
    report.add(figure.rival("raw lz4", rate(over_raw.a.median)))?;
    let told = format!("{what}, ours over kernel zram");
    if let Some(reason) = bed.kernel_absent() {
        let missing = Figure::missing(NAME, told, "").rival_absent(reason);
        return report.add(bound(missing, row.over_kernel));
    }
    let over_kernel = paired(&kernel, &ours)?;
    let figure = Figure::new(NAME, told, over_kernel.ratio.median, "");
    let figure = figure.rival("kernel zram lz4, MB/s", rate(over_kernel.a.median));
    report.add(bound(figure, row.over_kernel))
}

fn fill(bed: &Bed, input: &str, report: &mut Report<'_>) -> Result<(), Error> {
    let (mut raw, mut ours) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let times = bed.fill()?;
        if round > 0 {
            raw.push(times[0]);
            ours.push(times[1]);
        }
    }
    let ratio = paired(&raw, &ours)?.ratio.median;
    let what = format!("{input}/filling a fresh device by 4 KiB, ours over raw lz4");
    report.add(Figure::new(NAME, what, ratio, "").must(Bound::at_least(FILL_MIN)))
}

/// Reports the device's scaling to two threads relative to the raw codec's scaling.
fn scaling(bed: &Bed, input: &str, report: &mut Report<'_>) -> Result<(), Error> {
    for (job, what) in [(Job::Rewrite, "overwriting"), (Job::Read, "reading")] {
        let scale = |side| -> Result<f64, Error> {
            let one = bed.on_threads(side, job, 1)?;
            Ok(one / bed.on_threads(side, job, 2)?)
        };
        let (mut raw, mut ours) = (Vec::new(), Vec::new());
        for round in 0..=ROUNDS {
            let sides = (scale(Side::Raw)?, scale(Side::Ours)?);
            if round > 0 {
                raw.push(sides.0);
                ours.push(sides.1);
            }
        }
        bed.check()?;
        let compared = paired(&ours, &raw)?;
        let what = format!("{input}/two threads {what}, scaling over raw lz4's");
        let figure = Figure::new(NAME, what, compared.ratio.median, "");
        let figure = figure.must(Bound::at_least(SCALING_MIN));
        report.add(figure.rival("raw lz4's scaling", compared.b.median))?;
    }
    Ok(())
}
