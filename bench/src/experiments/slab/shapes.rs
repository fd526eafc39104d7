//! The number of objects per slab, before and after, and the consistency of the caches' slabinfo
//! rows.

use std::sync::Arc;

use slab::{Arena, Layout, Options, RawCache, line_align};

use super::figure;
use crate::Error;
use crate::report::{Bound, Report};
use testkit::s4::CACHES;

/// The number of objects of each cache when its row is read.
const OBJECTS: usize = 10_000;

pub(super) fn run(report: &mut Report<'_>) -> Result<(), Error> {
    let arena = Arena::new(page::Config::default())?;
    for (name, size, before, after) in CACHES {
        for (layout, expected) in [(Layout::LinkedBufctl, before), (Layout::StackU32, after)] {
            let cache = filled(&arena, name, size, layout)?;
            let row = cache.slabinfo();
            let per_slab = row.objperslab as f64;
            let told = format!("{name}/objects per slab, {layout}");
            report.add(figure(told, per_slab, "").must(Bound::equal(expected as f64)))?;
            let wrong = row.num_objs.abs_diff(row.num_slabs * row.objperslab)
                + row.active_objs.abs_diff(OBJECTS)
                + row.active_slabs.saturating_sub(row.num_slabs);
            let told = format!("{name}/row is off by, {layout}");
            report.add(figure(told, wrong as f64, "objects").must(Bound::equal(0.0)))?;
        }
        let native = filled(&arena, name, size, Layout::Native)?;
        let page_share = native.shape().pages as f64;
        let told = format!("{name}/objects per page, native");
        report.add(figure(told, native.shape().objects as f64 / page_share, ""))?;
    }
    Ok(())
}

pub(crate) fn filled(
    arena: &Arc<Arena>,
    name: &str,
    size: usize,
    layout: Layout,
) -> Result<RawCache, Error> {
    let options = Options { layout, ..Options::named(name) };
    let cache = RawCache::with_options(arena, size, line_align(size), options)?;
    (0..OBJECTS).try_for_each(|_| cache.alloc().map(|_| ()))?;
    Ok(cache)
}
