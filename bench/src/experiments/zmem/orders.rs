//! Blocks of 16 KiB relative to blocks of 4 KiB with zstd, as in the series, compared with the raw
//! codec's ratio.

use measure::clock::{Clock, Stopwatch};

use super::bed::{in_order, touch};
use super::decoder::Decoder;
use super::held::Held;
use super::swap::median;
use super::{NAME, Scene};
use crate::Error;
use crate::experiments::blocks::ZSTD;
use crate::report::{Bound, Figure, Report};

const ROUNDS: u64 = 7;
const PAGE: usize = 4096;
const SMALL: usize = 4 << 10;
const LARGE: usize = 16 << 10;
/// The maximum of the difference between the region's ratio of store times and the raw codec's
/// ratio.
const BEYOND_MAX: f64 = 0.03;
const IN_MAX: f64 = 0.67;

pub(super) fn run(scene: &Scene<'_>, report: &mut Report<'_>) -> Result<(), Error> {
    let Scene { request, input, pages, backend } = *scene;
    let mut small = Held::start(pages, ZSTD, SMALL, backend)?;
    let mut large = Held::start(pages, ZSTD, LARGE, backend)?;
    let words = in_order(pages.len(), PAGE);
    let expected = touch(pages, &words);
    let (mut outs, mut ins, mut raws) = (Vec::new(), Vec::new(), Vec::new());
    let mut raw_small = Decoder::new(pages, ZSTD, SMALL)?;
    let mut raw_large = Decoder::new(pages, ZSTD, LARGE)?;
    let [smalls, larges] = [SMALL, LARGE].map(|block| in_order(pages.len(), block));
    let mut raw_ins = Vec::new();
    for nth in 0..=request.operations.unwrap_or(ROUNDS) {
        let [small, large] = [small.round(&words, expected)?, large.round(&words, expected)?];
        let raw = compress(pages, LARGE)? / compress(pages, SMALL)?;
        let raw_in = raw_large.seconds(&larges)? / raw_small.seconds(&smalls)?;
        if nth > 0 {
            raw_ins.push(raw_in);
            outs.push(large.out / small.out);
            ins.push(large.back / small.back);
            raws.push(raw);
        }
    }
    let beyond = median(outs.iter().zip(&raws).map(|(ours, raw)| ours - raw));
    let what = format!("{}/{}, {ZSTD}, 16 over 4 KiB", input.name(), small.backend);
    let raw = median(raws.into_iter());
    let out = Figure::new(NAME, format!("{what}: out"), median(outs.into_iter()), "");
    report.add(out.rival(format!("raw {ZSTD}"), raw))?;
    let figure = Figure::new(NAME, format!("{what}: out, beyond the raw codec's"), beyond, "");
    report.add(scene.judged(figure, Bound::at_most(BEYOND_MAX)))?;
    let figure = Figure::new(NAME, format!("{what}: in"), median(ins.into_iter()), "");
    let figure = figure.rival(format!("raw {ZSTD}"), median(raw_ins.into_iter()));
    report.add(scene.judged(figure, Bound::at_most(IN_MAX)))
}

/// Returns the seconds of processor time in which the raw codec compresses all blocks.
fn compress(pages: &[u8], block: usize) -> Result<f64, Error> {
    let (mut codec, mut watch) = (ZSTD.raw(block)?, Stopwatch::new(Clock::ThreadCpu));
    watch.time(|| {
        pages.chunks_exact(block).try_for_each(|block| codec.compress(block).map(|_| ()))
    })?;
    Ok(watch.seconds())
}
