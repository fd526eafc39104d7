//! Memory that is paged out and touched again (the multi-page series of 2024): regions of ours, by
//! each backend, beside the kernel's swap on a zram device of its own.

mod bed;
mod orders;
mod ratio;
mod swap;
mod threads;

use zmem::{BackendKind, BlockOrder, Options, Region};

use super::Request;
use super::blocks::{LZ4, Method};
use crate::Error;
use crate::inputs::Input;
use crate::report::Report;
use crate::size::MIB;

const NAME: &str = "zmem";
/// What the series paged out and in.
const BYTES: u64 = 100 * MIB;
/// Backends that are measured.
const BACKENDS: [BackendKind; 1] = [BackendKind::Signal];

/// One after the other.
pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    for input in request.inputs(&[Input::Heap]) {
        let pages = request.pages(input)?.capped(request.limit.unwrap_or(BYTES)).load()?;
        let pages = whole_blocks(&pages);
        ratio::run(input, pages, report)?;
        for backend in BACKENDS {
            swap::run(request, input, pages, backend, report)?;
            orders::run(request, input, pages, backend, report)?;
            threads::run(request, input, pages, backend, report)?;
        }
    }
    Ok(())
}

/// A region that holds `pages`, in blocks of `block` bytes.
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

/// As many whole blocks of 64 KiB as there are.
fn whole_blocks(pages: &[u8]) -> &[u8] {
    const LARGEST: usize = 64 << 10;
    &pages[..pages.len() / LARGEST * LARGEST]
}
