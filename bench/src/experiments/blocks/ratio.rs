//! Whole inputs in blocks of 4, 16 and 64 KiB: memory relative to the raw codec's output for such
//! blocks.

use super::{LZ4, Method, ZSTD, all_stored, settled};
use crate::Error;
use crate::experiments::Request;
use crate::filled::{verify, write};
use crate::inputs::Input;
use crate::report::{Bound, Figure, Report};

const NAME: &str = "blocks-ratio";
const BLOCKS: [usize; 3] = [4 << 10, 16 << 10, 64 << 10];
/// The maximum ratio of the bytes in used pages to C.
const OVER_RAW_MAX: f64 = 1.02;

pub(in super::super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    for input in request.inputs(&[Input::Heap, Input::Source]) {
        let pages = request.pages(input)?.load()?;
        for method in [ZSTD, LZ4] {
            for block in BLOCKS {
                one(input, &pages, method, block, report)?;
            }
        }
    }
    Ok(())
}

fn one(
    input: Input,
    pages: &[u8],
    method: Method,
    block: usize,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let stored = all_stored(pages, block, &mut method.raw(block)?)?;
    let device = method.device(pages.len(), block)?;
    write(&device, pages)?;
    let used = settled(&device);
    verify(&device, pages)?;
    let what = format!("{}/{method}, {} KiB", input.name(), block >> 10);
    let of_all = |bytes: u64| bytes as f64 / pages.len() as f64 * 100.0;
    let over = used as f64 / stored as f64;
    let over = Figure::new(NAME, format!("{what}: memory over the raw codec's bytes"), over, "");
    report.add(over.must(Bound::at_most(OVER_RAW_MAX)))?;
    let told = Figure::new(NAME, format!("{what}: memory over original"), of_all(used), "%");
    report.add(told.rival(format!("raw {method}"), of_all(stored)))
}
