//! The whole source tree on a uzram device, so that the fixed costs of the pool are relatively
//! small. The figures are the overhead over the compressed bytes, compared with the kernel's zram,
//! and the memory that the machine loses. The heap is reported too.

use crate::census::Census;

use super::Request;
use crate::Error;
use crate::filled::{Filled, kernel_stat};
use crate::inputs::Input;
use crate::kernel::Rival;
use crate::report::{Bound, Figure, Report};
use crate::size::mebibytes;

const NAME: &str = "density";
/// The number of fresh devices that are filled.
const FILLS: usize = 5;
/// The maximum overhead of the pool's pages over C, in percent.
const OVERHEAD_MAX: f64 = 0.8;
/// The maximum overhead of all memory over C, in percent.
const ALL_MAX: f64 = 2.0;

/// Checks the figures of the source tree and reports the figures of other inputs.
pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    for input in request.inputs(&[Input::Source, Input::Heap]) {
        let pages = request.whole(input)?.load()?;
        let census = Census::of(&pages)?;
        let ours = Filled::median(&pages, FILLS)?;
        let kernel = kernel_stat(&pages)?.map(|stat| stat.mem_used_total);
        figures(input, &census, &ours, &kernel, report)?;
    }
    Ok(())
}

fn figures(
    input: Input,
    census: &Census,
    ours: &Filled,
    kernel: &Rival<u64>,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let named = |figure: &str| format!("{}/{figure}", input.name());
    let over = |used: u64| census.overhead_percent(used).unwrap_or(f64::NAN);
    let judged = |figure: Figure, most: f64| match input {
        Input::Source => figure.must(Bound::at_most(most)),
        _ => figure,
    };
    let overhead = Figure::new(NAME, named("overhead over C"), over(ours.mem_used), "%");
    report.add(match kernel {
        Rival::Present(used) => {
            judged(overhead, OVERHEAD_MAX).rival("kernel zram lz4", over(*used))
        }
        Rival::Absent(reason) => judged(overhead, OVERHEAD_MAX).rival_absent(reason),
    })?;
    let all = Figure::new(NAME, named("everything counted over C"), over(ours.mem_total), "%");
    report.add(judged(all, ALL_MAX))?;
    let stored = mebibytes(census.stored_bytes);
    report.add(Figure::new(NAME, named("C by raw lz4"), stored, "MiB"))?;
    let taken = mebibytes(ours.machine_without_tables());
    let machine = Figure::new(NAME, named("machine memory taken"), taken, "MiB");
    report.add(machine.rival("mem_total", mebibytes(ours.mem_total)))?;
    let held = Figure::new(NAME, named("process memory taken"), mebibytes(ours.held), "MiB");
    report.add(held.rival("mem_total", mebibytes(ours.mem_total)))
}
