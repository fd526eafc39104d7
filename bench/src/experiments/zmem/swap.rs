//! A heap goes out and comes back in order, beside the kernel's swap; and at random, beside what a
//! fault without a codec takes and decoding.

use fastrand::Rng;
use measure::codec::RawCodec;
use zmem::BackendKind;

use super::bed::{Paged, Swapped, Took, in_order, round, touch};
use super::{LZ4, NAME, region};
use crate::Error;
use crate::experiments::Request;
use crate::inputs::Input;
use crate::kernel::{KernelSwap, Rival};
use crate::report::{Bound, Figure, Report};
use crate::summary::Summary;

/// Rounds, where no other number is asked for; the series had 100.
const ROUNDS: u64 = 12;
const PAGE: usize = 4096;
const BLOCKS: [usize; 2] = [4 << 10, 16 << 10];
const OVER_KERNEL_MAX: f64 = 1.0;
const RANDOM_OVER_KERNEL_MAX: f64 = 1.4;
const OVER_NULL_MAX: f64 = 1.15;

type Part = fn(&Took) -> f64;

/// With lz4, in blocks of 4 and 16 KiB.
pub(super) fn run(
    request: &Request,
    input: Input,
    pages: &[u8],
    backend: BackendKind,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let rounds = request.operations.unwrap_or(ROUNDS);
    for block in BLOCKS {
        let ours = region(pages, LZ4, block, backend)?;
        let what = format!("{}/{}, {} KiB blocks", input.name(), ours.stats().backend, block >> 10);
        let swap = KernelSwap::acquire("lz4", 2 * pages.len() as u64, block)?;
        let kernel = match swap {
            Rival::Present(swap) => Rival::Present(Swapped::new(swap, pages, block)?),
            Rival::Absent(reason) => Rival::Absent(reason),
        };
        let words = in_order(pages.len(), PAGE);
        let times = both(&ours, &kernel, &words, touch(pages, &words), rounds)?;
        let parts: [(&str, Part, Option<f64>); 4] = [
            ("out", |took| took.out, Some(OVER_KERNEL_MAX)),
            ("in", |took| took.back, Some(OVER_KERNEL_MAX)),
            ("out, processor time", |took| took.out_cpu, None),
            ("in, processor time", |took| took.back_cpu, None),
        ];
        for (part, of, most) in parts {
            let what = format!("{what}, in order: {part}");
            add(&what, &times, &kernel, of, most, words.len(), report)?;
        }
        let mut shuffled = in_order(pages.len(), block);
        Rng::with_seed(request.seed).shuffle(&mut shuffled);
        let times = both(&ours, &kernel, &shuffled, touch(pages, &shuffled), rounds)?;
        let random = format!("{what}, at random: in");
        let most = Some(RANDOM_OVER_KERNEL_MAX);
        add(&random, &times, &kernel, |took| took.back, most, shuffled.len(), report)?;
        over_null(&random, pages, block, backend, &shuffled, rounds, report)?;
    }
    Ok(())
}

/// Rounds of both, in turns. One round before warms up.
fn both(
    ours: &dyn Paged,
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
            (round(ours, offsets, expected)?, kernels()?)
        } else {
            let kernels = kernels()?;
            (round(ours, offsets, expected)?, kernels)
        };
        if nth > 0 {
            times.push(pair);
        }
    }
    Ok(times)
}

/// Adds what a part of the rounds takes: over the kernel's, and by itself.
fn add(
    what: &str,
    times: &[(Took, Option<Took>)],
    kernel: &Rival<Swapped>,
    of: Part,
    most: Option<f64>,
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
        let ratios =
            times.iter().filter_map(|(ours, theirs)| Some(of(ours) / of(theirs.as_ref()?)));
        let figure = Figure::new(NAME, format!("{what}, over the kernel's"), median(ratios), "");
        return report.add(match most {
            Some(most) => figure.must(Bound::at_most(most)),
            None => figure,
        });
    };
    report.add(told.rival_absent(reason))
}

/// A fault at random over one of a block of one word, which takes no codec, and decoding a block.
fn over_null(
    what: &str,
    pages: &[u8],
    block: usize,
    backend: BackendKind,
    offsets: &[usize],
    rounds: u64,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let mut of_a_word = pages.to_vec();
    for (nth, block) in of_a_word.chunks_mut(block).enumerate() {
        let word = (nth as u64 + 1).to_ne_bytes();
        block.chunks_exact_mut(word.len()).for_each(|place| place.copy_from_slice(&word));
    }
    let null = region(&of_a_word, LZ4, block, backend)?;
    let expected = touch(&of_a_word, offsets);
    drop(of_a_word);
    let ours = region(pages, LZ4, block, backend)?;
    let own = touch(pages, offsets);
    let mut raw = Decoder::new(pages, block)?;
    let mut ratios = Vec::new();
    for nth in 0..=rounds {
        let faults = round(&ours, offsets, own)?.back;
        let bare = round(&null, offsets, expected)?.back;
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
    report.add(figure.must(Bound::at_most(OVER_NULL_MAX)))
}

/// The raw codec, and what it made of all blocks.
pub(super) struct Decoder {
    codec: RawCodec,
    compressed: Vec<Vec<u8>>,
    block: Vec<u8>,
}

impl Decoder {
    fn new(pages: &[u8], block: usize) -> Result<Decoder, Error> {
        let mut codec = LZ4.raw(block)?;
        let compressed = pages
            .chunks_exact(block)
            .map(|block| Ok(codec.compress(block)?.to_vec()))
            .collect::<Result<_, Error>>()?;
        Ok(Decoder { codec, compressed, block: vec![0; block] })
    }

    /// What it takes to decode the blocks at these offsets.
    fn seconds(&mut self, offsets: &[usize]) -> Result<f64, Error> {
        let mut watch = measure::clock::Stopwatch::new(measure::clock::Clock::Wall);
        watch.time(|| {
            offsets.iter().try_for_each(|offset| {
                let compressed = &self.compressed[offset / self.block.len()];
                self.codec.decompress(compressed, &mut self.block)
            })
        })?;
        Ok(watch.seconds())
    }
}

pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    Summary::of(&values.collect::<Vec<_>>()).map_or(f64::NAN, |summary| summary.median)
}
