//! A heap that is evicted and filled again. Fills in order are compared with the kernel's swap.
//! Random fills are compared with the sum of a fault on a block that needs no codec and the time to
//! decode a block.

use fastrand::Rng;
use zmem::Region;

use super::bed::{Swapped, Took, in_order, round, touch};
use super::decoder::Decoder;
use super::held::Held;
use super::{BACKENDS, LZ4, NAME, Scene, region};
use crate::Error;
use crate::kernel::{KernelSwap, Rival};
use crate::report::{Bound, Figure, Report};
use crate::summary::Summary;

/// The rounds by default; the series had 100.
const ROUNDS: u64 = 12;
const PAGE: usize = 4096;
const BLOCKS: [usize; 2] = [4 << 10, 16 << 10];
const OVER_KERNEL_MAX: f64 = 1.0;
const RANDOM_OVER_KERNEL_MAX: f64 = 1.4;
const FASTEST_OVER_KERNEL_MAX: f64 = 1.1;
const OVER_NULL_MAX: f64 = 1.15;

type Part = fn(&Took) -> f64;

/// Runs the experiment with lz4, in blocks of 4 and 16 KiB. Returns the time of random touches
/// relative to the kernel's time, by block size, if swap is available.
pub(super) fn run(
    scene: &Scene<'_>,
    report: &mut Report<'_>,
) -> Result<Vec<(usize, Option<f64>)>, Error> {
    let Scene { request, input, pages, backend } = *scene;
    let rounds = request.operations.unwrap_or(ROUNDS);
    let mut at_random = Vec::new();
    for block in BLOCKS {
        // The swap is acquired first, because while it exists the system uses folios of the block's
        // size, for both sides.
        let swap = KernelSwap::acquire("lz4", 2 * pages.len() as u64, block)?;
        let mut ours = Held::start(pages, LZ4, block, backend)?;
        let what = format!("{}/{}, {} KiB blocks", input.name(), ours.backend, block >> 10);
        let kernel = match swap {
            Rival::Present(swap) => Rival::Present(Swapped::new(swap, pages, block)?),
            Rival::Absent(reason) => Rival::Absent(reason),
        };
        let words = in_order(pages.len(), PAGE);
        let times = both(&mut ours, &kernel, &words, touch(pages, &words), rounds)?;
        let over_kernel = scene.bound(Bound::at_most(OVER_KERNEL_MAX));
        let parts: [(&str, Part, Option<Bound>); 4] = [
            ("out", |took| took.out, over_kernel),
            ("in", |took| took.back, over_kernel),
            ("out, processor time", |took| took.out_cpu, None),
            ("in, processor time", |took| took.back_cpu, None),
        ];
        for (part, of, most) in parts {
            let what = format!("{what}, in order: {part}");
            add(&what, &times, &kernel, of, most, words.len(), report)?;
        }
        let mut shuffled = in_order(pages.len(), block);
        Rng::with_seed(request.seed).shuffle(&mut shuffled);
        let times = both(&mut ours, &kernel, &shuffled, touch(pages, &shuffled), rounds)?;
        let random = format!("{what}, at random: in");
        let most = scene.bound(Bound::at_most(RANDOM_OVER_KERNEL_MAX));
        add(&random, &times, &kernel, |took| took.back, most, shuffled.len(), report)?;
        at_random.push((block, over_kernel_of(&times, |took| took.back)));
        over_null(scene, &random, block, &shuffled, report)?;
        let mut beside = region(pages, LZ4, block, BACKENDS[backend])?;
        let times = both(&mut beside, &kernel, &shuffled, touch(pages, &shuffled), rounds)?;
        let random = format!("{what}, beside another thread, at random: in");
        add(&random, &times, &kernel, |took| took.back, None, shuffled.len(), report)?;
    }
    Ok(at_random)
}

/// A uzram region, in this process or in a separate process.
trait Ours {
    fn round(&mut self, offsets: &[usize], expected: u64) -> Result<Took, Error>;
}

impl Ours for Region {
    fn round(&mut self, offsets: &[usize], expected: u64) -> Result<Took, Error> {
        round(self, offsets, expected)
    }
}

impl Ours for Held {
    fn round(&mut self, offsets: &[usize], expected: u64) -> Result<Took, Error> {
        Held::round(self, offsets, expected)
    }
}

/// Executes rounds of both sides, in turns. The first round warms up.
fn both(
    ours: &mut dyn Ours,
    kernel: &Rival<Swapped>,
    offsets: &[usize],
    expected: u64,
    rounds: u64,
) -> Result<Vec<(Took, Option<Took>)>, Error> {
    let mut times = Vec::new();
    for nth in 0..=rounds {
        let kernels = || match kernel {
            Rival::Present(kernel) => round(kernel, offsets, expected).map(Some),
            Rival::Absent(_) => Ok(None),
        };
        let pair = if nth % 2 == 0 {
            (ours.round(offsets, expected)?, kernels()?)
        } else {
            let kernels = kernels()?;
            (ours.round(offsets, expected)?, kernels)
        };
        if nth > 0 {
            times.push(pair);
        }
    }
    Ok(times)
}

/// Reports the time of a part of the rounds, alone and relative to the kernel's time.
fn add(
    what: &str,
    times: &[(Took, Option<Took>)],
    kernel: &Rival<Swapped>,
    of: Part,
    most: Option<Bound>,
    faults: usize,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let micros = |seconds: f64| seconds * 1e6 / faults as f64;
    let own = median(times.iter().map(|(ours, _)| micros(of(ours))));
    let told = Figure::new(NAME, format!("{what}, each"), own, "us");
    let Rival::Absent(reason) = kernel else {
        let theirs =
            median(times.iter().filter_map(|(_, theirs)| Some(micros(of(theirs.as_ref()?)))));
        report.add(told.rival("the kernel's swap", theirs))?;
        let ratio = over_kernel_of(times, of).unwrap_or(f64::NAN);
        let figure = Figure::new(NAME, format!("{what}, over the kernel's"), ratio, "");
        return report.add(match most {
            Some(most) => figure.must(most),
            None => figure,
        });
    };
    report.add(told.rival_absent(reason))
}

/// Returns the time of a part of the rounds relative to the kernel's time, if the kernel's swap was
/// measured.
fn over_kernel_of(times: &[(Took, Option<Took>)], of: Part) -> Option<f64> {
    let ratio = |(ours, theirs): &(Took, Option<Took>)| Some(of(ours) / of(theirs.as_ref()?));
    let ratios = times.iter().map(ratio).collect::<Option<Vec<_>>>()?;
    Some(median(ratios.into_iter()))
}

/// Reports the fastest backend's time for random touches relative to the kernel's time.
pub(super) fn add_best(
    input: &str,
    at_random: &[(usize, Option<f64>)],
    report: &mut Report<'_>,
) -> Result<(), Error> {
    for block in BLOCKS {
        let what =
            format!("{input}/the fastest backend, {} KiB blocks, at random: in", block >> 10);
        let of_block = at_random.iter().filter(|(of, _)| *of == block);
        let ratios: Option<Vec<f64>> = of_block.map(|(_, ratio)| *ratio).collect();
        let what = format!("{what}, over the kernel's");
        let figure = match ratios {
            Some(ratios) => {
                Figure::new(NAME, what, ratios.into_iter().fold(f64::INFINITY, f64::min), "")
            }
            None => {
                Figure::missing(NAME, what, "").rival_absent("there is no swap of the kernel's")
            }
        };
        report.add(figure.must(Bound::at_most(FASTEST_OVER_KERNEL_MAX)))?;
    }
    Ok(())
}

/// Reports the time of a random fault relative to a fault on a block of one repeated word, which
/// needs no codec, plus the time to decode a block.
fn over_null(
    scene: &Scene<'_>,
    what: &str,
    block: usize,
    offsets: &[usize],
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let Scene { request, pages, backend, .. } = *scene;
    let mut of_a_word = pages.to_vec();
    for (nth, block) in of_a_word.chunks_mut(block).enumerate() {
        let word = (nth as u64 + 1).to_ne_bytes();
        block.chunks_exact_mut(word.len()).for_each(|place| place.copy_from_slice(&word));
    }
    let mut null = Held::start(&of_a_word, LZ4, block, backend)?;
    let expected = touch(&of_a_word, offsets);
    drop(of_a_word);
    let mut ours = Held::start(pages, LZ4, block, backend)?;
    let own = touch(pages, offsets);
    let mut raw = Decoder::new(pages, LZ4, block)?;
    let mut ratios = Vec::new();
    for nth in 0..=request.operations.unwrap_or(ROUNDS) {
        let faults = ours.round(offsets, own)?.back;
        let bare = null.round(offsets, expected)?.back;
        let decoded = raw.seconds(offsets)?;
        if nth > 0 {
            ratios.push(faults / (bare + decoded));
        }
    }
    let figure = Figure::new(
        NAME,
        format!("{what}, over a fault without a codec and decoding"),
        median(ratios.into_iter()),
        "",
    );
    report.add(scene.judged(figure, Bound::at_most(OVER_NULL_MAX)))
}

pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    Summary::of(&values.collect::<Vec<_>>()).map_or(f64::NAN, |summary| summary.median)
}
