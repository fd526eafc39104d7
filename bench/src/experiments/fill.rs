//! Real pages on a uzram device and on the kernel's zram: the overhead of each over the compressed
//! bytes, and the difference between the memory that uzram counts and the memory that it uses.

use crate::census::Census;

use super::Request;
use crate::Error;
use crate::filled::{Filled, kernel_stat};
use crate::inputs::Input;
use crate::kernel::Rival;
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
    for input in request.inputs(&Input::ALL) {
        let pages = request.pages(input)?.load()?;
        let census = Census::of(&pages)?;
        let ours = Filled::median(&pages, FILLS)?;
        let kernel = kernel_stat(&pages)?.map(|stat| stat.mem_used_total);
        figures(&ours, input, &census, &kernel, report)?;
    }
    Ok(())
}

fn figures(
    ours: &Filled,
    input: Input,
    census: &Census,
    kernel: &Rival<u64>,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let named = |figure: &str| format!("{}/{figure}", input.name());
    let over = |used: u64| census.overhead_percent(used).unwrap_or(f64::NAN);
    let beside = |figure: Figure, of: &dyn Fn(u64) -> f64| match kernel {
        Rival::Present(used) => figure.rival("kernel zram lz4", of(*used)),
        Rival::Absent(reason) => figure.rival_absent(reason),
    };
    let overhead = Figure::new(NAME, named("overhead over C"), over(ours.mem_used), "%");
    report.add(beside(overhead.must(Bound::at_most(OVERHEAD_MAX)), &over))?;
    if let Rival::Present(used) = kernel {
        let share = over(ours.mem_used) / over(*used);
        let figure = Figure::new(NAME, named("overhead, ours over the kernel's"), share, "");
        report.add(figure.must(Bound::at_most(1.0)))?;
    }
    let all = over(ours.mem_total);
    report.add(Figure::new(NAME, named("everything counted over C"), all, "%"))?;
    for (figure, bytes) in [
        ("C by raw lz4", census.stored_bytes),
        ("mem_used", ours.mem_used),
        ("mem_total", ours.mem_total),
        ("page tables, beside mem_total", ours.page_tables),
    ] {
        report.add(Figure::new(NAME, named(figure), mebibytes(bytes), "MiB"))?;
    }
    let held = Figure::new(NAME, named("process memory off mem_total"), ours.apart(ours.held), "%");
    report.add(held.must(Bound::at_most(AGREEMENT_MAX)))?;
    let machine = Figure::new(
        NAME,
        named("machine memory off mem_total"),
        ours.apart(ours.machine_without_tables()),
        "%",
    );
    report.add(machine.must(Bound::at_most(AGREEMENT_MAX)))
}
