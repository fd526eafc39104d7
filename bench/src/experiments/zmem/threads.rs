//! Threads that fault at the same time: the faults per second relative to one thread, compared with
//! the kernel's swap.

use std::thread::available_parallelism;

use fastrand::Rng;

use super::bed::{Paged, Swapped, in_order, touch};
use super::swap::median;
use super::{BACKENDS, LZ4, NAME, Scene, region};
use crate::Error;
use crate::kernel::{KernelSwap, Rival};
use crate::report::{Bound, Figure, Report};
use crate::threads::together;

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
    report.add(match swap {
        Rival::Present(swap) => {
            let kernel = Swapped::new(swap, pages, BLOCK)?;
            figure.rival("the kernel's swap", scaling(&kernel, pages, &offsets, rounds)?)
        }
        Rival::Absent(reason) => figure.rival_absent(&reason),
    })
}

/// Returns the rate of all threads relative to one thread's rate times the available processors.
fn scaling(paged: &dyn Paged, pages: &[u8], offsets: &[usize], rounds: u64) -> Result<f64, Error> {
    let processors = available_parallelism().map_or(1, |count| count.get()).min(THREADS);
    let mut ratios = Vec::new();
    for nth in 0..=rounds {
        let one = seconds(paged, pages, offsets, 1)?;
        let all = seconds(paged, pages, offsets, THREADS)?;
        if nth > 0 {
            ratios.push(one / all / processors as f64);
        }
    }
    Ok(median(ratios.into_iter()))
}

/// Evicts all of the memory. Returns the seconds in which `threads` threads touch it, a part each.
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
        let expected = touch(pages, part);
        if found != expected {
            return Err(Error::Answer { side: 'B', expected, found });
        }
    }
    Ok(done.seconds)
}
