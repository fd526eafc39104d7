//! Object caches: SLAB's layouts before and after its management data moved out of the slab, and
//! uzram's layout compared with allocators.

mod batches;
mod live;
pub(crate) mod messages;
pub(crate) mod misses;
mod shapes;

pub use live::hold;
pub use misses::exchange_ordered;
pub(crate) use shapes::filled;

use super::Request;
use crate::Error;
use crate::objects::ObjectKind;
use crate::report::{Figure, Report};
use crate::summary::Summary;

const NAME: &str = "slab";
/// The sizes of the objects that are compared with the allocators', in bytes.
const SIZES: [usize; 4] = [32, 64, 192, 512];

/// Runs the experiments: shapes, then times, then memory.
pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    shapes::run(report)?;
    batches::run(request, report)?;
    messages::run(request, report)?;
    misses::run(request, report)?;
    live::run(request, report)
}

/// Returns uzram's caches and the rivals that are built in.
fn kinds() -> Vec<ObjectKind> {
    ObjectKind::ALL.into_iter().filter(|kind| kind.is_here()).collect()
}

fn median(values: &[f64]) -> f64 {
    Summary::of(values).map_or(f64::NAN, |summary| summary.median)
}

fn figure(name: String, value: f64, unit: &'static str) -> Figure {
    Figure::new(NAME, name, value, unit)
}
