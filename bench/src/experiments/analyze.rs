//! `uzram analyze` forecasts memory from a sample of an input. The forecast is compared with the
//! memory of a device that holds the whole input.

use std::env::temp_dir;
use std::fs;
use std::process::Command;

use serde::Deserialize;
use zcomp::Params;
use zram::{Config, Device};

use super::Request;
use crate::Error;
use crate::filled::{settle, verify, write};
use crate::inputs::Input;
use crate::report::{Bound, Figure, Report};
use crate::tool::{BUILD, Tool, built};
use crate::undo::folder;

const NAME: &str = "analyze";
const UZRAM: Tool = Tool { name: "uzram", package: "uzram", remedy: BUILD };
/// The block sizes that are tried, and the algorithms that are tried at their default levels.
const TRIED: [&str; 10] =
    ["--block", "4K", "--block", "16K", "--block", "64K", "--try", "lz4", "--try", "zstd"];
/// The size of the sample in bytes, which is the default of the command.
const SAMPLE: u64 = 64 << 20;
/// The maximum error of a forecast, in percent of the device's memory.
const OFF_MAX: f64 = 3.0;

/// The forecasts in the command's report.
#[derive(Debug, Deserialize)]
struct Forecasts {
    candidates: Vec<Forecast>,
}

#[derive(Debug, Deserialize)]
struct Forecast {
    algorithm: String,
    level: i32,
    block_bytes: usize,
    dictionary_bytes: u64,
    memory_bytes: f64,
    error_bytes: f64,
}

pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    for input in request.inputs(&Input::ALL) {
        let pages = request.pages(input)?.load()?;
        let forecasts = forecasts(&pages, request.seed)?;
        for forecast in forecasts.candidates.iter().filter(|of| of.dictionary_bytes == 0) {
            one(input, &pages, forecast, report)?;
        }
    }
    Ok(())
}

/// Returns the command's forecasts for a file that contains `pages`.
fn forecasts(pages: &[u8], seed: u64) -> Result<Forecasts, Error> {
    // The sample of a small input is a quarter of the input, but at least 1 MiB.
    let sample = SAMPLE.min((pages.len() as u64 / 4).max(1 << 20));
    let room = "set TMPDIR to a directory with as much room as the input";
    let (dir, _undo) = folder("uzram-bench-analyze-", &temp_dir(), room)?;
    let file = dir.join("pages");
    fs::write(&file, pages).map_err(Error::file("write to", &file, room))?;
    let mut command = Command::new(built("uzram"));
    command.args(["analyze", "--json"]).args(TRIED).arg(&file);
    command.args(["--sample", &sample.to_string(), "--seed", &seed.to_string()]);
    let output = UZRAM.run(&mut command)?;
    serde_json::from_slice(&output.stdout).map_err(|why| UZRAM.failed(why.to_string()))
}

fn one(
    input: Input,
    pages: &[u8],
    forecast: &Forecast,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let Forecast { algorithm: name, level, block_bytes: block, .. } = forecast;
    let params = Params { level: Some(*level), ..Params::default() };
    let (algorithm, block) = (zcomp::by_name(name)?, *block);
    let config = Config { algorithm, params, block, ..Config::new(pages.len() as u64)? };
    let device = Device::new(config)?;
    write(&device, pages)?;
    settle();
    let taken = device.mem_total() as f64;
    verify(&device, pages)?;
    let what = format!("{}/{name} {level}, {} KiB", input.name(), block >> 10);
    let of_taken = |bytes: f64| bytes / taken * 100.0;
    let off = of_taken((forecast.memory_bytes - taken).abs());
    let off = Figure::new(NAME, format!("{what}: forecast off what it takes"), off, "%");
    let error = of_taken(forecast.error_bytes);
    report.add(off.must(Bound::at_most(OFF_MAX)).rival("error of the sample", error))
}
