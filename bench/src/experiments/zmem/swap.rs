//! A heap that is evicted and filled again. Fills in order are compared with the kernel's swap. The
//! time of a random fill is compared with a sum: a fault on a same-filled block plus the decoding
//! of a block.

use fastrand::Rng;

use super::bed::{Swapped, Took, in_order, round, touch};
use super::decoder::Decoder;
use super::held::Held;
use super::{BACKENDS, LZ4, NAME, PAGE, Scene, region};
use crate::Error;
use crate::kernel::{KernelSwap, Rival};
use crate::report::{Bound, Figure, Report};
use crate::summary::{median, ratio};
use crate::turns::{each, in_turns};

/// The default number of rounds. The patch series measured 100 rounds.
const ROUNDS: u64 = 12;
const BLOCKS: [usize; 2] = [4 << 10, 16 << 10];
const OVER_KERNEL_MAX: f64 = 1.0;
const RANDOM_OVER_KERNEL_MAX: f64 = 1.4;
const FASTEST_OVER_KERNEL_MAX: f64 = 1.1;
const OVER_NULL_MAX: f64 = 1.15;

type Part = fn(&Took) -> f64;

const PARTS: [(&str, Part, Option<f64>); 4] = [
    ("out", |took| took.out, Some(OVER_KERNEL_MAX)),
    ("in", |took| took.back, Some(OVER_KERNEL_MAX)),
    ("out, processor time", |took| took.out_cpu, None),
    ("in, processor time", |took| took.back_cpu, None),
];
const BACK: Part = |took| took.back;

/// Runs the experiment with lz4, in blocks of 4 and 16 KiB. Returns the time of random touches
/// relative to the kernel's time, by block size, if the kernel's swap is available.
pub(super) fn run(
    scene: &Scene<'_>,
    report: &mut Report<'_>,
) -> Result<Vec<(usize, Rival<f64>)>, Error> {
    BLOCKS.into_iter().map(|block| Ok((block, one(scene, block, report)?))).collect()
}

fn one(scene: &Scene<'_>, block: usize, report: &mut Report<'_>) -> Result<Rival<f64>, Error> {
    let Scene { request, input, pages, backend } = *scene;
    // The swap is acquired first. While it exists, the system uses folios of the block's size, also
    // for uzram's region.
    let swap = KernelSwap::acquire("lz4", 2 * pages.len() as u64, block)?;
    let mut ours = Held::start(pages, LZ4, block, backend)?;
    let kernel = swap.try_map(|swap| Swapped::new(swap, pages, block))?;
    let what = format!("{}/{}, {} KiB blocks", input.name(), ours.backend, block >> 10);
    let words = in_order(pages.len(), PAGE);
    let times = Times::of(scene, &kernel, &words, |expected| ours.round(&words, expected))?;
    for (part, of, most) in PARTS {
        times.report(scene, &format!("{what}, in order: {part}"), of, most, report)?;
    }
    let mut shuffled = in_order(pages.len(), block);
    Rng::with_seed(request.seed).shuffle(&mut shuffled);
    let times = Times::of(scene, &kernel, &shuffled, |expected| ours.round(&shuffled, expected))?;
    let random = format!("{what}, at random: in");
    times.report(scene, &random, BACK, Some(RANDOM_OVER_KERNEL_MAX), report)?;
    let over_kernel = times.over_kernel(BACK);
    over_null(scene, &random, &mut ours, block, &shuffled, report)?;
    let beside = region(pages, LZ4, block, BACKENDS[backend])?;
    let times =
        Times::of(scene, &kernel, &shuffled, |expected| round(&beside, &shuffled, expected))?;
    let random = format!("{what}, beside another thread, at random: in");
    times.report(scene, &random, BACK, None, report)?;
    Ok(over_kernel)
}

/// The durations of rounds in which both sides touch the same pages: uzram's and the kernel's.
struct Times {
    ours: Vec<Took>,
    kernel: Rival<Vec<Took>>,
    /// The number of touches in a round.
    faults: usize,
}

impl Times {
    /// Executes rounds of uzram and of the kernel, in turns. `ours` executes a round of uzram. Its
    /// argument is the expected checksum.
    fn of(
        scene: &Scene<'_>,
        kernel: &Rival<Swapped>,
        offsets: &[usize],
        mut ours: impl FnMut(u64) -> Result<Took, Error>,
    ) -> Result<Times, Error> {
        let expected = touch(scene.pages, offsets);
        let rounds = scene.request.operations.unwrap_or(ROUNDS);
        let sides = if matches!(kernel, Rival::Present(_)) { 2 } else { 1 };
        let mut all = in_turns(sides, rounds, |side| match kernel {
            Rival::Present(kernel) if side == 1 => round(kernel, offsets, expected),
            _ => ours(expected),
        })?
        .into_iter();
        let mut next = || all.next().unwrap_or_default();
        let (ours, faults) = (next(), offsets.len());
        Ok(Times { ours, kernel: kernel.as_ref().map(|_| next()), faults })
    }

    /// Reports the median time of a touch in one phase of the rounds (`of`), alone and relative to
    /// the kernel's time.
    fn report(
        &self,
        scene: &Scene<'_>,
        what: &str,
        of: Part,
        most: Option<f64>,
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        let micros = |took: &Vec<Took>| median(took.iter().map(of)) * 1e6 / self.faults as f64;
        let told = Figure::new(NAME, format!("{what}, each"), micros(&self.ours), "us");
        report.add(told.beside("the kernel's swap", &self.kernel.as_ref().map(micros)))?;
        let Rival::Present(ratio) = self.over_kernel(of) else { return Ok(()) };
        let figure = Figure::new(NAME, format!("{what}, over the kernel's"), ratio, "");
        report.add(match most {
            Some(most) => scene.judged(figure, Bound::at_most(most)),
            None => figure,
        })
    }

    /// Returns uzram's time in one phase of the rounds (`of`) relative to the kernel's time.
    fn over_kernel(&self, of: Part) -> Rival<f64> {
        let ours = each(&self.ours, of);
        self.kernel.as_ref().map(|kernel| ratio(&ours, &each(kernel, of)))
    }
}

/// Reports the fastest backend's time for random touches relative to the kernel's time.
pub(super) fn add_best(
    input: &str,
    at_random: &[(usize, Rival<f64>)],
    report: &mut Report<'_>,
) -> Result<(), Error> {
    for block in BLOCKS {
        let what = format!(
            "{input}/the fastest backend, {} KiB blocks, at random: in, over the kernel's",
            block >> 10
        );
        let of_block = at_random.iter().filter(|(of, _)| *of == block);
        let ratios: Option<Vec<f64>> =
            of_block.map(|(_, ratio)| ratio.as_ref().present().copied()).collect();
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

/// Reports the time of a random fault, relative to a sum: a fault on a same-filled block plus the
/// decoding of a block.
fn over_null(
    scene: &Scene<'_>,
    what: &str,
    ours: &mut Held,
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
    let (own, expected) = (touch(pages, offsets), touch(&of_a_word, offsets));
    drop(of_a_word);
    let mut raw = Decoder::new(pages, LZ4, block)?;
    let seconds = in_turns(3, request.operations.unwrap_or(ROUNDS), |side| {
        Ok(match side {
            0 => ours.round(offsets, own)?.back,
            1 => null.round(offsets, expected)?.back,
            _ => raw.seconds(offsets)?,
        })
    })?;
    let bare = seconds[1].iter().zip(&seconds[2]).map(|(bare, decoded)| bare + decoded);
    let over = ratio(&seconds[0], &bare.collect::<Vec<_>>());
    let what = format!("{what}, over a fault without a codec and decoding");
    let figure = Figure::new(NAME, what, over, "");
    report.add(scene.judged(figure, Bound::at_most(OVER_NULL_MAX)))
}
