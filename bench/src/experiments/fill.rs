//! Real pages on a uzram device and on the kernel's zram. One figure is a device's memory beyond
//! the compressed bytes. The other figure is the difference between the memory that uzram counts
//! and the memory that it uses.

use crate::census::Census;

use super::Request;
use crate::Error;
use crate::filled::{Filled, kernel_stat};
use crate::inputs::Input;
use crate::report::{Bound, Figure, Report};
use crate::size::mebibytes;

const NAME: &str = "fill";
/// The number of fresh devices that are filled.
const FILLS: usize = 5;
/// The maximum overhead over C of a full device, in percent.
const OVERHEAD_MAX: f64 = 2.0;
/// The maximum difference between counted and used memory, in percent.
const AGREEMENT_MAX: f64 = 3.0;

pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    request.inputs(&Input::ALL).into_iter().try_for_each(|input| one(input, request, report))
}

fn one(input: Input, request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    let pages = request.pages(input)?.load()?;
    let census = Census::of(&pages)?;
    let over = |used: u64| census.overhead_percent(used).unwrap_or(f64::NAN);
    let ours = Filled::median(&pages, FILLS)?;
    let kernel = kernel_stat(&pages)?.map(|stat| over(stat.mem_used_total));
    let figure = |what: &str, value: f64, unit| {
        Figure::new(NAME, format!("{}/{what}", input.name()), value, unit)
    };
    let used = over(ours.mem_used);
    let overhead = figure("overhead over C", used, "%").must(Bound::at_most(OVERHEAD_MAX));
    report.add(overhead.beside("kernel zram lz4", &kernel))?;
    if let Some(kernel) = kernel.present() {
        let share = figure("overhead, ours over the kernel's", used / kernel, "");
        report.add(share.must(Bound::at_most(1.0)))?;
    }
    report.add(figure("everything counted over C", over(ours.mem_total), "%"))?;
    for (what, bytes) in [
        ("C by raw lz4", census.stored_bytes),
        ("mem_used", ours.mem_used),
        ("mem_total", ours.mem_total),
        ("page tables, beside mem_total", ours.page_tables),
    ] {
        report.add(figure(what, mebibytes(bytes), "MiB"))?;
    }
    for (what, taken) in [
        ("process memory off mem_total", ours.held),
        ("machine memory off mem_total", ours.machine_without_tables()),
    ] {
        let apart = figure(what, ours.apart(taken), "%");
        report.add(apart.must(Bound::at_most(AGREEMENT_MAX)))?;
    }
    Ok(())
}
