//! The kernel's geometry in uzram's allocator compared with the kernel's own allocator: the same
//! pages and the same codec must use the same bytes of pool.

use zram::{Config, Device, MmStat};
use zsmalloc::{Geometry, KernelGeometry};

use super::Request;

use crate::Error;
use crate::aligned::AlignedBuf;
use crate::filled::{self, kernel_stat};
use crate::inputs::Input;
use crate::kernel::{self, Rival};
use crate::report::{Bound, Figure, Report};
use crate::size::mebibytes;

const NAME: &str = "parity";
/// The maximum difference between uzram's and the kernel's figures, in percent.
const APART_MAX: f64 = 0.5;

pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    for input in request.inputs(&Input::ALL) {
        let pages = request.pages(input)?.load()?;
        let ours = ours(&pages)?;
        match kernel_stat(&pages)? {
            Rival::Present(kernel) => figures(input, &ours, &kernel, report)?,
            Rival::Absent(reason) => {
                let figure = Figure::missing(NAME, format!("{}/mem_used apart", input.name()), "%");
                report.add(figure.rival_absent(&reason))?;
            }
        }
    }
    Ok(())
}

fn ours(pages: &AlignedBuf) -> Result<MmStat, Error> {
    let config = Config::new(pages.len() as u64)?;
    let geometry = Geometry::Kernel(KernelGeometry::default());
    let device = Device::new(Config { geometry, ..config })?;
    filled::write(&device, pages)?;
    filled::verify(&device, pages)?;
    Ok(device.mm_stat())
}

fn figures(
    input: Input,
    ours: &MmStat,
    kernel: &kernel::MmStat,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    for (name, ours, kernel) in [
        ("compr_data_size", ours.compr_data_size, kernel.compr_data_size),
        ("mem_used_total", ours.mem_used_total, kernel.mem_used_total),
    ] {
        let named = |what: &str| format!("{}/{name}{what}", input.name());
        let value = Figure::new(NAME, named(""), mebibytes(ours), "MiB");
        report.add(value.rival("kernel zram lz4", mebibytes(kernel)))?;
        let apart = (ours as f64 / kernel as f64 - 1.0).abs() * 100.0;
        let apart = Figure::new(NAME, named(", apart"), apart, "%");
        report.add(apart.must(Bound::at_most(APART_MAX)))?;
    }
    Ok(())
}
