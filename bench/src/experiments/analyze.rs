//! The memory that `uzram analyze` forecasts from a sample of an input, compared with the memory of
//! a device that holds the whole input.

use measure::analyze::{Expected, forecast};
use zcomp::{Codec, Params};
use zram::{Config, Device};

use super::Request;
use crate::Error;
use crate::filled::{verify, write};
use crate::inputs::Input;
use crate::report::{Bound, Figure, Report};
use crate::stores::settle;

const NAME: &str = "analyze";
const BLOCKS: [usize; 3] = [4 << 10, 16 << 10, 64 << 10];
/// The algorithms, each at its default level.
const CODECS: [&str; 2] = ["lz4", "zstd"];
/// The size of the sample in bytes, which is the default of the command.
const SAMPLE: u64 = 64 << 20;
/// The maximum error of a forecast, in percent of the device's memory.
const OFF_MAX: f64 = 3.0;

pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    for input in request.inputs(&Input::ALL) {
        let pages = request.pages(input)?.load()?;
        // A small input is sampled too.
        let sample = SAMPLE.min((pages.len() as u64 / 4).max(1 << 20));
        for name in CODECS {
            let codec = zcomp::by_name(name)?;
            let method = (codec, codec.default_level());
            for expected in forecast(&pages, method, &BLOCKS, (sample, request.seed))? {
                one(input, &pages, method, &expected, report)?;
            }
        }
    }
    Ok(())
}

fn one(
    input: Input,
    pages: &[u8],
    (algorithm, level): (&'static dyn Codec, i32),
    expected: &Expected,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let params = Params { level: Some(level), ..Params::default() };
    let config = Config::new(pages.len() as u64)?;
    let device = Device::new(Config { algorithm, params, block: expected.block, ..config })?;
    write(&device, pages)?;
    settle();
    let taken = device.mem_total() as f64;
    verify(&device, pages)?;
    let what =
        format!("{}/{} {level}, {} KiB", input.name(), algorithm.name(), expected.block >> 10);
    let of_taken = |bytes: f64| bytes / taken * 100.0;
    let off = of_taken((expected.memory as f64 - taken).abs());
    let off = Figure::new(NAME, format!("{what}: forecast off what it takes"), off, "%");
    let error = of_taken(expected.error as f64);
    report.add(off.must(Bound::at_most(OFF_MAX)).rival("error of the sample", error))
}
