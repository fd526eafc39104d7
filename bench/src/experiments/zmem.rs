//! Memory that is evicted and touched again, as in the kernel's patch series of 2024 on multi-page
//! blocks. uzram's regions, with each backend, are compared with the kernel's swap on a private
//! zram device.

mod bed;
mod decoder;
mod held;
mod laps;
mod orders;
mod ratio;
mod swap;
mod threads;

pub use held::{Order, hold};
pub(crate) use laps::{Laps, kernels as kernel_laps, ours as our_laps};
use zmem::{BackendKind, BlockOrder, Options, Region};

use super::Request;
use crate::Error;
use crate::inputs::Input;
use crate::method::{LZ4, Method};
use crate::report::{Bound, Figure, Report};
use crate::size::MIB;

const NAME: &str = "zmem";
const PAGE: usize = 4096;
/// The number of bytes that the experiment of the patch series paged out and in.
pub(crate) const BYTES: u64 = 100 * MIB;
/// The backends that are measured. The first is the default of a region.
const BACKENDS: [BackendKind; 3] =
    [BackendKind::Signal, BackendKind::Userfaultfd, BackendKind::UserfaultfdSigbus];

/// The settings of a measurement.
struct Scene<'a> {
    request: &'a Request,
    input: Input,
    pages: &'a [u8],
    /// The index of the backend in [`BACKENDS`].
    backend: usize,
}

impl Scene<'_> {
    /// Sets the bound of a figure if the backend is the default. Figures of other backends have no
    /// bound.
    fn judged(&self, figure: Figure, bound: Bound) -> Figure {
        figure.must((self.backend == 0).then_some(bound))
    }
}

pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    for input in request.inputs(&[Input::Heap]) {
        let pages = request.pages(input)?.capped(request.limit.unwrap_or(BYTES)).load()?;
        let pages = whole_blocks(&pages);
        ratio::run(input, pages, report)?;
        let mut at_random = Vec::new();
        for (backend, kind) in BACKENDS.into_iter().enumerate() {
            if let Err(refused) = region(&[0; zram::SLOT_BYTES], LZ4, zram::SLOT_BYTES, kind) {
                let what = format!("{}/{kind:?}: {refused}", input.name());
                report.add(Figure::missing(NAME, what, ""))?;
                continue;
            }
            let scene = Scene { request, input, pages, backend };
            at_random.extend(swap::run(&scene, report)?);
            orders::run(&scene, report)?;
            threads::run(&scene, report)?;
        }
        swap::add_best(input.name(), &at_random, report)?;
    }
    Ok(())
}

/// Returns a region that holds `pages`, in blocks of `block` bytes.
fn region(
    pages: &[u8],
    method: Method,
    block: usize,
    backend: BackendKind,
) -> Result<Region, Error> {
    let order = (block / zram::SLOT_BYTES).trailing_zeros();
    let options = Options {
        block: BlockOrder::Fixed(order),
        codec: zcomp::by_name(method.codec)?,
        params: method.params(),
        backend,
        ..Options::default()
    };
    let mut region = Region::new(pages.len(), options)?;
    region.copy_from_slice(pages);
    Ok(region)
}

/// Returns the longest prefix of `pages` that consists of whole blocks of 64 KiB.
fn whole_blocks(pages: &[u8]) -> &[u8] {
    const LARGEST: usize = 64 << 10;
    &pages[..pages.len() / LARGEST * LARGEST]
}
