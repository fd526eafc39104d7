//! Threads that fault at the same time. The ratio of their faults per second to one thread's is
//! compared with the kernel's ratio.

use std::thread::available_parallelism;

use fastrand::Rng;

use super::bed::{Paged, Swapped, in_order, touch};
use super::{BACKENDS, LZ4, NAME, Scene, region};
use crate::Error;
use crate::kernel::KernelSwap;
use crate::report::{Bound, Figure, Report};
use crate::summary::ratio;
use crate::threads::together;
use crate::turns::in_turns;

const THREADS: usize = 8;
const ROUNDS: u64 = 7;
const BLOCK: usize = 4 << 10;
const SCALING_MIN: f64 = 0.8;

pub(super) fn run(scene: &Scene<'_>, report: &mut Report<'_>) -> Result<(), Error> {
    let Scene { request, input, pages, backend } = *scene;
    let mut offsets = in_order(pages.len(), BLOCK);
    Rng::with_seed(request.seed).shuffle(&mut offsets);
    let rounds = request.operations.unwrap_or(ROUNDS);
    let ours = region(pages, LZ4, BLOCK, BACKENDS[backend])?;
    let name = ours.stats().backend;
    let own = scaling(&ours, pages, &offsets, rounds)?;
    drop(ours);
    let what = format!(
        "{}/{name}: {THREADS} threads at once, over one thread's rate times processors",
        input.name()
    );
    let figure = scene.judged(Figure::new(NAME, what, own, ""), Bound::at_least(SCALING_MIN));
    let swap = KernelSwap::acquire("lz4", 2 * pages.len() as u64, BLOCK)?;
    let kernel =
        swap.try_map(|swap| scaling(&Swapped::new(swap, pages, BLOCK)?, pages, &offsets, rounds))?;
    report.add(figure.beside("the kernel's swap", &kernel))
}

/// Returns the rate of all threads, divided by one thread's rate and by the number of processors.
fn scaling(paged: &dyn Paged, pages: &[u8], offsets: &[usize], rounds: u64) -> Result<f64, Error> {
    let processors = available_parallelism().map_or(1, |count| count.get()).min(THREADS);
    let threads = [1, THREADS];
    let times = in_turns(2, rounds, |side| seconds(paged, pages, offsets, threads[side]))?;
    Ok(ratio(&times[0], &times[1]) / processors as f64)
}

/// Evicts all of the memory. Returns the seconds in which `threads` threads touch it, each a part.
fn seconds(
    paged: &dyn Paged,
    pages: &[u8],
    offsets: &[usize],
    threads: usize,
) -> Result<f64, Error> {
    paged.out()?;
    let parts: Vec<&[usize]> = offsets.chunks(offsets.len().div_ceil(threads)).collect();
    let done = together(parts.len(), |nth| Ok(touch(paged.bytes(), parts[nth])))?;
    for (part, &found) in parts.iter().zip(&done.answers) {
        Error::answer('B', touch(pages, part), found)?;
    }
    Ok(done.seconds)
}
