//! The times to evict and to fill blocks of 16 KiB, relative to the times with blocks of 4 KiB. The
//! algorithm is zstd, as in the patch series. The ratios of a region are compared with the raw
//! codec's ratios.

use measure::clock::{Clock, Stopwatch};

use super::bed::{in_order, touch};
use super::decoder::Decoder;
use super::held::Held;
use super::{NAME, PAGE, Scene};
use crate::Error;
use crate::method::ZSTD;
use crate::report::{Bound, Figure, Report};
use crate::summary::{median, ratio};
use crate::turns::{each, in_turns};

const ROUNDS: u64 = 7;
const SMALL: usize = 4 << 10;
const LARGE: usize = 16 << 10;
/// The maximum by which the region's ratio of eviction times is allowed to exceed the raw codec's
/// ratio of compression times.
const BEYOND_MAX: f64 = 0.03;
const IN_MAX: f64 = 0.67;

/// The seconds of a round with blocks of one size, for uzram and for the raw codec.
struct Round {
    out: f64,
    back: f64,
    raw_out: f64,
    raw_back: f64,
}

pub(super) fn run(scene: &Scene<'_>, report: &mut Report<'_>) -> Result<(), Error> {
    let Scene { request, input, pages, backend } = *scene;
    let words = in_order(pages.len(), PAGE);
    let expected = touch(pages, &words);
    let side = |block| {
        let held = Held::start(pages, ZSTD, block, backend)?;
        Ok::<_, Error>((held, Decoder::new(pages, ZSTD, block)?, block))
    };
    let mut sides = [side(SMALL)?, side(LARGE)?];
    let rounds = in_turns(2, request.operations.unwrap_or(ROUNDS), |side| {
        let (held, decoder, block) = &mut sides[side];
        let took = held.round(&words, expected)?;
        let raw_back = decoder.seconds(&in_order(pages.len(), *block))?;
        let raw_out = compress(pages, *block)?;
        Ok(Round { out: took.out, back: took.back, raw_out, raw_back })
    })?;
    let over = |part: fn(&Round) -> f64| {
        let [small, large] = [0, 1].map(|side| each(&rounds[side], part));
        (ratio(&large, &small), large.into_iter().zip(small).map(|(large, small)| large / small))
    };
    let (out, outs) = over(|round| round.out);
    let (raw, raws) = over(|round| round.raw_out);
    let beyond = median(outs.zip(raws).map(|(ours, raw)| ours - raw));
    let what = format!("{}/{}, {ZSTD}, 16 over 4 KiB", input.name(), sides[0].0.backend);
    let figure = |part: &str, value| Figure::new(NAME, format!("{what}: {part}"), value, "");
    let codec = format!("raw {ZSTD}");
    report.add(figure("out", out).rival(&codec, raw))?;
    let beyond = figure("out, beyond the raw codec's", beyond);
    report.add(scene.judged(beyond, Bound::at_most(BEYOND_MAX)))?;
    let back = figure("in", over(|round| round.back).0);
    let back = back.rival(codec, over(|round| round.raw_back).0);
    report.add(scene.judged(back, Bound::at_most(IN_MAX)))
}

/// Returns the seconds of processor time in which the raw codec compresses all blocks.
fn compress(pages: &[u8], block: usize) -> Result<f64, Error> {
    let (mut codec, mut watch) = (ZSTD.raw(block)?, Stopwatch::new(Clock::ThreadCpu));
    watch.time(|| {
        pages.chunks_exact(block).try_for_each(|block| codec.compress(block).map(|_| ()))
    })?;
    Ok(watch.seconds())
}
