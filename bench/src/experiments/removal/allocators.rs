//! The same removals of the same blobs in a uzram pool and in malloc.

use super::{NAME, RANDOM, Removal};
use crate::Error;
use crate::experiments::compared::{Compared, Moment};
use crate::report::Report;
use crate::stores::{StoreKind, Work};

/// The maximum memory of the full pool, relative to the memory of glibc's malloc.
const FULL_MAX: f64 = 1.01;
/// The maximum memory of the pool after a removal, relative to the memory of the best rival.
const LEFT_MAX: f64 = 0.85;

pub(super) fn run(removal: &Removal, report: &mut Report<'_>) -> Result<(), Error> {
    let all = removal.directories.iter().flat_map(|(_, pages)| pages).copied().collect();
    let compared = dropped(removal, all, "last step", report)?;
    let full = moment("untar", 0);
    compared.report(&full, report)?;
    compared.over(StoreKind::Glibc, FULL_MAX, &full, report)?;
    dropped(removal, removal.random.clone(), RANDOM, report).map(drop)
}

/// Fills the stores and frees the discarded pages.
fn dropped(
    removal: &Removal,
    pages: Vec<u32>,
    name: &str,
    report: &mut Report<'_>,
) -> Result<Compared, Error> {
    let left = moment(name, 1);
    let compared = Compared::run(&removal.blobs, &[Work::Fill, Work::Drop(pages)])?;
    compared.report(&left, report)?;
    compared.over_best(LEFT_MAX, &left, report)?;
    Ok(compared)
}

fn moment(name: &str, nth: usize) -> Moment<'_> {
    Moment { experiment: NAME, name, nth }
}
